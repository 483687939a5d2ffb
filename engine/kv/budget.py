"""How much memory the cached positions may take, and how it is shared out (rule D12)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import ConfigError
from engine.kv.blocks import BLOCK_POSITIONS


@dataclass(frozen=True, slots=True)
class KvBudget:
    """What is beyond `budget_bytes` of memory goes to a file without a name in `folder`."""

    folder: Path
    budget_bytes: int


@dataclass(frozen=True, slots=True)
class Shares:
    """How a budget is shared out.

    memory_blocks: how many blocks are in memory at most. reader_bytes: what the two buffers take
    through which the others come back, layer by layer; 0 where all are in memory.
    """

    memory_blocks: int
    reader_bytes: int


def share_out(
    budget_bytes: int,
    *,
    num_layers: int,
    layer_bytes: int,
    max_blocks: int,
    max_rows: int,
    max_outputs: int,
) -> Shares:
    """Share a budget out so that all blocks fit, in memory or through the buffers.

    Args:
        budget_bytes: for both.
        num_layers: of the model.
        layer_bytes: of a block in one layer.
        max_blocks: how many blocks there may be.
        max_rows: most positions of a step, which are written to blocks in memory.
        max_outputs: most sequences of a step, each with a block that is not full.

    Raises:
        ConfigError: it is too small; the message says what it takes.
    """
    block_bytes = num_layers * layer_bytes
    if max_blocks * block_bytes <= budget_bytes:
        return Shares(max_blocks, 0)
    least_blocks = min(max_blocks, 2 * max_outputs + -(-max_rows // BLOCK_POSITIONS))
    in_file = max_blocks - least_blocks
    least_bytes = min(
        least_blocks * block_bytes + 2 * in_file * layer_bytes, max_blocks * block_bytes
    )
    if budget_bytes < least_bytes:
        raise ConfigError(
            f"a key/value cache of {max_blocks} blocks takes {max_blocks * block_bytes} bytes, "
            f"or a budget of {least_bytes} with the rest in a file; {budget_bytes} are too few"
        )
    # Each block more in memory costs its own bytes, and saves two layers of the buffers.
    more = (budget_bytes - least_bytes) // (block_bytes - 2 * layer_bytes)
    memory_blocks = min(max_blocks, least_blocks + more)
    return Shares(memory_blocks, 2 * (max_blocks - memory_blocks) * layer_bytes)
