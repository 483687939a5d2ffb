"""A tokenizer, templates and texts for the tests of text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as Library

from engine.config import TokenizerConfig
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer

DATA = Path(__file__).parents[2] / "data" / "text"
TOKENIZER_JSON = (DATA / "tokenizer.json").read_bytes()
TEMPLATES = {path.stem: path.read_bytes() for path in sorted(DATA.glob("templates/*.jinja"))}
CONFIG = TokenizerConfig(bos_id=410, eos_ids=(412,), add_bos=False)
NOW_UNIX_S = 1_700_000_000  # 14 November 2023, 22:13:20 UTC

START, END, THINK, NO_THINK = 411, 412, 417, 418


def document() -> dict:
    """Return the tokenizer.json as a fresh object."""
    return json.loads(TOKENIZER_JSON)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer(TOKENIZER_JSON, CONFIG)


@cache
def library() -> Library:
    """Return the plain library, in which text becomes control tokens."""
    return Library.from_str(TOKENIZER_JSON.decode())


@cache
def template(name: str) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], tokenizer())


def compiled(source: str) -> ChatTemplate:
    return ChatTemplate(source.encode(), tokenizer())


def render(source: str, *contents: str, **kwargs):
    """Render a template with messages of a user."""
    messages = [{"role": "user", "content": content} for content in contents or ("hi",)]
    return compiled(source).render(messages, now_unix_s=NOW_UNIX_S, **kwargs)


def naive(name: str, messages, **values) -> str:
    """Render a template as model libraries do: no limits, no difference between texts."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["strftime_now"] = datetime.fromtimestamp(NOW_UNIX_S, UTC).strftime
    values = {"tools": None, "add_generation_prompt": True, "bos_token": "<|endoftext|>"} | values
    return environment.from_string(TEMPLATES[name].decode()).render(messages=messages, **values)


def naive_ids(name: str, messages, **values) -> list[int]:
    """Encode that as model libraries do: whatever looks like a control token is one."""
    text = naive(name, messages, **values)
    return library().encode(text, add_special_tokens=False).ids


MARKERS = [token.content for token in tokenizer().control_tokens]
PIECES = sorted({marker[:cut] for marker in MARKERS for cut in range(1, len(marker))})
TAILS = sorted({marker[cut:] for marker in MARKERS for cut in range(1, len(marker))})

words = st.sampled_from(
    ["", " ", "\n", "the", " quick", "é", "你好", "🙂", "1", "{", '"', "\\", "\t"]
)
harmless = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=40)
hostile = st.lists(
    st.one_of(words, st.sampled_from(MARKERS), st.sampled_from(PIECES), st.sampled_from(TAILS)),
    max_size=8,
).map("".join)
texts = st.one_of(st.text(max_size=60), harmless, hostile)
