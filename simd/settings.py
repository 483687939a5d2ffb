"""Names of the settings in the environment that say how kernels are made; `simd.target` reads them.

They stand apart because importing that module acts on them.
"""

from __future__ import annotations

from typing import Final

PATH_SETTING: Final = "WINDHOVER_KERNEL_PATH"
CACHE_SETTING: Final = "WINDHOVER_KERNEL_CACHE"
USE_SETTING: Final = "WINDHOVER_KERNEL_CACHE_USE"
USES: Final = ("write", "read", "none", "prepare")
PATHS: Final = ("avx512", "avx2", "portable", "avx512-emulated")
