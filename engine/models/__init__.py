"""Model families: one file each, written as instructions for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.errors import UnsupportedError
from engine.models import decoder
from engine.models.graph import Graph

FAMILIES: Final[dict[str, Callable[[Graph], None]]] = {
    "llama": decoder.write_forward,
    "qwen2": decoder.write_forward,
    "qwen3": decoder.write_forward,
}


def write_forward(graph: Graph) -> None:
    """Write the forward pass of the graph's model.

    Raises:
        UnsupportedError: no family of that name.
    """
    family = FAMILIES.get(graph.config.architecture)
    if family is None:
        raise UnsupportedError(f"architecture {graph.config.architecture!r} is not supported")
    family(graph)
