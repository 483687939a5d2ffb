"""What the key holder knows of a model: its shape, the embedding's rows, the norms of q and k.

All other vectors are folded into matrices, which only the evaluator has. Where the head is the
embedding (`tied_embeddings`) the holder thereby has the head as well: the claims say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crypto.cbor import decode, encode
from crypto.errors import FormatError
from engine.config import ModelConfig
from he_chain.errors import ProtocolError
from he_chain.records.run_folder import read_whole, write_whole
from he_chain.weights import ModelWeights, Values

MODEL: Final = "model.cbor"
EMBEDDING: Final = "embedding.f32"
HEAD_NORMS: Final = "head_norms.f64"
_MAX_BYTES: Final = 1 << 16
_DIGEST_BYTES: Final = 32
_PRIVATE: Final = 0o600


class HolderModel:
    """A model as the key holder has it, read from its folder."""

    def __init__(self, folder: Path) -> None:
        """Read what `write_holder_model` wrote; the embedding stays in its file.

        Raises:
            ProtocolError: a file is damaged or missing.
        """
        try:
            value = decode(read_whole(folder / MODEL, _MAX_BYTES), max_bytes=_MAX_BYTES)
            self.config, self.model_digest = _config(value)
            shape = (self.config.vocab_size, self.config.hidden_size)
            self._embedding = np.memmap(folder / EMBEDDING, np.dtype("<f4"), "r", shape=shape)
            self._norms = _head_norms(folder, self.config)
        except (FormatError, ValueError, TypeError, KeyError, OSError) as error:
            raise ProtocolError(f"the holder's model is damaged: {error}") from None

    def embedding(self, token: int) -> Values:
        """Return a token's row: float64[hidden_size]."""
        return np.asarray(self._embedding[token], np.float64)

    def head_norms(self, layer: int) -> tuple[Values | None, Values | None]:
        """Return the factors of the norms of q and k, None where the model has none."""
        if self._norms is None:
            return None, None
        return self._norms[layer, 0], self._norms[layer, 1]


def write_holder_model(folder: Path, weights: ModelWeights) -> None:
    """Write what the key holder needs of a model.

    Raises:
        WriteError: a file exists already, or the file system refused.
        WeightsError, WeightsUncheckedError: as of `ModelWeights`.
    """
    config = asdict(weights.config)
    if config["pooling"] is None:
        del config["pooling"]
    head = encode({"config": config, "digest": weights.model_digest})
    write_whole(folder / EMBEDDING, weights.embedding().tobytes(), force=False, mode=_PRIVATE)
    if weights.config.qk_norm:
        norms = [_norms_of(weights, layer) for layer in range(weights.config.num_layers)]
        write_whole(folder / HEAD_NORMS, np.stack(norms).tobytes(), force=False, mode=_PRIVATE)
    write_whole(folder / MODEL, head, force=False, mode=_PRIVATE)


def _norms_of(weights: ModelWeights, layer: int) -> Values:
    w = weights.layer(layer)
    if w.q_norm is None or w.k_norm is None:
        raise ProtocolError("the model lacks the norms of q and k")
    return np.stack([w.q_norm, w.k_norm])


def _config(value: object) -> tuple[ModelConfig, bytes]:
    """Return configuration and digest; ValueError, TypeError or KeyError where they are none."""
    if not isinstance(value, dict) or value.keys() != {"config", "digest"}:
        raise ValueError("other keys")
    config, digest = value["config"], value["digest"]
    if not isinstance(digest, bytes) or len(digest) != _DIGEST_BYTES:
        raise ValueError("no digest")
    if not config.keys() <= {field.name for field in fields(ModelConfig)}:
        raise ValueError("other fields")
    frequencies: Sequence[int] = config["rope_inv_freq_bits"]
    return ModelConfig(**{**config, "rope_inv_freq_bits": tuple(frequencies)}), digest


def _head_norms(folder: Path, config: ModelConfig) -> NDArray[np.float64] | None:
    """Return float64[layers, 2, head_dim], or None."""
    if not config.qk_norm:
        return None
    shape = (config.num_layers, 2, config.head_dim)
    data = read_whole(folder / HEAD_NORMS, 1 << 24)
    return np.frombuffer(data, np.float64).reshape(shape)
