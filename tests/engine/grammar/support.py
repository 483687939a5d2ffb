"""Compilers for the tests' tokenizer, and answers drawn at random under a mask."""

from __future__ import annotations

import json
from functools import cache

import numpy as np

from engine.grammar.compile import GrammarCompiler
from engine.grammar.grammar import Grammar
from engine.grammar.spec import JsonSchema, Tool, ToolCalls, ToolChoice
from tests.engine.text.support import tokenizer

VOCAB_SIZE = 450
"""More than the tokenizer's 419, as models have it."""
EOS_IDS = (412, 410)
CONTROL = frozenset(token.id for token in tokenizer().control_tokens)
CITY = (
    '{"type":"object","properties":{"city":{"type":"string","maxLength":4},'
    '"days":{"type":"integer","minimum":1,"maximum":14}},'
    '"required":["city"],"additionalProperties":false}'
)


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(tokenizer(), VOCAB_SIZE, EOS_IDS)


def of_schema(schema: object) -> Grammar:
    return compiler().compile(JsonSchema(json.dumps(schema)))


def tool(name: str, parameters: str = CITY) -> Tool:
    return Tool(name=name, description=None, parameters=parameters)


def calls(
    choice: ToolChoice | str, *, parallel: bool = True, tools: tuple[Tool, ...] | None = None
) -> ToolCalls:
    return ToolCalls(tools=tools or (tool("weather"), tool("x")), choice=choice, parallel=parallel)


def bytes_of(token_id: int) -> bytes:
    is_text = token_id < tokenizer().vocab_size and token_id not in CONTROL | {*EOS_IDS}
    return tokenizer().token_bytes(token_id) if is_text else b""


ALL_BYTES = [bytes_of(token_id) for token_id in range(VOCAB_SIZE)]
_CLOSING = np.array([bool(b) and all(c in b'"}],:{<>/_calto \n' for c in b) for b in ALL_BYTES])


def drawn(grammar: Grammar, seed: int, most: int = 120) -> tuple[bytes, bool]:
    """Draw ids under the masks, ends and brackets more often; return bytes and whether it ended."""
    random = np.random.default_rng(seed)
    constraint, ids = grammar.start(), list[int]()
    while len(ids) < most and not constraint.is_complete:
        mask = constraint.mask()
        logits = random.normal(size=VOCAB_SIZE) + 4.0 * _CLOSING * random.integers(0, 2)
        token_id = int(np.argmax(np.where(mask, logits, -np.inf)))
        if token_id in EOS_IDS:
            return b"".join(map(bytes_of, ids)), True
        constraint.push(token_id)
        ids.append(token_id)
    return b"".join(map(bytes_of, ids)), constraint.is_complete


def push_bytes(constraint, data: bytes) -> None:
    """Push bytes one at a time, each by the id that stands for it."""
    for byte in data:
        constraint.push(ALL_BYTES.index(bytes([byte])))
