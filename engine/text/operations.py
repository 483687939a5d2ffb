"""What a template may use: operators, filters and functions, each bounded in what it makes.

What is not in these lists does not exist for a template. Left out on purpose: whatever draws random
numbers, formats by a pattern whose result may be of any size, or looks into Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final, NoReturn

from jinja2.filters import FILTERS
from jinja2.runtime import Undefined
from jinja2.tests import TESTS

from engine.errors import TemplateError
from engine.text.budget import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    spend,
    spend_characters,
    spend_result,
    spend_value,
)
from engine.text.provenance import Mask, MaskedText, is_masked

_LIBRARY_FILTERS: Final = """
    abs default d dictsort first int float items last length count list map max min reject
    rejectattr reverse select selectattr sort unique
"""
_LIBRARY_TESTS: Final = """
    boolean defined divisibleby eq equalto == even false float ge >= gt > greaterthan in integer
    iterable le <= lt < lessthan mapping ne != none number odd sequence string true undefined
"""
_LOOKS_AT_EVERYTHING: Final = {"dictsort", "max", "min", "sort", "unique"}
_NEEDS_REAL_TEXT: Final = {"int", "float"}
_MAX_INDENT: Final = 16
_MAX_RANGE: Final = 100_000
_MAX_SET: Final = 256
_MAX_MESSAGE: Final = 300


def multiply(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Multiply, or repeat a text or a list a bounded number of times."""
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple):
            spend_characters(len(value) * max(int(times), 0))
    return left * right


