"""What one rendering of a template may cost, counted in operations and characters, never in time.

A limit in seconds would make the text of a prompt depend on the machine; counts are the same
everywhere.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from engine.errors import TemplateError

MAX_OPERATIONS: Final = 2_000_000
MAX_CHARACTERS: Final = 4_000_000
MAX_DEPTH: Final = 32
_CHARACTERS_PER_OPERATION: Final = 16


class Budget:
    """Operations left. Sixteen characters written or searched count as one operation."""

    def __init__(self) -> None:
        """Start with everything."""
        self.left = MAX_OPERATIONS

    def spend(self, operations: int) -> None:
        """Take operations away.

        Raises:
            TemplateError: there are not as many left.
        """
        self.left -= operations
        if self.left < 0:
            raise TemplateError("the template needs too many operations")


CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


def spend(operations: int) -> None:
    """Charge operations to the rendering under way.

    Raises:
        TemplateError: it has not as many left.
    """
    budget = CURRENT.get()
    if budget is not None:
        budget.spend(operations)


def spend_characters(number: int) -> None:
    """Charge for a text before it is made.

    Raises:
        TemplateError: it is too long, or the rendering has not enough operations left.
    """
    if number > MAX_CHARACTERS:
        raise TemplateError(f"the template makes a text of more than {MAX_CHARACTERS} characters")
    spend(number // _CHARACTERS_PER_OPERATION + 1)


def spend_value(value: object, depth: int = 0) -> None:
    """Charge for everything in a value: what comparing, sorting or printing it may look at.

    Raises:
        TemplateError: it is too large or too deep.
    """
    if isinstance(value, str):
        spend_characters(len(value))
        return
    spend(1)
    if isinstance(value, list | tuple | dict):
        if depth == MAX_DEPTH:
            raise TemplateError(f"a value is nested more than {MAX_DEPTH} deep")
        for item in value:
            spend_value(item, depth + 1)
            if isinstance(value, dict):
                spend_value(value[item], depth + 1)


def spend_result(value: object) -> None:
    """Charge for a value that an operation made: its own length, not that of its items.

    Raises:
        TemplateError: it is too large.
    """
    if isinstance(value, str):
        spend_characters(len(value))
    elif isinstance(value, list | tuple | dict):
        spend(len(value) + 1)
    elif isinstance(value, int) and value.bit_length() > 256:
        raise TemplateError("the template makes a number of more than 256 bits")
    else:
        spend(1)
