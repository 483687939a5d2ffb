"""What passes from a chat template to a tokenizer: text, and where in it control tokens stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A token that only a template or the engine may write, never the text of a user.

    Attributes:
        id: its id.
        content: the text by which a template writes it.
        special: whether it is left out of an answer's text.
        lstrip: whether it swallows the whitespace before it.
        rstrip: whether it swallows the whitespace behind it.
    """

    id: int
    content: str
    special: bool
    lstrip: bool
    rstrip: bool


class Marker(NamedTuple):
    """A control token at `text[start:end]` of a prompt, written by the template itself."""

    start: int
    end: int
    token: ControlToken


class Prompt(NamedTuple):
    """A rendered conversation: its text, and its control tokens in ascending order."""

    text: str
    markers: tuple[Marker, ...]
