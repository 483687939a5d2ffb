"""A5: the answer computed again as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.audit.claimed import Claimed
from appliance.audit.findings import A5, FailedError, Findings, OpenError
from appliance.audit.grammars import GrammarSource, answered_of
from appliance.audit.text_steps import first_difference
from engine.audit.replay import Replayed, replay
from engine.errors import ConfigError, NonFiniteError, SamplingError

if TYPE_CHECKING:
    from engine.forward import Engine

CHOICES = "every token is the one that follows from those before it"
TRACE = "the residual stream is the one that was committed to"


def check_replay(
    findings: Findings,
    claimed: Claimed,
    engine: Engine,
    source: GrammarSource,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make one prefill over the committed ids and compare every choice and the trace root.

    Where texts became vectors, `check_vectors` is the one to call.

    Args:
        findings: steps are added to it.
        claimed: the bundle.
        engine: of its model.
        source: compiles the grammar that the answer had to follow, if any.
        progress: called with (positions done, positions in all).
    """
    replayed: Replayed | None = None

    def check_choices() -> None:
        nonlocal replayed
        if claimed.statement.output_tokens == 0:
            return
        answered = answered_of(claimed, source)
        if not answered.prompt_ids:
            raise FailedError("counts")
        vocab_size = engine.config.vocab_size
        for position, token_id in enumerate(answered.prompt_ids + answered.output_ids):
            if token_id >= vocab_size:
                raise FailedError("id-range", position)
        try:
            replayed = replay(engine, answered, progress=progress)
        except (NonFiniteError, SamplingError):
            raise FailedError("not-computable") from None
        except ConfigError:
            raise FailedError("parameters") from None
        index = first_difference(answered.output_ids, replayed.choices)
        if index is not None:
            raise FailedError("choice", len(answered.prompt_ids) + index)

    def check_trace() -> None:
        if claimed.statement.output_tokens == 0:
            return
        wanted = claimed.trace_root
        if replayed is None:
            raise OpenError("not-replayed")
        if wanted != replayed.trace_root:
            raise FailedError("trace")

    findings.after(("model",), A5, "choices", CHOICES, check_choices)
    findings.after(("model",), A5, "trace", TRACE, check_trace)
