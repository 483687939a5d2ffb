"""Tests, in the folders of what they test. `tests.` is how a test imports a helper beside it."""
