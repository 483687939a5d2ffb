"""The steps that need tokenizer and template only: request, prompt ids, text of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from appliance.api.answered import TOOL_CALLS, Parts, finish_reason, parts_of
from appliance.api.prompt import PromptSource, prompt_ids
from appliance.audit.claimed import Claimed
from appliance.audit.findings import TEXT, FailedError, Findings, OpenError
from appliance.audit.grammars import GrammarSource, grammar_of
from crypto.errors import FormatError
from crypto.transcript import Entry, Kind, Transcript, answer_entries, build, decode_transcript
from engine.audit.text import LENGTH, STOP, answer_text
from engine.config import ModelConfig, TokenizerConfig
from engine.errors import SamplingError, TemplateError

ANSWERED = "answered"
_ENDS = (STOP, LENGTH, TOOL_CALLS)


class Identity(Protocol):
    """What a file or a model says that it is."""

    @property
    def model_digest(self) -> bytes:
        """32 bytes."""
        ...

    @property
    def config(self) -> ModelConfig:
        """Its shape."""
        ...

    @property
    def tokenizer_root(self) -> bytes:
        """32 bytes."""
        ...

    @property
    def template_root(self) -> bytes | None:
        """32 bytes, None without a template."""
        ...


class TextSource(PromptSource, GrammarSource, Protocol):
    """What makes ids of a request and a text of ids: a model, or its two text extents."""

    tokenizer_config: TokenizerConfig


def check_model(findings: Findings, claimed: Claimed, model: Identity) -> None:
    """Compare the weights at hand with the model that the statement names."""

    def check() -> None:
        statement, config = claimed.statement, model.config
        if model.model_digest != statement.model_digest:
            raise OpenError("other-model")
        positions, layers, width = statement.trace_shape
        shape = (positions, config.num_layers, config.hidden_size)
        if positions and (positions, layers, width) != shape:
            raise FailedError("model-claims")
        tokens = statement.prompt_tokens + statement.output_tokens
        # Texts that become vectors stand each in a context of its own, which a replay sees.
        if not claimed.num_inputs and tokens > config.context_length_tokens:
            raise FailedError("model-claims")
        roots = (statement.tokenizer_root, statement.template_root)
        if roots != (model.tokenizer_root, model.template_root):
            raise FailedError("model-claims")

    findings.after((), TEXT, "model", "the weights are those that the statement names", check)


def check_text(findings: Findings, claimed: Claimed, source: TextSource) -> None:
    """Make the steps from the request to the prompt ids, and from the output ids to the answer."""
    findings.after(
        ("model",),
        TEXT,
        "request",
        "parameters and seed are those of the request",
        lambda: _check_request(claimed),
    )
    findings.after(
        ("model",),
        TEXT,
        "prompt-ids",
        "the prompt ids follow from the request",
        lambda: _check_prompt_ids(claimed, source),
    )
    findings.after(
        ("model",),
        TEXT,
        "answer",
        "text and finish reason follow from the output ids",
        lambda: _check_answer(claimed, source),
    )


def _check_request(claimed: Claimed) -> None:
    statement, request = claimed.statement, claimed.request
    max_tokens = None if request.inputs else claimed.max_tokens
    if request.parameters(max_tokens or 0) != dict(statement.parameters):
        raise FailedError("parameters")
    if request.max_tokens not in (None, max_tokens):
        raise FailedError("parameters")
    is_from_request = statement.seed_source == "request"
    if is_from_request != (request.seed is not None):
        raise FailedError("seed")
    if is_from_request and request.seed != statement.seed:
        raise FailedError("seed")


def _check_prompt_ids(claimed: Claimed, source: TextSource) -> None:
    found = claimed.prompt_ids
    try:
        wanted = prompt_ids(source, claimed.request, now_unix_s=claimed.admitted_ms // 1000)
    except TemplateError:
        raise FailedError("request-refused") from None
    position = first_difference(found, wanted)
    if position is not None:
        raise FailedError("prompt-ids", position)


def _check_answer(claimed: Claimed, source: TextSource) -> None:
    statement, request = claimed.statement, claimed.request
    if request.inputs:
        _check_embeddings(claimed)
        return
    prompt_tokens = statement.prompt_tokens
    try:
        answer = answer_text(
            source.tokenizer,
            claimed.output_ids,
            eos_ids=source.tokenizer_config.eos_ids,
            stops=request.stops,
            max_tokens=claimed.max_tokens,
            grammar=grammar_of(claimed, source),
        )
    except SamplingError:
        raise FailedError("choice") from None
    if answer.length != statement.output_tokens:
        raise FailedError("ids-after-the-end", prompt_tokens + answer.length)
    parts = parts_of(answer.text, request.grammar)
    reason = answer.finish_reason and finish_reason(answer.finish_reason, parts)
    is_over = statement.outcome == ANSWERED or statement.finish_reason in _ENDS
    if is_over and reason != statement.finish_reason:
        raise FailedError("finish-reason", prompt_tokens + answer.length - 1)
    _check_transcript(claimed, parts)


def _check_transcript(claimed: Claimed, parts: Parts) -> None:
    """Compare what was handed out: all of the answer, or the beginning of one cut short."""
    statement = claimed.statement
    entries = answer_entries(
        content=parts.content, tool_calls=parts.calls, finish_reason=statement.finish_reason
    )
    wanted = build([entries])
    if statement.outcome == ANSWERED:
        if claimed.text("transcript") != wanted.encode():
            raise FailedError("transcript")
        return
    said = _without_finish(_transcript(claimed))
    whole = _without_finish(wanted)
    if len(said) > len(whole) or said[:-1] != whole[: len(said[:-1])]:
        raise FailedError("transcript")
    if said and not _begins(said[-1], whole[len(said) - 1]):
        raise FailedError("transcript")


def _begins(said: Entry, whole: Entry) -> bool:
    """Return whether an entry is the beginning of another; a name is told as a whole."""
    if said.kind is Kind.TOOL_NAME:
        return said == whole
    return said.place == whole.place and whole.data.startswith(said.data)


def _check_embeddings(claimed: Claimed) -> None:
    """Refuse vectors that are not one for each input; what they are is for `check_vectors`."""
    statement = claimed.statement
    said = _without_finish(_transcript(claimed))
    if any(entry.kind is not Kind.EMBEDDING for entry in said):
        raise FailedError("transcript")
    choices = [entry.choice for entry in said]
    if statement.outcome == ANSWERED and choices != list(range(len(claimed.request.inputs))):
        raise FailedError("transcript")
    if statement.outcome == ANSWERED and statement.finish_reason != STOP:
        raise FailedError("finish-reason")


def _transcript(claimed: Claimed) -> Transcript:
    try:
        return decode_transcript(claimed.text("transcript"))
    except FormatError:
        raise FailedError("transcript") from None


def _without_finish(transcript: Transcript) -> list[Entry]:
    return [entry for entry in transcript.entries if entry.kind is not Kind.FINISH]


def first_difference(found: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Return the first index at which two sequences differ, also by their end; None if nowhere."""
    for index, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return index
    return None if len(found) == len(wanted) else min(len(found), len(wanted))
