"""What an appliance claims to have generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.sampling.parameters import SamplingParameters

if TYPE_CHECKING:
    from engine.grammar.grammar import Grammar


@dataclass(frozen=True, slots=True)
class Answered:
    """What was generated, as it is claimed.

    prompt_ids: at least one id. output_ids: all ids drawn, at least one. sampling: how. grammar:
    what the answer had to follow, None for any text.
    """

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    sampling: SamplingParameters
    grammar: Grammar | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all positions that were computed: not the last one drawn."""
        return self.prompt_ids + self.output_ids[:-1]

    def draws_before(self, position: int) -> tuple[int, ...]:
        """Return the ids drawn before the one that the logits of `position` choose."""
        return self.output_ids[: position + 1 - len(self.prompt_ids)]
