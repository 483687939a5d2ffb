"""The labels with which SM3 inputs of this project begin: an ASCII name and a zero byte.

A digest made under one label says nothing where another purpose is expected. Trees have the
one-byte prefixes of RFC 9162 instead (`crypto.merkle`). The table in crypto/README.md lists them
all; a test compares.
"""

from __future__ import annotations

from typing import Final

VQF_MANIFEST: Final = b"windhover/vqf/manifest;v=4\x00"
