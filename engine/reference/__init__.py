"""The definition of numerics profile `wh1`: a forward pass in plain NumPy, slow and obvious.

`engine/NUMERICS.md` says what is computed; each file here is one of its nouns and repeats its step
numbers. The compiled kernels equal this package bit for bit. Rules, held by a test:

- Every float reduction is a Python loop over its axis, in the written order. What is vectorised is
  independent lanes: rows, outputs, heads, keys, dimensions.
- No `@`, dot, einsum, sum, mean or cumsum on floats, and no library function other than sqrt and
  rint. Exact integer sums live in `integers.py`.
"""
