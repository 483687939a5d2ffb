"""The published table of fields: what is supported, ignored or refused, with values that show it.

PARAMETERS.md is rendered from it; a test holds every row against the parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from appliance.api.limits import MAX_INPUTS, MAX_KEY_CHARACTERS, MAX_MESSAGES, MAX_TOOLS
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from engine.sampling.parameters import MAX_LOGIT_BIASES, MAX_LOGPROBS
from engine.text.stop import MAX_STOP_CHARACTERS, MAX_STOPS

_TOOL: Final = '{"type":"function","function":{"name":"f"}}'
_SCHEMA: Final = '{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}'
_TOO_MANY_STOPS: Final = '["a"' + ',"a"' * MAX_STOPS + "]"
_USER: Final = '{"role":"user","content":"q"}'


class Standing(Enum):
    """What becomes of a field."""

    SUPPORTED = "supported"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One field of one endpoint. Null is as good as absent for all but required fields.

    Attributes:
        path: the endpoint's.
        name: of the field.
        standing: what becomes of it.
        values: which values pass, for people.
        takes: JSON texts that pass. Of a supported field the first one changes the request; of the
            others none does.
        refuses: JSON texts that are refused by the name of the field.
        beside: further members of the body, without which the field makes no sense.
    """

    path: str
    name: str
    standing: Standing
    values: str
    takes: tuple[str, ...]
    refuses: tuple[str, ...]
    beside: str = ""


def rows() -> Iterator[Row]:
    """Return every row, by endpoint."""
    yield from _chat()
    yield from _completions()
    yield from _embeddings()


def render() -> str:
    """Return the text of PARAMETERS.md."""
    lines = [_HEAD]
    table = list(rows())
    for path in (CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH):
        lines += [f"\n## POST {path}\n", "| field | | values |", "| --- | --- | --- |"]
        lines += [
            f"| `{row.name}` | {row.standing.value} | {row.values} |"
            for row in table
            if row.path == path
        ]
    return "\n".join(lines) + "\n"


_HEAD: Final = """\
# Fields of requests

Every field of the OpenAI interface, and what becomes of it here. *supported*: it does what it says.
*ignored*: it is checked and changes nothing. *refused*: only the values listed pass, since they ask
for nothing; any other is answered with status 400, code `unsupported_parameter` and the field's
name. What is not listed is refused in the same way. Null is as good as absent, except where a field
is required. Numbers are read from their decimal text and rounded to millionths, half to even; true
and false are no numbers. How messages, tools and formats become a prompt: REQUESTS.md."""


def _supported(
    path: str,
    name: str,
    values: str,
    takes: tuple[str, ...],
    refuses: tuple[str, ...],
    beside: str = "",
) -> Row:
    return Row(
        path=path,
        name=name,
        standing=Standing.SUPPORTED,
        values=values,
        takes=takes,
        refuses=refuses,
        beside=beside,
    )


def _ignored(
    path: str, name: str, values: str, takes: tuple[str, ...], refuses: tuple[str, ...]
) -> Row:
    return Row(
        path=path,
        name=name,
        standing=Standing.IGNORED,
        values=values,
        takes=takes,
        refuses=refuses,
    )


def _refused(path: str, name: str, takes: tuple[str, ...], refuses: tuple[str, ...]) -> Row:
    values = ", ".join(f"`{text}`" for text in (*takes, "null"))
    return Row(
        path=path,
        name=name,
        standing=Standing.REFUSED,
        values=values,
        takes=takes,
        refuses=refuses,
    )


def _model(path: str) -> Row:
    return _supported(
        path,
        "model",
        "required; the name of the model that is served (any other: 404)",
        ('"other"',),
        ("null", "1", f'"{"m" * 201}"'),
    )


