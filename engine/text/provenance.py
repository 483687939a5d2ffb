"""Which characters of a rendered prompt are a user's: every such character wears a mask.

A template is rendered with the texts of the request in disguise: each character that occurs in some
control token is replaced by one of the code points U+D800 .. U+DFFF, which are no characters and
which neither a request nor a template can contain, since both are UTF-8. Whatever a template does
with a text (cutting, joining, replacing), a masked character stays masked, also where the template
engine works below Python. A control token written in unmasked characters was therefore written by
the template alone.

`MaskedText` makes the disguise invisible to the template: it compares, searches and measures like
the text that it stands for. It need not be perfect: `engine.text.template` renders once more
without any disguise and refuses a prompt whose text then differs.

Limits: numbers and truth values of a request are not masked, nor is whitespace; a template that
looks at a user's text and then writes a control token of its own is taken at its word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, SupportsIndex

from engine.errors import UnsupportedError

_FIRST: Final = 0xD800
_COUNT: Final = 0x800
_END_OF_SCRIPTS_WITH_CASE: Final = 0x20000
_MASKED: Final = re.compile("[\ud800-\udfff]")


class Mask:
    """A one-to-one exchange of the characters of control tokens for surrogate code points."""

    def __init__(self, contents: Iterable[str]) -> None:
        """Choose a code point for every character of the contents, in either case.

        Whitespace stays as it is, so that trimming and splitting need no disguise.

        Raises:
            UnsupportedError: the contents have more than 2048 different characters.
        """
        alphabet = {c for content in contents for c in content if not c.isspace()}
        size = 0
        while len(alphabet) > size:
            # A template may change the case of a text: what becomes one of these is one of these.
            size = len(alphabet)
            alphabet |= {c for c, results in _changes_of_case() if not alphabet.isdisjoint(results)}
        characters = sorted(alphabet)
        if len(characters) > _COUNT:
            raise UnsupportedError("control tokens have too many different characters")
        self._hide = {ord(c): _FIRST + i for i, c in enumerate(characters)}
        self._reveal = {masked: plain for plain, masked in self._hide.items()}

    def hide(self, text: str) -> MaskedText:
        """Mask every character of a text that is free of masked ones."""
        return MaskedText(text.translate(self._hide), self)

    def reveal(self, text: str) -> str:
        """Return the text that a masked text stands for."""
        plain = str.__str__(text)
        return plain if plain.isascii() else plain.translate(self._reveal)

    def recognise(self, text: str) -> str:
        """Return a text that came out of an operation, as `MaskedText` if it holds masks."""
        if isinstance(text, MaskedText) or not is_masked(text):
            return text
        return MaskedText(text, self)


@cache
def _changes_of_case() -> tuple[tuple[str, str], ...]:
    """Return the characters that change with the case, and all that they change to."""
    found = []
    for character in map(chr, range(_END_OF_SCRIPTS_WITH_CASE)):
        lower, upper = character.lower(), character.upper()
        if lower != upper:
            found.append((character, lower + upper + character.title()))
    return tuple(found)


def is_masked(text: str) -> bool:
    """Return whether a text holds a masked character (or half a surrogate pair)."""
    return not text.isascii() and _MASKED.search(text) is not None


class MaskedText(str):
    """A text with masked characters that behaves like the text without masks."""

    __slots__ = ("_mask", "_real")

    _mask: Mask
    _real: str

    def __new__(cls, masked: str, mask: Mask) -> MaskedText:
        """Wrap a text that may hold masked characters."""
        self = super().__new__(cls, masked)
        self._mask = mask
        self._real = mask.reveal(masked)
        return self

    def _wrap(self, masked: str) -> MaskedText:
        return MaskedText(masked, self._mask)

    def _plain(self, other: object) -> Any:  # noqa: ANN401
        return self._mask.reveal(other) if isinstance(other, str) else other

    def _plains(self, others: Iterable[object]) -> list[Any]:
        return [
            tuple(map(self._plain, other)) if isinstance(other, tuple) else self._plain(other)
            for other in others
        ]

    def _slices(self, pieces: Iterable[str], gap: int = 0) -> list[str]:
        """Cut this text where `pieces`, which follow one another with gaps, lie in the real one."""
        position, result = 0, list[str]()
        for piece in pieces:
            result.append(self[position : position + len(piece)])
            position += len(piece) + gap
        return result

    # Comparing and measuring: as the real text.

    def __eq__(self, other: object) -> bool:
        """Compare the real texts."""
        return bool(self._real == self._plain(other))

    def __ne__(self, other: object) -> bool:
        """Compare the real texts."""
        return not self == other

    def __lt__(self, other: str) -> bool:
        """Compare the real texts."""
        return bool(self._real < self._plain(other))

    def __le__(self, other: str) -> bool:
        """Compare the real texts."""
        return bool(self._real <= self._plain(other))

    def __gt__(self, other: str) -> bool:
        """Compare the real texts."""
        return bool(self._real > self._plain(other))

    def __ge__(self, other: str) -> bool:
        """Compare the real texts."""
        return bool(self._real >= self._plain(other))

    def __hash__(self) -> int:
        """Be found in a dictionary by the real text."""
        return hash(self._real)

    def __contains__(self, other: object) -> bool:
        """Search the real text."""
        return self._plain(other) in self._real

    # Taking apart and joining: the masks stay on.

    def __str__(self) -> str:
        """Stay masked where a text is asked for."""
        return self

    def __repr__(self) -> str:
        """Quote the real text, masked as a whole."""
        return self._mask.hide(repr(self._real))

    def __iter__(self) -> Iterator[str]:
        """Yield masked characters."""
        return map(self._wrap, super().__iter__())

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """Cut."""
        return self._wrap(super().__getitem__(key))

    def __add__(self, other: str) -> str:
        """Join."""
        return self._wrap(super().__add__(other))

    def __radd__(self, other: str) -> str:
        """Join."""
        return self._wrap(str.__add__(other, self))

    def __mul__(self, times: SupportsIndex) -> str:
        """Repeat."""
        return self._wrap(super().__mul__(times))

    __rmul__ = __mul__

    def join(self, parts: Iterable[str]) -> str:
        """As `str.join`."""
        return self._wrap(super().join(parts))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str.split`."""
        if sep is None:
            return list(map(self._wrap, super().split(None, maxsplit)))
        sep = self._plain(sep)
        return self._slices(self._real.split(sep, maxsplit), gap=len(sep))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str.rsplit`."""
        if sep is None:
            return list(map(self._wrap, super().rsplit(None, maxsplit)))
        sep = self._plain(sep)
        return self._slices(self._real.rsplit(sep, maxsplit), gap=len(sep))

    def splitlines(self, keepends: bool = False) -> list[str]:
        """As `str.splitlines`."""
        return list(map(self._wrap, super().splitlines(keepends)))

    def partition(self, sep: str) -> tuple[str, str, str]:
        """As `str.partition`."""
        head, middle, tail = self._slices(self._real.partition(self._plain(sep)))
        return head, middle, tail

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        """As `str.rpartition`."""
        head, middle, tail = self._slices(self._real.rpartition(self._plain(sep)))
        return head, middle, tail

    def strip(self, chars: str | None = None) -> str:
        """As `str.strip`."""
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None) -> str:
        """As `str.lstrip`."""
        return self[len(self) - len(self._real.lstrip(self._plain(chars))) :]

    def rstrip(self, chars: str | None = None) -> str:
        """As `str.rstrip`."""
        return self[: len(self._real.rstrip(self._plain(chars)))]

    def removeprefix(self, prefix: str) -> str:
        """As `str.removeprefix`."""
        return self[len(self) - len(self._real.removeprefix(self._plain(prefix))) :]

    def removesuffix(self, suffix: str) -> str:
        """As `str.removesuffix`."""
        return self[: len(self._real.removesuffix(self._plain(suffix)))]

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> str:
        """As `str.replace`, for an `old` that is not empty."""
        return self._wrap(str.join(new, self.split(old, count)))

    # What makes other characters of these: masked as a whole.

    def _changed(self, method: Callable[[str], str]) -> str:
        return self._mask.hide(method(self._real))

    def lower(self) -> str:
        """As `str.lower`."""
        return self._changed(str.lower)

    def upper(self) -> str:
        """As `str.upper`."""
        return self._changed(str.upper)

    def title(self) -> str:
        """As `str.title`."""
        return self._changed(str.title)

    def capitalize(self) -> str:
        """As `str.capitalize`."""
        return self._changed(str.capitalize)

    # Questions: asked of the real text.

    def startswith(self, *args: Any) -> bool:  # noqa: ANN401
        """As `str.startswith`."""
        return self._real.startswith(*self._plains(args))

    def endswith(self, *args: Any) -> bool:  # noqa: ANN401
        """As `str.endswith`."""
        return self._real.endswith(*self._plains(args))

    def find(self, *args: Any) -> int:  # noqa: ANN401
        """As `str.find`."""
        return self._real.find(*self._plains(args))

    def rfind(self, *args: Any) -> int:  # noqa: ANN401
        """As `str.rfind`."""
        return self._real.rfind(*self._plains(args))

    def index(self, *args: Any) -> int:  # noqa: ANN401
        """As `str.index`."""
        return self._real.index(*self._plains(args))

    def count(self, *args: Any) -> int:  # noqa: ANN401
        """As `str.count`."""
        return self._real.count(*self._plains(args))

    def isdigit(self) -> bool:
        """As `str.isdigit`."""
        return self._real.isdigit()

    def isalpha(self) -> bool:
        """As `str.isalpha`."""
        return self._real.isalpha()

    def isalnum(self) -> bool:
        """As `str.isalnum`."""
        return self._real.isalnum()

    def isupper(self) -> bool:
        """As `str.isupper`."""
        return self._real.isupper()

    def islower(self) -> bool:
        """As `str.islower`."""
        return self._real.islower()
