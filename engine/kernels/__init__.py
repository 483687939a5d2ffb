"""Compiled kernels of profile `wh1`: they know shapes, kinds and addresses, never architectures."""
