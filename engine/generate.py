"""Text for one prompt: the scheduler's tokens through detokenizer and stop strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.model import Model
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from engine.text.detokenizer import Detokenizer
from engine.text.stop import StopMatcher


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished answer.

    text: what a client sees: no special tokens, nothing of an end-of-answer id, nothing from a stop
        string on.
    token_ids: all ids drawn, an end-of-answer id included.
    trace_root: NUMERICS N11, None where no trace was kept.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    trace_root: bytes | None


def generate(
    model: Model,
    request: Request,
    *,
    stops: Sequence[str] = (),
    on_text: Callable[[str], None] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Generation:
    """Answer one request, alone on the model's engine.

    Args:
        model: the model.
        request: prompt ids and parameters.
        stops: strings that end the answer; they are not part of it.
        on_text: called with each piece of text as soon as nothing can take it back.
        is_cancelled: asked before each step.

    Raises:
        ConfigError: parameters out of range.
        ContextLengthError: the request does not fit the context.
        NonFiniteError, SamplingError: the sequence could not go on.
    """
    scheduler = Scheduler(model.engine)
    matcher, detokenizer = StopMatcher(stops), Detokenizer(model.tokenizer)
    sequence = scheduler.add(request)
    pieces: list[str] = []

    def release(text: str) -> None:
        if text:
            pieces.append(text)
            if on_text is not None:
                on_text(text)

    def push(text: str) -> None:
        found = matcher.push(text)
        release(found.text)
        if found.stop is not None:
            sequence.stop()

    try:
        while sequence.finish_reason is None:
            if is_cancelled is not None and is_cancelled():
                sequence.cancel()
            for _, choice in scheduler.step():
                if choice is not None and choice.id not in request.eos_ids:
                    push(detokenizer.push(choice.id))
    finally:
        # Whatever a callback raised, the sequence must not keep its part of the cache.
        sequence.finish(FinishReason.CANCELLED)
    if sequence.error is not None:
        raise sequence.error
    push(detokenizer.finish())
    release(matcher.finish())
    return Generation(
        "".join(pieces),
        tuple(sequence.output_ids),
        sequence.finish_reason,
        sequence.num_prompt_tokens,
        sequence.trace_root,
    )
