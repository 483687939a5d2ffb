"""What a memory cgroup is charged, read from the files in which the kernel tells it.

Sources: Documentation/admin-guide/cgroup-v1/memory.rst sections 5.2 and 5.5, cgroup-v2.rst section
5-2 of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

_V2_KERNEL: Final = ("slab", "pagetables", "kernel_stack", "percpu", "sec_pagetables", "vmalloc")
"""What kernels before 5.18, which have no sum of it, tell of their own memory; with `sock`."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Bytes that a group is charged at one moment, or the largest of several moments.

    Attributes:
        anonymous: memory of processes that no file backs.
        mapped: pages of files that are mapped; they are part of `page_cache`.
        page_cache: pages of files, of tmpfs too.
        kernel: slab, page tables, stacks and whatever else the kernel holds for the group.
        swap: what was moved out of memory.
        whole: everything that the limit is compared with.
    """

    anonymous: int = 0
    mapped: int = 0
    page_cache: int = 0
    kernel: int = 0
    swap: int = 0
    whole: int = 0

    def largest(self, other: Charge) -> Self:
        """Return the larger number of each kind; their moments may differ."""
        pairs = (
            (getattr(self, field.name), getattr(other, field.name)) for field in fields(Charge)
        )
        return type(self)(*(max(pair) for pair in pairs))

    def as_json(self) -> dict[str, int]:
        """Return the numbers by kind, in bytes."""
        return {f"{field.name}_bytes": getattr(self, field.name) for field in fields(self)}


def parse_stat(text: str) -> dict[str, int]:
    """Return the lines `name number` of a file such as memory.stat."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def charge_v1(stat: Mapping[str, int], *, usage: int, kernel: int) -> Charge:
    """Return the charge of a group of version 1.

    Args:
        stat: memory.stat.
        usage: memory.usage_in_bytes, which holds the kernel's memory too.
        kernel: memory.kmem.usage_in_bytes.
    """
    return Charge(
        stat["rss"], stat["mapped_file"], stat["cache"], kernel, stat.get("swap", 0), usage
    )


def charge_v2(stat: Mapping[str, int], *, current: int, swap: int) -> Charge:
    """Return the charge of a group of version 2.

    Args:
        stat: memory.stat.
        current: memory.current.
        swap: memory.swap.current.
    """
    kernel = stat.get("kernel")
    if kernel is None:
        kernel = sum(stat.get(name, 0) for name in _V2_KERNEL)
    kernel += stat.get("sock", 0)
    return Charge(stat["anon"], stat["file_mapped"], stat["file"], kernel, swap, current)
