"""How tokens are to be chosen: the numbers of a body, never through a float."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from appliance.api.fields import Fields, read_millionths
from appliance.api.json_body import Value
from appliance.api.limits import MAX_INT32, MAX_SEED
from appliance.api.request_error import RequestError
from engine.sampling.parameters import (
    MAX_LOGIT_BIASES,
    MAX_LOGPROBS,
    MAX_VOCAB_SIZE,
    ONE,
    SamplingParameters,
)

_HUNDRED: Final = 100 * ONE
_TOKEN_ID: Final = re.compile(r"0|[1-9][0-9]{0,6}")


class Range(NamedTuple):
    """The values of a decimal field, in millionths."""

    default: int
    least: int
    most: int


DECIMALS: Final = {
    "temperature": Range(ONE, 0, _HUNDRED),
    "top_p": Range(ONE, 0, ONE),
    "min_p": Range(0, 0, ONE),
    "repetition_penalty": Range(ONE, ONE // 100, _HUNDRED),
    "presence_penalty": Range(0, -_HUNDRED, _HUNDRED),
    "frequency_penalty": Range(0, -_HUNDRED, _HUNDRED),
}
"""The ranges of `SamplingParameters`."""


class Sampling(NamedTuple):
    """How tokens are chosen; the seed apart, since it may be absent."""

    seed: int | None
    parameters: SamplingParameters


def read_sampling(fields: Fields, *, is_chat: bool) -> Sampling:
    """Take every field about the choice of tokens.

    Raises:
        RequestError: one is malformed or outside its range.
    """
    seed = fields.integer("seed", 0, MAX_SEED)
    numbers = {name: _decimal(fields, name) for name in DECIMALS}
    return Sampling(
        seed,
        SamplingParameters(
            seed=seed or 0,
            temperature_millionths=numbers["temperature"],
            top_k=fields.integer("top_k", 0, MAX_INT32) or 0,
            top_p_millionths=numbers["top_p"],
            min_p_millionths=numbers["min_p"],
            repetition_penalty_millionths=numbers["repetition_penalty"],
            presence_penalty_millionths=numbers["presence_penalty"],
            frequency_penalty_millionths=numbers["frequency_penalty"],
            logit_bias_millionths=_logit_bias(fields.take("logit_bias")),
            logprobs=_chat_logprobs(fields) if is_chat else _logprobs(fields, "logprobs"),
        ),
    )


def _decimal(fields: Fields, name: str) -> int:
    value = fields.take(name)
    default, least, most = DECIMALS[name]
    return default if value is None else read_millionths(name, value, least, most)


def _logprobs(fields: Fields, name: str) -> int | None:
    return fields.integer(name, 0, MAX_LOGPROBS)


def _chat_logprobs(fields: Fields) -> int | None:
    """Return how many alternatives are listed, None for no log-probabilities at all."""
    is_wanted = fields.boolean("logprobs")
    number = _logprobs(fields, "top_logprobs")
    if is_wanted:
        return number or 0
    if number:
        raise RequestError("top_logprobs", "needs logprobs to be true")
    return None


def _logit_bias(value: Value) -> tuple[tuple[int, int], ...]:
    """Return pairs of id and bias in millionths, by ascending ids."""
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > MAX_LOGIT_BIASES:
        message = f"must be an object of at most {MAX_LOGIT_BIASES} members"
        raise RequestError("logit_bias", message)
    biases = []
    for name, bias in value.items():
        if _TOKEN_ID.fullmatch(name) is None or int(name) >= MAX_VOCAB_SIZE or bias is None:
            raise RequestError("logit_bias", "must give a number for each token id")
        biases.append((int(name), read_millionths("logit_bias", bias, -_HUNDRED, _HUNDRED)))
    return tuple(sorted(biases))
