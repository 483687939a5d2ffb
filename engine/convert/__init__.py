"""Converters: a GGUF file, or a folder with config.json and safetensors, becomes one VQF file.

Everything read here is untrusted. One source gives one `model_digest` on every machine: what enters
the file is moved bits, integer arithmetic, `decimal`, or float operations in one written order.
"""
