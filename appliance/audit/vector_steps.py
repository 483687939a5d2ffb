"""A5 of texts that became vectors: each computed again as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from appliance.api.prompt import PromptSource, input_ids
from appliance.audit.claimed import Claimed
from appliance.audit.findings import A5, FailedError, Findings, OpenError
from appliance.audit.replay_steps import TRACE
from appliance.audit.text_steps import ANSWERED, first_difference
from crypto.errors import FormatError
from crypto.transcript import Kind, decode_transcript
from engine.audit.embed import Embedded, embed_again
from engine.errors import ConfigError, ContextLengthError, NonFiniteError, TemplateError

if TYPE_CHECKING:
    from engine.forward import Engine

VECTORS = "every vector is the one that follows from its text"


def check_vectors(
    findings: Findings,
    claimed: Claimed,
    engine: Engine,
    source: PromptSource,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Compute every text again and compare its vector, and the trace root of all.

    Args:
        findings: steps are added to it.
        claimed: the bundle.
        engine: of its model.
        source: has its tokenizer.
        progress: called with (positions done, positions in all).
    """
    embedded: Embedded | None = None

    def check_vectors_of_texts() -> None:
        nonlocal embedded
        if claimed.statement.outcome != ANSWERED:
            return
        embedded = _embedded(claimed, engine, source, progress)
        found = _vectors(claimed)
        wanted = [vector.astype("<f4").tobytes() for vector in embedded.vectors]
        if len(found) != len(wanted):
            raise FailedError("transcript")
        for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                raise FailedError("vector", index)

    def check_trace() -> None:
        if claimed.statement.outcome != ANSWERED:
            return
        wanted = claimed.trace_root
        if embedded is None:
            raise OpenError("not-replayed")
        if wanted != embedded.trace_root:
            raise FailedError("trace")

    findings.after(("model",), A5, "vectors", VECTORS, check_vectors_of_texts)
    findings.after(("model",), A5, "trace", TRACE, check_trace)


def _embedded(
    claimed: Claimed,
    engine: Engine,
    source: PromptSource,
    progress: Callable[[int, int], None] | None,
) -> Embedded:
    """Make the vectors of the committed ids, cut where the texts of the request end."""
    try:
        texts = input_ids(source, claimed.request)
    except TemplateError:
        raise FailedError("request-refused") from None
    if len(texts) != claimed.num_inputs:
        raise FailedError("request-refused")
    joined = [token_id for ids in texts for token_id in ids]
    if first_difference(claimed.prompt_ids, joined) is not None:
        raise FailedError("counts")
    position = next((i for i, each in enumerate(joined) if each >= engine.config.vocab_size), None)
    if position is not None:
        raise FailedError("id-range", position)
    try:
        return embed_again(engine, texts, progress=progress)
    except (NonFiniteError, ContextLengthError):
        raise FailedError("not-computable") from None
    except ConfigError:
        raise FailedError("request-refused") from None


def _vectors(claimed: Claimed) -> list[bytes]:
    try:
        transcript = decode_transcript(claimed.text("transcript"))
    except FormatError:
        raise FailedError("transcript") from None
    return [entry.data for entry in transcript.entries if entry.kind is Kind.EMBEDDING]
