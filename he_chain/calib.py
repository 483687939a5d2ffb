"""Ranges of every tensor that a key holder decrypts, found on public text, never on a prompt.

A ciphertext at level 0 holds values below a bound and wraps around beyond it without a word, so the
largest values of each layer are measured on a text that ships with the project, times a margin. A
plan whose ranges do not fit is refused, and the holder refuses a run whose values leave them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import numpy as np

from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError
from crypto.labels import HE_CALIBRATION, HE_PROMPT
from crypto.sm3 import DIGEST_BYTES, sm3
from he_chain.errors import CheckpointError, PlanError, RangeError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.weights import ModelWeights, Values

DEFAULT_MARGIN: Final = 4.0
TENSORS: Final = ("x", "q_raw", "k_raw", "v", "scores", "o", "xo", "gate", "up", "g", "logits")
"""As `PlainModel.exact_forward` names them."""
MAX_BYTES: Final = 60 * 1024
_MAX_TOKENS: Final = 256
_STEP: Final = 1 << 10
"""Ranges are whole numbers of 1/1024, so that a file has one encoding."""
_SPARE: Final = _STEP >> 6
_KEYS: Final = frozenset({"model", "text", "margin", "limits", "version"})


def public_text() -> str:
    """Return the calibration text that ships with the project."""
    return files("he_chain").joinpath("data/calibration.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Ranges:
    """Largest magnitudes that are allowed: the measured ones times a margin."""

    model_digest: bytes
    text_digest: bytes
    """SM3 of the tokens that they were measured on."""
    margin: float
    limits: Mapping[str, tuple[float, ...]]
    """By tensor, of layers 0, 1, ...; `x` has one more, before the last norm; `logits` one."""

    def limit(self, tensor: str, layer: int) -> float:
        """Return the limit of a tensor of a layer; PlanError where there is none."""
        try:
            return self.limits[tensor][layer]
        except (KeyError, IndexError):
            raise PlanError(f"no range of {tensor} in layer {layer} was measured") from None

    def check(self, values: Values, tensor: str, layer: int) -> None:
        """Compare decrypted values with their range.

        Raises:
            RangeError: one is outside, or no number. The text tells nothing that was decrypted.
        """
        if not bool(np.all(np.abs(values) <= self.limit(tensor, layer))):
            raise RangeError(f"{tensor} of layer {layer} is outside the calibrated range")

    def check_fit(self, parameters: Parameters) -> None:
        """Refuse parameters whose last level does not hold every range with two bits to spare.

        Raises:
            RangeError: one of them does not; names it.
        """
        room = 2.0 ** (parameters.first_bits - parameters.scale_bits - 2)
        for tensor, limits in self.limits.items():
            for layer, limit in enumerate(limits):
                if not limit < room:
                    raise RangeError(
                        f"{tensor} of layer {layer} may reach {limit:.6g}, but level 0 holds "
                        f"{room:.6g}"
                    )

    def encode(self) -> bytes:
        """Return its one encoding."""
        limits = {name: [round(v * _STEP) for v in row] for name, row in self.limits.items()}
        return encode(
            {
                "version": 1,
                "model": self.model_digest,
                "text": self.text_digest,
                "margin": round(self.margin * _STEP),
                "limits": encode(limits),
            }
        )

    def digest(self) -> bytes:
        """Return SM3 of its encoding: 32 bytes."""
        return sm3(HE_CALIBRATION + self.encode())


def decode_ranges(unverified_data: bytes) -> Ranges:
    """Return the ranges of a file.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        outer = CborMap(unverified_data, _KEYS, max_bytes=MAX_BYTES)
        outer.integer("version", 1, 1)
        inner = CborMap(
            outer.octets("limits", 1, MAX_BYTES), frozenset(TENSORS), max_bytes=MAX_BYTES
        )
        limits = {
            name: tuple(
                value / _STEP
                for value in inner.integers(name, counts=(1, 1001), least=1, most=1 << 50)
            )
            for name in TENSORS
        }
        ranges = Ranges(
            outer.octets("model", DIGEST_BYTES, DIGEST_BYTES),
            outer.octets("text", DIGEST_BYTES, DIGEST_BYTES),
            outer.integer("margin", _STEP, 1 << 30) / _STEP,
            limits,
        )
    except FormatError as error:
        raise CheckpointError(f"the ranges are damaged: {error}") from None
    if ranges.encode() != unverified_data:
        raise CheckpointError("the ranges are damaged: not in their one encoding")
    return ranges


def public_ids(model: ModelWeights) -> list[int]:
    """Return the tokens of the public text; FormatError where the tokenizer is damaged."""
    return model.tokenizer().encode(public_text())


def calibrate(model: PlainModel, ids: Sequence[int], *, margin: float = DEFAULT_MARGIN) -> Ranges:
    """Measure the ranges of a model on the tokens of a public text.

    Args:
        model: whose ranges.
        ids: the text's tokens, at most 256 of which are used.
        margin: what the measured magnitudes are multiplied with, at least 1.

    Raises:
        PlanError: no tokens, or a margin below 1.
        RangeError: a value is no number.
    """
    if not 1 <= margin <= 1 << 20:
        raise PlanError(f"a margin of {margin} is none")
    used = list(ids[:_MAX_TOKENS])
    layers = model.config.num_layers
    largest = {name: np.zeros(layers + (name == "x")) for name in TENSORS}
    largest["logits"] = np.zeros(1)

    def watch(layer: int, tensor: str, values: Values) -> None:
        if tensor in largest:
            row = largest[tensor]
            place = 0 if tensor == "logits" else layer
            row[place] = np.maximum(row[place], np.abs(values).max())

    model.exact_forward(used, watch=watch)
    limits: dict[str, tuple[float, ...]] = {}
    for name, row in largest.items():
        if not np.isfinite(row).all():
            raise RangeError(f"{name} has a value that is no number")
        # Rounded up, and never so small that noise alone would leave the range.
        limits[name] = tuple(float(v) for v in (np.ceil(row * margin * _STEP) + _SPARE) / _STEP)
    return Ranges(model.model_digest, ids_digest(used), margin, limits)


def refuse_prompt(ranges: Ranges, prompt_ids: Sequence[int]) -> None:
    """Refuse ranges that were measured on the prompt itself.

    Raises:
        PlanError: they were, so their values tell about it.
    """
    prompt = list(prompt_ids[:_MAX_TOKENS])
    if any(ids_digest(prompt[:n]) == ranges.text_digest for n in range(1, len(prompt) + 1)):
        raise PlanError("the ranges were measured on the prompt")


def ids_digest(ids: Sequence[int]) -> bytes:
    """Return SM3 of token ids: 32 bytes."""
    return sm3(HE_PROMPT + np.asarray(ids, "<u4").tobytes())