def _chat() -> Iterator[Row]:
    path = CHAT_PATH
    user = f'{{"role":"user","content":"a"}},{_USER}'
    yield _model(path)
    yield _supported(
        path,
        "messages",
        f"required; 1 .. {MAX_MESSAGES} messages of the roles system, developer, user, assistant, "
        "tool; content a string or text parts",
        (f"[{user}]", '[{"role":"user","content":[{"type":"text","text":"b"}]}]'),
        ("null", "[]", "{}", '"q"'),
    )
    yield from _generation(path)
    yield _supported(
        path,
        "max_completion_tokens",
        "1 .. 2147483647; beside `max_tokens` only with the same value",
        ("5",),
        ("0", "1.0", '"5"', "true"),
    )
    yield _supported(
        path,
        "logprobs",
        "true: log-probabilities of the tokens of the answer",
        ("true", "false"),
        ("1", '"true"'),
    )
    yield _supported(
        path,
        "top_logprobs",
        f"0 .. {MAX_LOGPROBS}, with `logprobs`",
        ("3", "0"),
        ("21", "-1", "true", "1.5"),
        '"logprobs":true',
    )
    yield _supported(
        path,
        "tools",
        f"at most {MAX_TOOLS} tools of type function; names of 1 .. 64 characters A-Z a-z 0-9 _ -; "
        "arguments always follow their schema, with `strict` or without",
        (f"[{_TOOL}]", "[]"),
        ("{}", f"[{_TOOL},{_TOOL}]"),
    )
    yield _supported(
        path,
        "tool_choice",
        '`"none"`, `"auto"`, `"required"` or `{"type":"function","function":{"name":...}}`',
        (
            '"required"',
            '"none"',
            '{"type":"function","function":{"name":"f"}}',
            '"auto"',
        ),
        ('"any"', "true"),
        f'"tools":[{_TOOL}]',
    )
    yield _supported(
        path,
        "parallel_tool_calls",
        "false: at most one call",
        ("false", "true"),
        ("0",),
        f'"tools":[{_TOOL}]',
    )
    yield _supported(
        path,
        "response_format",
        "`text`, `json_object`, or `json_schema` (always followed, with `strict` or without; a "
        "keyword that is not supported is refused); beside `tools` only with `tool_choice` none",
        (_SCHEMA, '{"type":"json_object"}', '{"type":"text"}'),
        ('"json_object"', "[]"),
    )
    yield _supported(
        path,
        "prompt_cache_key",
        f"a string of at most {MAX_KEY_CHARACTERS} characters; separates prefix caches",
        ('"k"',),
        ("1", f'"{"k" * 257}"'),
    )
    yield _ignored(
        path,
        "metadata",
        "at most 16 members, texts of at most 512 characters",
        ('{"a":"b"}', "{}"),
        ('{"a":1}', '"a"'),
    )
    yield from (_name(path, name) for name in ("user", "safety_identifier"))
    yield _refused(path, "n", ("1",), ("2", "0", "true"))
    yield _refused(path, "audio", (), ("{}",))
    yield _refused(path, "function_call", ('"none"',), ('"auto"', '{"name":"f"}'))
    yield _refused(path, "functions", ("[]",), ('[{"name":"f"}]',))
    yield _refused(path, "modalities", ('["text"]',), ('["text","audio"]', '"text"'))
    yield _refused(path, "moderation", (), ("{}",))
    yield _refused(path, "prediction", (), ('{"type":"content","content":"a"}',))
    yield _refused(path, "prompt_cache_options", ("{}",), ('{"a":1}',))
    yield _refused(path, "prompt_cache_retention", ('"in_memory"',), ('"24h"',))
    yield _refused(path, "reasoning_effort", ('"none"',), ('"low"', '"high"'))
    yield _refused(path, "service_tier", ('"auto"', '"default"'), ('"flex"', '"priority"'))
    yield _refused(path, "store", ("false",), ("true", "0"))
    yield _refused(path, "verbosity", ('"medium"',), ('"low"',))
    yield _refused(path, "web_search_options", (), ("{}",))


