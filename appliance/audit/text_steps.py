"""The steps that need tokenizer and template only: request, prompt ids, text of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from appliance.audit.claimed import Claimed
from appliance.audit.findings import TEXT, FailedError, Findings, OpenError
from appliance.requests import prompt_ids
from crypto.errors import FormatError
from crypto.transcript import Kind, answer_entries, build, decode_transcript
from engine.audit.text import LENGTH, STOP, AnswerText, answer_text
from engine.config import ModelConfig, TokenizerConfig
from engine.errors import TemplateError

if TYPE_CHECKING:
    from engine.model import Model
    from engine.text.tokenizer import Tokenizer

ANSWERED = "answered"
_ENDS = (STOP, LENGTH)


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


class TextSource(Protocol):
    """What makes ids of a request and a text of ids: a model, or its two text extents."""

    tokenizer: Tokenizer
    tokenizer_config: TokenizerConfig

    def chat_ids(self, messages: Sequence[dict[str, str]], *, now_unix_s: int) -> list[int]:
        """Return the prompt ids of a conversation."""
        ...


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
        if statement.prompt_tokens + statement.output_tokens > config.context_length_tokens:
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
    if request.parameters(claimed.max_tokens) != dict(statement.parameters):
        raise FailedError("parameters")
    if request.max_tokens not in (None, claimed.max_tokens):
        raise FailedError("parameters")
    is_from_request = statement.seed_source == "request"
    if is_from_request != (request.seed is not None):
        raise FailedError("seed")
    if is_from_request and request.seed != statement.seed:
        raise FailedError("seed")


def _check_prompt_ids(claimed: Claimed, source: TextSource) -> None:
    found = claimed.prompt_ids
    try:
        # A model has more than what this function uses of it.
        wanted = prompt_ids(
            cast("Model", source), claimed.request, now_unix_s=claimed.admitted_ms // 1000
        )
    except TemplateError:
        raise FailedError("request-refused") from None
    position = first_difference(found, wanted)
    if position is not None:
        raise FailedError("prompt-ids", position)


def _check_answer(claimed: Claimed, source: TextSource) -> None:
    statement = claimed.statement
    prompt_tokens = statement.prompt_tokens
    answer = answer_text(
        source.tokenizer,
        claimed.output_ids,
        eos_ids=source.tokenizer_config.eos_ids,
        stops=claimed.request.stops,
        max_tokens=claimed.max_tokens,
    )
    if answer.length != statement.output_tokens:
        raise FailedError("ids-after-the-end", prompt_tokens + answer.length)
    is_over = statement.outcome == ANSWERED or statement.finish_reason in _ENDS
    if is_over and answer.finish_reason != statement.finish_reason:
        raise FailedError("finish-reason", prompt_tokens + answer.length - 1)
    _check_transcript(claimed, answer)


def _check_transcript(claimed: Claimed, answer: AnswerText) -> None:
    """Compare what was handed out: all of the text, or the beginning of an answer cut short."""
    statement = claimed.statement
    found = claimed.text("transcript")
    if statement.outcome == ANSWERED:
        entries = answer_entries(content=answer.text, finish_reason=statement.finish_reason)
        if found != build([entries]).encode():
            raise FailedError("transcript")
        return
    try:
        transcript = decode_transcript(found)
    except FormatError:
        raise FailedError("transcript") from None
    said = [entry for entry in transcript.entries if entry.kind is not Kind.FINISH]
    if any(entry.kind is not Kind.CONTENT or entry.choice for entry in said):
        raise FailedError("transcript")
    if not answer.text.encode("utf-8").startswith(b"".join(entry.data for entry in said)):
        raise FailedError("transcript")


def first_difference(found: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Return the first index at which two sequences differ, also by their end; None if nowhere."""
    for index, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return index
    return None if len(found) == len(wanted) else min(len(found), len(wanted))