def power(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Raise an integer to an integer; the powers of floats differ between C libraries."""
    if type(left) is not int or type(right) is not int or not 0 <= right <= 256:
        raise TemplateError("the template raises something to a power that is not supported")
    if left.bit_length() * right > 256:
        raise TemplateError("the template makes a number of more than 256 bits")
    return left**right


def remainder(left: Any, right: Any) -> Any:  # noqa: ANN401
    """Take a remainder; formatting a text by % is refused, since its size cannot be foreseen."""
    if isinstance(left, str):
        raise TemplateError("formatting by % is not supported")
    return left % right


def text_of(value: object) -> str:
    """Write a value as printing writes it.

    Raises:
        TemplateError: it is nothing that a template may print, or too large.
    """
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float | Undefined):
        return str(value)
    if isinstance(value, list | tuple | dict):
        spend_value(value)
        return str(value)
    raise TemplateError(f"the template prints a {type(value).__name__}")


def join_texts(parts: Iterable[str], separator: str = "") -> str:
    """Join texts; raises TemplateError if the result is too long."""
    texts, size = [], 0
    for part in parts:
        texts.append(part)
        size += len(part) + len(separator)
        if size > MAX_CHARACTERS + len(separator):
            break
    spend_characters(size)
    return separator.join(texts)


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """Replace; raises TemplateError if the result is too long."""
    if not old:
        raise TemplateError("the template replaces an empty text")
    found = text.count(old)
    times = found if count < 0 else min(found, count)
    spend_characters(len(text) + times * len(new))
    if isinstance(old, MaskedText) or isinstance(new, MaskedText):
        # Only a masked text compares its characters without their masks.
        return new.join(text.split(old, count))
    return text.replace(old, new, count)


def check_set(characters: str | None) -> str | None:
    """Return a set of characters to strip; raises TemplateError if it is long."""
    if characters is not None and len(characters) > _MAX_SET:
        raise TemplateError("the template strips too many different characters")
    return characters


def bounded_range(*args: int) -> range:
    """Make a range; raises TemplateError above 100,000 numbers."""
    numbers = range(*args)
    if max(map(abs, args)) > 1 << 62 or len(numbers) > _MAX_RANGE:
        raise TemplateError(f"the template counts to more than {_MAX_RANGE}")
    return numbers


def raise_exception(message: object) -> NoReturn:
    """Refuse the messages, as a template does that finds them out of order."""
    raise TemplateError(f"the template refuses the messages: {str(message)[:_MAX_MESSAGE]}")


def _bounded_test(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def test(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        for value in args[1:]:
            spend_value(value)
        spend_value(args[0]) if len(args) > 1 else spend(1)
        return function(*args, **kwargs)

    return test


def _measured(value: Any) -> Any:  # noqa: ANN401
    """Charge for a value that is about to be compared."""
    spend_value(value)
    return value


def _indent(
    value: object,
    width: int = 4,
    first: bool = False,
    blank: bool = False,
) -> str:
    """Indent every line but the first, and empty ones, as jinja2 does."""
    if type(width) is not int or not 0 <= width <= _MAX_INDENT:
        raise TemplateError("indent: the width is not supported")
    space = " " * width
    lines = (text_of(value) + "\n").splitlines()
    indented = [
        space + line if (i > 0 or first) and (line or blank or i == 0) else line
        for i, line in enumerate(lines)
    ]
    return join_texts(indented, "\n")


def _count(value: object) -> int:
    """Return the number of values in a value."""
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list | tuple) else 1


def _holds_mask(value: object) -> bool:
    if isinstance(value, str):
        return isinstance(value, MaskedText) or is_masked(value)
    if isinstance(value, dict):
        return any(map(_holds_mask, value)) or any(map(_holds_mask, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_mask, value))


class Operations:
    """Filters, tests and functions over one mask."""

    def __init__(self, mask: Mask) -> None:
        """Make the tables for templates whose control tokens are masked by `mask`."""
        self._mask = mask
        own: dict[str, Callable[..., Any]] = {
            "capitalize": lambda value: text_of(value).capitalize(),
            "concatenate": lambda parts: join_texts(map(text_of, parts)),
            "indent": _indent,
            "join": self._join,
            "lower": lambda value: text_of(value).lower(),
            "measured": _measured,
            "replace": lambda s, old, new, count=-1: replace(
                text_of(s), text_of(old), text_of(new), -1 if count is None else count
            ),
            "safe": lambda value: value,
            "sized": lambda value: value,
            "string": text_of,
            "title": lambda value: text_of(value).title(),
            "tojson": self._tojson,
            "trim": lambda value, chars=None: text_of(value).strip(check_set(chars)),
            "upper": lambda value: text_of(value).upper(),
        }
        library = {name: FILTERS[name] for name in _LIBRARY_FILTERS.split()}
        self.filters = {
            name: self._bounded(name, function) for name, function in (library | own).items()
        }
        tests: dict[str, Any] = TESTS
        self.tests = {name: _bounded_test(tests[name]) for name in _LIBRARY_TESTS.split()}

    def result(self, value: Any) -> Any:  # noqa: ANN401
        """Charge for what an operation made, and recognise masked characters in it."""
        spend_result(value)
        return self._mask.recognise(value) if isinstance(value, str) else value

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        # `wraps` also keeps the mark by which jinja2 passes its context to a filter.
        @wraps(function)
        def filter_(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            spend(1)
            if name in _LOOKS_AT_EVERYTHING:
                for value in args:
                    spend(len(value)) if isinstance(value, str) else spend_value(value)
            if name in _NEEDS_REAL_TEXT:
                args = tuple(self._mask.reveal(a) if isinstance(a, str) else a for a in args)
            return self.result(function(*args, **kwargs))

        return filter_

    def _join(self, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
        if attribute is not None:
            value = [item[attribute] for item in value]
        return join_texts(map(text_of, value), text_of(d))

    def _tojson(
        self,
        value: Any,  # noqa: ANN401
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Write JSON as `json.dumps` does, without escapes for HTML; the whole text is masked."""
        spend_value(value)
        width = indent or 0
        if type(width) is not int or not 0 <= width <= _MAX_INDENT:
            raise TemplateError("tojson: the indent is not supported")
        if separators is not None and sum(map(len, separators)) > _MAX_INDENT:
            raise TemplateError("tojson: the separators are too long")
        if width:
            spend_characters(_count(value) * width * MAX_DEPTH)
        is_masked_value = _holds_mask(value)
        text = json.dumps(
            self._reveal(value),
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
            allow_nan=False,
        )
        return self._mask.hide(text) if is_masked_value else text

    def _reveal(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return self._mask.reveal(value)
        if isinstance(value, list | tuple):
            return [self._reveal(item) for item in value]
        if isinstance(value, dict):
            return {self._reveal(k): self._reveal(v) for k, v in value.items()}
        return value
