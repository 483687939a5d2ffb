"""The grammar that an answer had to follow, compiled again from its request."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from appliance.audit.claimed import Claimed
from appliance.audit.findings import FailedError
from engine.audit.answered import Answered
from engine.audit.text import TextModel
from engine.errors import ConfigError

if TYPE_CHECKING:
    from engine.grammar.compile import GrammarCompiler
    from engine.grammar.grammar import Grammar
    from engine.vqf import VqfFile

GRAMMAR: Final = "grammar"
"""The parameter of a statement that says that there was one."""


class GrammarSource(Protocol):
    """What has the vocabulary of a model."""

    @property
    def grammars(self) -> GrammarCompiler:
        """Its compiler."""
        ...


class FileGrammars:
    """The vocabulary of a file, read when a grammar asks for it."""

    def __init__(self, file: VqfFile) -> None:
        """Keep an open file."""
        self._file = file

    @cached_property
    def grammars(self) -> GrammarCompiler:
        """Its compiler; errors as `TextModel`."""
        return TextModel(self._file).grammars


def grammar_of(claimed: Claimed, source: GrammarSource) -> Grammar | None:
    """Return the grammar of an answer, None if the statement says that there was none.

    Raises:
        OpenError: `no-request`, `no-salt-request`: it stands in the request alone.
        FailedError: `parameters`: the request asks for none; `request-refused`: it asks for one
            that no appliance holds.
    """
    if claimed.statement.parameters.get(GRAMMAR, 0) == 0:
        return None
    spec = claimed.request.grammar
    if spec is None:
        raise FailedError("parameters")
    try:
        return source.grammars.compile(spec)
    except ConfigError:
        raise FailedError("request-refused") from None


def answered_of(claimed: Claimed, source: GrammarSource) -> Answered:
    """Return what is to be executed again, with its grammar.

    Raises:
        OpenError, FailedError: as `grammar_of`, or as the parts of `Claimed.answered`.
    """
    return replace(claimed.answered, grammar=grammar_of(claimed, source))
