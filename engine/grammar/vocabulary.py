"""The vocabulary as masks see it: the bytes of each id, and the ids that end an answer (S15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from llguidance import LLTokenizer

from engine.errors import ConfigError
from engine.text.tokenizer import Tokenizer


class Vocabulary:
    """What llguidance asks of a tokenizer. It never encodes a text: grammars are about bytes."""

    is_tokenizer_wrapper: Final = True
    bos_token_id: Final = None

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, eos_ids: Sequence[int]) -> None:
        """Collect the bytes of all ids.

        Args:
            tokenizer: of the model.
            vocab_size: number of logits; ids that the tokenizer does not have are never allowed.
            eos_ids: ids that end an answer, at least one.

        Raises:
            ConfigError: no such id, or one outside the vocabulary.
        """
        if not eos_ids or min(eos_ids) < 0 or max(eos_ids) >= vocab_size:
            raise ConfigError("a grammar needs ids of the vocabulary that end an answer")
        control = {token.id for token in tokenizer.control_tokens} | set(eos_ids)
        # An id without bytes is never allowed; what ends an answer is known by its id.
        self.tokens = [
            b"" if token_id in control else tokenizer.token_bytes(token_id)
            for token_id in range(vocab_size)
        ]
        self.special_token_ids = sorted(set(eos_ids))
        self.eos_token_id = self.special_token_ids[0]

    def __call__(self, _text: bytes) -> NoReturn:
        """Refuse to encode."""
        raise NotImplementedError

    def for_masks(self) -> LLTokenizer:
        """Return the tokenizer that matchers take."""
        return LLTokenizer(
            self,  # type: ignore[arg-type]  # the class it names would call us with a text
            n_vocab=len(self.tokens),
            eos_token=self.special_token_ids,
        )
