"""Specifications to grammars, for the vocabulary of one model (S16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llguidance import LLMatcher, LLParserLimits

from engine.errors import GrammarError
from engine.grammar.grammar import Grammar
from engine.grammar.lark import write_lark
from engine.grammar.schema import SUPPORTED
from engine.grammar.spec import GrammarSpec
from engine.grammar.vocabulary import Vocabulary
from engine.text.tokenizer import Tokenizer

MAX_GRAMMAR_CHARACTERS: Final = 1 << 19
MAX_REASON_CHARACTERS: Final = 200


def limits() -> LLParserLimits:
    """Return the limits of compiling and of a step: counts, never times."""
    return LLParserLimits(
        max_items_in_row=20_000,  # more than 2,000 parts give: each property has a few items
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_lexer_states=50_000,
        max_grammar_size=500_000,
        precompute_large_lexemes=True,
        verbose_errors=False,
    )


class GrammarCompiler:
    """Compiles grammars for one model. It may be used by several threads at once."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_ids: Sequence[int]) -> None:
        """Prepare the vocabulary.

        Args:
            tokenizer: of the model.
            vocab_size: number of logits.
            eos_ids: ids that end an answer.

        Raises:
            ConfigError: no such id, or one outside the vocabulary.
        """
        self._vocab_size = vocab_size
        self._tokenizer = Vocabulary(tokenizer, vocab_size, eos_ids).for_masks()

    def compile(self, spec: GrammarSpec) -> Grammar:
        """Return the grammar of a specification.

        Raises:
            GrammarError: a part of it is not supported, contradicts another, or is too complex.
        """
        source = write_lark(spec)
        if len(source) > MAX_GRAMMAR_CHARACTERS:
            raise GrammarError("tools", "all schemas together are too long")
        matcher = LLMatcher(self._tokenizer, source, log_level=0, limits=limits())
        if matcher.is_error():
            raise _refusal(matcher.get_error(), source)
        if matcher.get_grammar_warnings():
            raise _refusal(matcher.get_grammar_warnings()[0], source)
        return Grammar(matcher, self._vocab_size)


def _refusal(message: str, source: str) -> GrammarError:
    """Return the error for a refusal of the library, with the keyword that it names, if any."""
    if "regex parse error" in message:
        keyword = "pattern" if '"pattern": ' in source else "patternProperties"
    else:
        named = [(message.find(word), -len(word), word) for word in SUPPORTED if word in message]
        keyword = min(named)[2] if named else "schema"
    reason = message.strip().splitlines()[0] if message.strip() else "it cannot be compiled"
    return GrammarError(keyword, reason[:MAX_REASON_CHARACTERS])
