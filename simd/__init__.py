"""One language for vector kernels, and the instruction sets that they are compiled for.

`crypto.kernels` and `engine.kernels` are written in it. It imports nothing else of ours.
"""
