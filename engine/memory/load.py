"""The weights of an open file, kept as a residency says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import UnsupportedError
from engine.memory.full import FullWeights
from engine.memory.mapped import MappedWeights, refuse_protected
from engine.memory.residency import Residency
from engine.memory.verified import VerifiedWeights
from engine.vqf.kept import KeptFile

if TYPE_CHECKING:
    from engine.vqf import VqfFile


def load_weights(
    file: VqfFile,
    residency: Residency,
    *,
    as_floats: bool = False,
    num_threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FullWeights | MappedWeights | VerifiedWeights:
    """Verify weights, and keep all of them or what their windows need.

    Args:
        file: an open file; streamed weights take it over where this returns.
        residency: how they are kept.
        as_floats: as of `FullWeights`, and of mode `full` only.
        num_threads: how many threads read and check.
        progress: called with (bytes done, bytes in all).

    Raises:
        WeightsError: a chunk did not verify.
        WeightsUncheckedError: the file could not be read.
        FormatError: what was read breaks a rule of the format.
        UnsupportedError: mode `stream` of a signed or sealed file, or a mode that streams as
            floats.
    """
    if residency.mode == "full":
        return FullWeights(file, as_floats=as_floats, num_threads=num_threads, progress=progress)
    if as_floats:
        raise UnsupportedError("only residency full has a float profile")
    if residency.mode == "stream":
        refuse_protected(file)
    kept = KeptFile(
        file,
        num_threads=num_threads,
        drop_page_cache=residency.drop_page_cache,
        progress=progress,
    )
    try:
        if residency.mode == "stream":
            return MappedWeights(kept, residency)
        return VerifiedWeights(kept, residency)
    except BaseException:
        kept.close()
        raise
