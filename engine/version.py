"""The version of this runtime, which releases of models may ask for."""

from __future__ import annotations

from typing import Final

RUNTIME_VERSION: Final = (0, 1, 0)
"""Major, minor, patch; pyproject.toml says the same, and a test compares."""
