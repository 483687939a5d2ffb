"""Chat templates: from messages to a prompt in which every control token is the template's own.

Steps X7 to X9 of NUMERICS 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Final, TypeAlias

import jinja2
from jinja2 import nodes

from engine.errors import TemplateError
from engine.text.budget import CURRENT, MAX_CHARACTERS, MAX_DEPTH, Budget
from engine.text.clock import format_time
from engine.text.prompt import Marker, Prompt
from engine.text.provenance import Mask, is_masked
from engine.text.sandbox import Sandbox
from engine.text.tokenizer import Tokenizer

MAX_TEMPLATE_BYTES: Final = 64 * 1024

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
"""Roles of messages that are not masked: words of the interface, on which some templates build."""

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

_MAX_VALUES: Final = 200_000
_MAX_MESSAGE: Final = 300


class ChatTemplate:
    """Renders conversations for one tokenizer; used by several threads at once."""

    def __init__(self, source: bytes, tokenizer: Tokenizer) -> None:
        """Compile a template.

        Args:
            source: the template in UTF-8, as the VQF file holds it.
            tokenizer: whose control tokens the template writes.

        Raises:
            TemplateError: it is too long, damaged, or uses what is not supported.
            UnsupportedError: the control tokens have too many different characters.
        """
        tokens = {token.content: token for token in tokenizer.control_tokens}
        self._tokens = tokens
        self._mask = Mask(tokens)
        # The longest first: a token may begin like another.
        longest_first = sorted(tokens, key=lambda content: (-len(content), content))
        self._markers = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        if len(source) > MAX_TEMPLATE_BYTES:
            raise TemplateError(f"the template is longer than {MAX_TEMPLATE_BYTES} bytes")
        with _within_limits():
            sandbox = Sandbox(self._mask)
            tree = sandbox.parse(source.decode("utf-8"))
            self._names = _special_names(tree, tokenizer)
            self.uses_tools = any(node.name == "tools" for node in tree.find_all(nodes.Name))
            """Whether it describes functions by itself."""
            self.knows_developer = any(c.value == "developer" for c in tree.find_all(nodes.Const))
            """Whether the role developer is anything to it."""
            code = sandbox.compile(sandbox.meter(tree))
            self._template = jinja2.Template.from_code(sandbox, code, sandbox.make_globals(None))

    def render(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        now_unix_s: int,
        tools: Sequence[Json] | None = None,
        variables: Mapping[str, Json] | None = None,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        """Render a conversation.

        Every text in the arguments is a user's, whatever the role: none becomes a control token.

        Args:
            messages: as the interface takes them; `content` as the template wants it.
            now_unix_s: the admission time: the only clock that a template sees, in UTC.
            tools: descriptions of functions.
            variables: further names for the template.
            add_generation_prompt: whether the prompt ends where the answer begins.

        Raises:
            TemplateError: the template refuses the messages, fails, exceeds a limit, or does
                something with a text that hides who wrote it.
        """
        given: dict[str, Json] = {
            **(variables or {}),
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        _check(given)
        if not all(isinstance(message, Mapping) for message in messages):
            raise TemplateError("a message is not an object")
        plain = {name: self._copy(value, masked=False) for name, value in given.items()}
        text = self._run(plain, now_unix_s)
        disguised = {name: self._copy(value, masked=True) for name, value in given.items()}
        for message, original in zip(disguised["messages"], messages, strict=True):
            role = original.get("role")
            if isinstance(role, str) and role in ROLES:
                message["role"] = role
        masked = self._run(disguised, now_unix_s)
        _check_text(text)
        if self._mask.reveal(masked) != text:
            raise TemplateError("the template hides which of its text is a user's")
        markers = tuple(
            Marker(match.start(), match.end(), self._tokens[match.group()])
            for match in self._markers.finditer(masked)
        )
        return Prompt(text, markers)

    def _run(self, values: dict[str, Any], now_unix_s: int) -> str:
        def strftime_now(pattern: str) -> str:
            text = format_time(now_unix_s, self._mask.reveal(pattern))
            return self._mask.hide(text) if is_masked(pattern) else text

        with _within_limits():
            rendered = self._template.render(
                {**values, **self._names, "strftime_now": strftime_now}
            )
            return str.__str__(rendered)

    def _copy(self, value: Json, *, masked: bool) -> Any:  # noqa: ANN401
        """Copy into lists and dictionaries of our own, masked or as it is."""
        if isinstance(value, str):
            return self._mask.hide(value) if masked else value
        if isinstance(value, Mapping):
            return {
                self._copy(name, masked=masked): self._copy(item, masked=masked)
                for name, item in value.items()
            }
        if isinstance(value, Sequence):
            return [self._copy(item, masked=masked) for item in value]
        return value


@contextmanager
def _within_limits() -> Iterator[None]:
    """Give the template engine a budget, and turn every failure inside it into a TemplateError."""
    token = CURRENT.set(Budget())
    try:
        yield
    except TemplateError:
        raise
    except jinja2.TemplateError as error:
        raise TemplateError(f"the template fails: {str(error)[:_MAX_MESSAGE]}") from None
    except Exception as error:
        # Whatever a template provokes inside the engine, deep recursion included, is its failure.
        raise TemplateError(f"the template fails: {type(error).__name__}") from error
    finally:
        CURRENT.reset(token)


def _special_names(tree: nodes.Template, tokenizer: Tokenizer) -> dict[str, str]:
    """Return the special tokens that templates know by name.

    Raises:
        TemplateError: the template writes `eos_token`, and more than one token ends an answer.
    """
    config = tokenizer.config
    used = {node.name for node in tree.find_all(nodes.Name)}
    if "eos_token" in used and len(config.eos_ids) > 1:
        raise TemplateError("the template writes eos_token, and several tokens end an answer")
    ids = {"bos_token": config.bos_id, "eos_token": next(iter(config.eos_ids), None)}
    names = {key: tokenizer.name(i) for key, i in ids.items() if i is not None}
    return {key: name for key, name in names.items() if name is not None}


def _check(value: Json) -> None:
    """Refuse what is not JSON in UTF-8, or too large, before anything is copied."""
    values = characters = 0
    pending: list[tuple[Json, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        values += 1
        if isinstance(item, str):
            characters += len(item)
            _check_text(item)
        elif isinstance(item, Mapping):
            pending.extend((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, Sequence) and not isinstance(item, bytes | bytearray):
            pending.extend((part, depth + 1) for part in item)
        elif not (item is None or isinstance(item, bool | int | float)):
            raise TemplateError(f"a {type(item).__name__} cannot be given to a template")
        elif isinstance(item, float) and not isfinite(item):
            raise TemplateError("a number that is not finite cannot be given to a template")
        if depth > MAX_DEPTH or values > _MAX_VALUES or characters > MAX_CHARACTERS:
            raise TemplateError("the messages are too large or nested too deeply")


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TemplateError(f"half a surrogate pair at character {error.start}") from None
