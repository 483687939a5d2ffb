"""Where numba looks for kernels that were prepared: in a folder that this process cannot write.

Source: numba's setting NUMBA_CACHE_LOCATOR_CLASSES.
"""

from __future__ import annotations

from numba.core.caching import UserProvidedCacheLocator


class PreparedLocator(UserProvidedCacheLocator):
    """The cache of NUMBA_CACHE_DIR, taken as it is."""

    def ensure_cache_path(self) -> None:
        """Do nothing: numba's own locators refuse a folder that they cannot write into."""
