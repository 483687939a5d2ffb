"""The inference engine: container, converters, text, kernels, models, generation."""
