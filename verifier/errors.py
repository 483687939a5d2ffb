"""The two ways in which an input is refused."""

from __future__ import annotations


class MalformedError(Exception):
    """An input breaks a rule of its format: `rule` names it, `offset` is where."""

    def __init__(self, rule: str, offset: int = 0) -> None:
        super().__init__(f"{rule} at byte {offset}")
        self.rule = rule
        self.offset = offset


class UsageError(Exception):
    """The auditor's own inputs cannot be used, so there is no verdict."""
