"""Checks that a tokenizer.json of either origin has to pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tokenizers import Tokenizer

from engine.convert.checkpoint import Text
from engine.errors import ConversionError
from engine.text.tokenizer import Tokenizer as EngineTokenizer
from engine.vqf.format import MAX_RAW_BYTES

Result = TypeVar("Result")

LEAST_COVERAGE = 2
"""The ids of a vocabulary must cover at least one LEAST_COVERAGE-th of the embedding's rows."""


def load_tokenizer(tokenizer_json: bytes) -> Tokenizer:
    """Load a tokenizer.json.

    Raises:
        ConversionError: The library does not accept it.
    """
    return guarded(lambda: Tokenizer.from_buffer(tokenizer_json))


def guarded(function: Callable[[], Result]) -> Result:
    """Call the library and turn whatever it raises into one kind of error.

    Raises:
        ConversionError: It raised something.
    """
    try:
        return function()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # a panic of the library is not an Exception
        reason = " ".join(str(error).split())[:200]
        raise ConversionError(f"tokenizer.json is not a valid tokenizer: {reason}") from error


def check_text(text: Text) -> Text:
    """Return `text` after checking that a VQF file can hold it and the engine use it.

    Raises:
        ConversionError: A part is too large.
        UnsupportedError: The engine does not know this kind of tokenizer.
    """
    for name, data in (("tokenizer", text.tokenizer_json), ("template", text.template or b"")):
        limit = MAX_RAW_BYTES[name]
        if len(data) > limit:
            raise ConversionError(f"the {name} has {len(data)} bytes, more than {limit}")
    EngineTokenizer(text.tokenizer_json, text.config)
    return text


def check_vocabulary(tokenizer: Tokenizer, vocab_size: int) -> None:
    """Compare a tokenizer's ids with the rows of the embedding.

    An embedding may have more rows than there are tokens: checkpoints fill it up to a round number.
    An id without a row cannot be computed with, and an embedding most of whose rows have no token
    belongs to another tokenizer.

    Raises:
        ConversionError: They do not fit.
    """
    ids = set(tokenizer.get_vocab(with_added_tokens=True).values())
    if not ids:
        raise ConversionError("the tokenizer has no tokens")
    if max(ids) >= vocab_size:
        raise ConversionError(
            f"the tokenizer has the id {max(ids)}, but the embedding only {vocab_size} rows"
        )
    if len(ids) * LEAST_COVERAGE < vocab_size:
        raise ConversionError(
            f"the tokenizer has {len(ids)} tokens, too few for an embedding of {vocab_size} rows"
        )
