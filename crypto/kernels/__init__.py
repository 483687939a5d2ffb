"""SM3 and SM4 on many inputs at once, in vector registers; compiled by numba.

Nothing outside this package may need it: `crypto.bulk` names what it offers, and has a portable
implementation.
"""
