"""The half of an audit that needs no layer: prompt ids of a request, text of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from engine.errors import SamplingError, TemplateError
from engine.text.detokenizer import Detokenizer
from engine.text.stop import StopMatcher
from engine.text.template import ChatTemplate, Json
from engine.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from engine.grammar.compile import GrammarCompiler
    from engine.grammar.grammar import Grammar
    from engine.vqf import VqfFile


STOP: Final = "stop"
LENGTH: Final = "length"
"""Values of `engine.sequence.FinishReason`, which takes the compiled sampler."""


class TextModel:
    """Tokenizer and template of a VQF file; nothing else of it is read."""

    def __init__(self, file: VqfFile) -> None:
        """Read the two extents of an open file, which may be closed afterwards.

        Raises:
            WeightsError: they do not have their digest.
            WeightsUncheckedError: they could not be read.
            FormatError, UnsupportedError, TemplateError: they cannot be used.
        """
        self.tokenizer_config = file.manifest.tokenizer
        self._vocab_size = file.manifest.config.vocab_size
        self.tokenizer = Tokenizer(file.read_bytes("tokenizer"), file.manifest.tokenizer)
        self.template = None
        if file.has_extent("template"):
            self.template = ChatTemplate(file.read_bytes("template"), self.tokenizer)

    @cached_property
    def grammars(self) -> GrammarCompiler:
        """The compiler of grammars for the vocabulary, as `Model.grammars`; ConfigError as that."""
        from engine.grammar.compile import GrammarCompiler  # noqa: PLC0415

        eos_ids = self.tokenizer_config.eos_ids
        return GrammarCompiler(self.tokenizer, self._vocab_size, eos_ids)

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        now_unix_s: int,
        tools: Sequence[Json] | None = None,
    ) -> list[int]:
        """Return the prompt ids of a conversation, as `Model.chat_ids` does.

        Raises:
            TemplateError: there is no chat template, or it refuses the messages.
        """
        if self.template is None:
            raise TemplateError("the model has no chat template")
        prompt = self.template.render(messages, now_unix_s=now_unix_s, tools=tools)
        return self.tokenizer.encode_prompt(prompt)


@dataclass(frozen=True, slots=True)
class AnswerText:
    """What the ids of an answer say, and where they end it.

    text: what a client sees. length: how many ids belong to it. finish_reason: `stop` or `length`;
    None where the answer goes on after the last id.
    """

    text: str
    length: int
    finish_reason: str | None


def answer_text(
    tokenizer: Tokenizer,
    output_ids: Sequence[int],
    *,
    eos_ids: Sequence[int],
    stops: Sequence[str],
    max_tokens: int,
    grammar: Grammar | None = None,
) -> AnswerText:
    """Return the text of an answer (NUMERICS X5, X6), as `generate` would have given it.

    Args:
        tokenizer: of the model.
        output_ids: all ids drawn.
        eos_ids: ids that end an answer and are no part of its text.
        stops: strings that end it.
        max_tokens: how many ids end it.
        grammar: what it had to follow; it ends where nothing may follow.

    Raises:
        ConfigError: stop strings that no request can have.
        SamplingError: the grammar does not allow an id.
    """
    matcher, detokenizer = StopMatcher(stops), Detokenizer(tokenizer)
    pieces: list[str] = []
    reason: str | None = None
    length = len(output_ids)
    constraint = None if grammar is None else grammar.start()
    for number, token_id in enumerate(output_ids, 1):
        if token_id in eos_ids:
            reason = STOP
        else:
            found = matcher.push(detokenizer.push(token_id))
            pieces.append(found.text)
            if found.stop is not None:
                reason = STOP
            elif number >= max_tokens:
                reason = LENGTH
        if constraint is not None:
            # Asked at every place, as generation asked (S15).
            mask = constraint.mask()
            if token_id >= len(mask) or not mask[token_id]:
                raise SamplingError(f"the grammar does not allow id {number - 1} of the answer")
            constraint.push(token_id)
            reason = STOP if constraint.is_complete else reason
        if reason is not None:
            length = number
            break
    rest = matcher.push(detokenizer.finish())
    if rest.stop is not None:
        reason = STOP
    return AnswerText("".join([*pieces, rest.text, matcher.finish()]), length, reason)
