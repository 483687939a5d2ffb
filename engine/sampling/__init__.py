"""Choosing the next token from logits: a pure function (NUMERICS 7)."""
