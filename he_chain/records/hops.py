"""Which hop of a run in protocol `assist` is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from he_chain.records.record import Record
from he_chain.roles.exchanges import Task

LAY: Final = "lay"
FIN: Final = "fin"


@dataclass(frozen=True)
class Due:
    """A hop that is to come."""

    kind: str
    position: int
    layer: int | None


def next_hop(records: Sequence[Record], task: Task, *, logits_of_all: bool = False) -> Due | None:
    """Return the hop that follows the records, None at the end.

    Args:
        records: of the run so far.
        task: how many layers and positions.
        logits_of_all: whether positions inside the prompt get logits as well.
    """
    if not records:
        return Due(LAY, 0, 0)
    last = records[-1]
    if last.layer is not None and last.layer + 1 < task.num_layers:
        return Due(LAY, last.position, last.layer + 1)
    wanted = logits_of_all or last.position >= task.num_prompt - 1
    if last.kind == LAY and wanted:
        return Due(FIN, last.position, None)
    if last.position + 1 >= task.max_positions:
        return None
    return Due(LAY, last.position + 1, 0)
