"""Every byte of a file, read once and compared, in memory of bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.vqf.file import VqfFile
    from engine.vqf.manifest import Extent

_GROUP_BYTES: Final = 64 << 20


def verify_all(
    file: VqfFile,
    *,
    num_threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Read every extent once and check it.

    The memory is that of the largest extent, or 64 MiB if that is more.

    Args:
        file: an open file.
        num_threads: how many threads share the work.
        progress: called with (bytes done, bytes in all).

    Raises:
        WeightsError, WeightsUncheckedError, FormatError: as `VqfFile.read_extents`.
    """
    extents = file.manifest.extents
    total = sum(extent.size_bytes for extent in extents)
    memory = memoryview(bytearray(max(_size(group) for group in _groups(extents))))
    done = 0

    def report(part: int, _of: int) -> None:
        if progress is not None:
            progress(done + part, total)

    for group in _groups(extents):
        starts, position = [], 0
        for extent in group:
            starts.append(position)
            position += extent.size_bytes
        wanted = [
            (extent.name, memory[start : start + extent.size_bytes])
            for extent, start in zip(group, starts, strict=True)
        ]
        file.read_extents(wanted, num_threads=num_threads, progress=report)
        done += position


def _size(extents: tuple[Extent, ...]) -> int:
    """Return how much memory extents take together."""
    return sum(extent.size_bytes for extent in extents)


def _groups(extents: tuple[Extent, ...]) -> Iterator[tuple[Extent, ...]]:
    """Yield neighbours that together are no longer than the group size, or one that is."""
    group: list[Extent] = []
    for extent in extents:
        if group and _size((*group, extent)) > _GROUP_BYTES:
            yield tuple(group)
            group = []
        group.append(extent)
    yield tuple(group)
