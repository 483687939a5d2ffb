"""The masks of an answer that is there already, made again (S15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.audit.answered import Answered
from engine.errors import SamplingError
from engine.sampling.choice import Mask

if TYPE_CHECKING:
    from engine.grammar.grammar import Constraint


class Masks:
    """Goes along the ids of an answer once, as generation did, and gives the mask of each."""

    def __init__(self, answered: Answered) -> None:
        """Start before the first id of the answer."""
        self._ids = answered.output_ids
        self._first = len(answered.prompt_ids) - 1
        self._index = 0
        self._mask: Mask | None = None
        self._constraint: Constraint | None = None
        if answered.grammar is not None:
            self._constraint = answered.grammar.start()
            self._mask = self._constraint.mask()

    def at(self, positions: Sequence[int]) -> list[Mask | None]:
        """Return the masks of the logits of positions, which ascend from call to call.

        After an id that the grammar does not allow there is none: that id is no choice of the
        masked logits before it, which is what counts.

        Raises:
            SamplingError: none may come next, or the grammar is too complex there.
        """
        return [self._mask_of(position - self._first) for position in positions]

    def _mask_of(self, index: int) -> Mask | None:
        while self._index < index:
            if self._constraint is not None:
                self._advance(self._constraint, self._ids[self._index])
            self._index += 1
        return self._mask

    def _advance(self, constraint: Constraint, token_id: int) -> None:
        try:
            constraint.push(token_id)
            is_followed = not constraint.is_complete
        except SamplingError:
            is_followed = False
        self._constraint = constraint if is_followed else None
        self._mask = constraint.mask() if is_followed else None