def _completions() -> Iterator[Row]:
    path = COMPLETIONS_PATH
    yield _model(path)
    yield _supported(
        path,
        "prompt",
        "required; a string, or an array of exactly one string",
        ('"x"', '["x"]'),
        ("null", "[]", "1", '["a","b"]', "[1,2]", "[[1,2]]", '["a",1]'),
    )
    yield from _generation(path)
    yield _supported(
        path,
        "logprobs",
        f"0 .. {MAX_LOGPROBS}: log-probabilities with so many alternatives",
        ("2", "0"),
        ("21", "true", '"2"', "1.0"),
    )
    yield _name(path, "user")
    yield _refused(path, "n", ("1",), ("2", "0", "true"))
    yield _refused(path, "best_of", ("1",), ("2", "true"))
    yield _refused(path, "echo", ("false",), ("true", "0"))
    yield _refused(path, "suffix", ('""',), ('"x"',))


def _embeddings() -> Iterator[Row]:
    path = EMBEDDINGS_PATH
    yield _model(path)
    yield _supported(
        path,
        "input",
        f"required; a string, or 1 .. {MAX_INPUTS} strings",
        ('"x"', '["x","y"]'),
        ("null", "[]", "1", "[1,2]", "[[1,2]]", '["a",1]'),
    )
    yield _supported(
        path,
        "encoding_format",
        "`float` or `base64` (little-endian binary32)",
        ('"base64"', '"float"'),
        ('"hex"', "1"),
    )
    yield _name(path, "user")
    yield _refused(path, "dimensions", (), ("8",))


def _name(path: str, name: str) -> Row:
    values = f"a string of at most {MAX_KEY_CHARACTERS} characters"
    return _ignored(path, name, values, ('"u"', '""'), ("1", f'"{"u" * 257}"'))


def _generation(path: str) -> Iterator[Row]:
    """Return the rows that chat and completions have in common."""
    yield _supported(
        path,
        "max_tokens",
        "1 .. 2147483647; 0 is refused, since an answer has at least one token",
        ("5",),
        ("0", "-1", "1.0", '"5"', "true", "2147483648"),
    )
    yield _supported(path, "stream", "true: piece by piece", ("true", "false"), ("1", '"true"'))
    yield _supported(
        path,
        "stream_options",
        "`include_usage`, with `stream`; `include_obfuscation` only false",
        ('{"include_usage":true}', '{"include_usage":null}', "{}"),
        ('"usage"', "[]"),
        '"stream":true',
    )
    yield _supported(
        path,
        "stop",
        f"a string or at most {MAX_STOPS}, each of 1 .. {MAX_STOP_CHARACTERS} characters",
        ('"x"', '["x","y"]', "[]"),
        ('""', "1", '["a",1]', _TOO_MANY_STOPS),
    )
    yield _supported(
        path, "seed", "0 .. 2^64 - 1", ("7", "18446744073709551615"), ("-1", "1e3", "true")
    )
    decimals = {
        "temperature": ("0 .. 100; 0 takes the likeliest token", ("0.7", "0"), ("-0.1", "101")),
        "top_p": ("0 .. 1", ("0.9", "1"), ("1.1", "-1")),
        "min_p": ("0 .. 1", ("0.1", "0"), ("1.1", "-1")),
        "repetition_penalty": ("0.01 .. 100; 1 is none", ("1.1", "1"), ("0", "101")),
        "presence_penalty": ("-100 .. 100", ("-2", "0"), ("101", "-101")),
        "frequency_penalty": ("-100 .. 100", ("0.5", "0"), ("101", "-101")),
    }
    for name, (values, takes, refuses) in decimals.items():
        yield _supported(path, name, values, takes, (*refuses, '"1"', "true", "1e99"))
    yield _supported(
        path, "top_k", "0 .. 2147483647; 0 for all", ("40", "0"), ("-1", "1.5", "true")
    )
    yield _supported(
        path,
        "logit_bias",
        f"at most {MAX_LOGIT_BIASES} token ids with a bias of -100 .. 100",
        ('{"5":-1.5}', "{}"),
        ("[]", '{"a":1}', '{"05":1}', '{"5":101}', '{"5":null}', '{"5":true}'),
    )
