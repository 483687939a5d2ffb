"""The weights of an open file, kept as a residency says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.errors import UnsupportedError
from engine.memory.file_map import DONTNEED, FileMap
from engine.memory.full import FullWeights
from engine.memory.mapped import MappedWeights, refuse_protected
from engine.memory.residency import Residency
from engine.memory.verified import VerifiedWeights
from engine.vqf.kept import KeptFile

if TYPE_CHECKING:
    from engine.vqf import VqfFile
    from engine.vqf.manifest import Extent


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
    with ExitStack() as undo:
        options: dict[str, Any] = {}
        mapped: FileMap | None = None
        if residency.mode == "stream":
            mapped = FileMap(file.descriptor, file.preamble.data_offset + file.preamble.data_length)
            undo.callback(mapped.close)
            if not residency.drop_page_cache:
                options["before_extent"] = partial(_bring, mapped, file, residency)
        kept = KeptFile(
            file,
            num_threads=num_threads,
            drop_page_cache=residency.drop_page_cache,
            progress=progress,
            **options,
        )
        undo.callback(kept.close)
        weights: MappedWeights | VerifiedWeights
        if mapped is not None:
            weights = MappedWeights(kept, residency, mapped)
        else:
            weights = VerifiedWeights(kept, residency)
        undo.pop_all()
        return weights


def _bring(mapped: FileMap, file: VqfFile, residency: Residency, extent: Extent) -> None:
    """Have the system read an extent through the map, and so into large pages."""
    first = file.preamble.data_offset + extent.offset_bytes
    for start in range(first, first + extent.size_bytes, residency.window_bytes):
        stop = min(start + residency.window_bytes, first + extent.size_bytes)
        mapped.populate(start, stop)
        mapped.advise(start, stop, DONTNEED)
