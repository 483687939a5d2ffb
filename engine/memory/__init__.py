"""Where weights live while a model runs."""
