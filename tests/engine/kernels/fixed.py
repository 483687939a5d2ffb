"""Fixed models and digests of what they compute, to compare processes, kernel paths and CPUs.

    python -m tests.engine.kernels.fixed MODEL ...

prints one JSON object: the kernel path, and for each model digests of logits and residuals, the
trace root and sampled tokens, once for each number of threads.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.reference.weights import Weight, float_profile
from engine.sampling.parameters import SamplingParameters
from tests.engine.kernels.models import KINDS, random_ids, random_weights, small_config

Array = NDArray[Any]
Report = dict[str, str]


class Fixed(NamedTuple):
    """One model and how it is run: whole, in chunks, and the last positions one by one."""

    config: ModelConfig
    kinds: tuple[str, ...]
    is_float_profile: bool = False
    is_sampled: bool = True

    @property
    def ids(self) -> list[int]:
        """The prompt: past a cache block, no multiple of 16."""
        return random_ids(self.config, 87)

    def weights(self) -> dict[str, Weight]:
        """Return the tensors."""
        weights = random_weights(self.config, self.kinds)
        return float_profile(weights) if self.is_float_profile else weights


MODELS = {
    # One integer kind, one float kind, no sampling: what has to be compiled is little.
    "small": Fixed(
        small_config(num_layers=1, intermediate_size=256), ("Q8_0", "F32"), is_sampled=False
    ),
    # A K kind, high bits, and heads in sevens.
    "middle": Fixed(
        small_config("qwen2", num_heads=7, num_kv_heads=1, head_dim=64, tied_embeddings=False),
        ("Q4_0", "Q6_K", "F16"),
    ),
    "all": Fixed(small_config("qwen3"), KINDS),
    "float": Fixed(small_config("qwen3", num_layers=1, head_dim=80), KINDS, is_float_profile=True),
}
CHUNKS = (80, 3, 1, 1, 1, 1)
SAMPLINGS = (
    SamplingParameters(temperature_millionths=0, logprobs=2),
    SamplingParameters(seed=7, temperature_millionths=800_000),
    SamplingParameters(seed=8, temperature_millionths=1_500_000, top_k=40, logprobs=0),
    SamplingParameters(seed=9, temperature_millionths=1_000_000, top_p_millionths=900_000),
    SamplingParameters(
        seed=2**63,
        temperature_millionths=1_200_000,
        min_p_millionths=20_000,
        repetition_penalty_millionths=1_100_000,
        frequency_penalty_millionths=300_000,
        presence_penalty_millionths=-200_000,
        logit_bias_millionths=((3, 2_000_000), (9, -1_500_000)),
    ),
)


def digest_of(array: Array) -> str:
    """Return the digest of an array's bits."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def report(logits: Array, residuals: Array, root: bytes, choices: Iterable[Any]) -> Report:
    """Return what is compared."""
    return {
        "logits": digest_of(logits),
        "residuals": digest_of(residuals),
        "trace_root": root.hex(),
        "choices": hashlib.sha256(repr(list(choices)).encode()).hexdigest(),
    }


def sample_all(module: str, name: str, logits: Array, fixed: Fixed) -> list[Any]:
    """Return a choice from the logits of each of the last eight positions, with each sampling.

    The class of samplers is imported by its name: importing the compiled one compiles it.
    """
    if not fixed.is_sampled:
        return []
    sampler_of = getattr(importlib.import_module(module), name)
    choices = []
    ids = fixed.ids
    for parameters in SAMPLINGS:
        sampler = sampler_of(parameters, logits.shape[1])
        for position in range(len(ids) - 8, len(ids)):
            choice = sampler.sample(logits[position], ids[:60], ids[60:position], position + 1)
            choices.append((choice.id, choice.logprob, choice.top))
    return choices


def defined(name: str) -> Report:
    """Return what the definition says of a model; imports nothing that is compiled."""
    from engine.reference.decoder import ReferenceModel
    from engine.reference.trace import trace_root

    fixed = MODELS[name]
    cache_type = np.float32 if fixed.is_float_profile else np.float16
    model = ReferenceModel(fixed.config, fixed.weights(), cache_type=cache_type)
    found = model.forward(fixed.ids)
    choices = sample_all("engine.sampling.reference", "ReferenceSampler", found.logits, fixed)
    return report(found.logits, found.residuals, trace_root(found.residuals), choices)


def computed(name: str, num_threads: int) -> Report:
    """Return what the engine computes, whole and in chunks.

    Raises:
        RuntimeError: the two differ.
    """
    from tests.engine.kernels.running import engine_of, run

    fixed = MODELS[name]
    single = fixed.is_float_profile
    with engine_of(fixed.config, fixed.weights(), num_threads, single_cache=single) as engine:
        outcomes = [run(engine, fixed.ids), run(engine, fixed.ids, CHUNKS)]
    whole, in_chunks = (
        report(*outcome, sample_all("engine.sampling.sampler", "Sampler", outcome.logits, fixed))
        for outcome in outcomes
    )
    if whole != in_chunks:
        raise RuntimeError(f"{name}: in chunks {in_chunks}, whole {whole}")
    return whole


def main(names: Sequence[str], threads: Sequence[int] = (1, 2)) -> None:
    """Print the report of some models."""
    from simd.target import TARGET

    models = {name: {str(n): computed(name, n) for n in threads} for name in names}
    print(json.dumps({"path": TARGET.path, "cpu_name": TARGET.cpu_name, "models": models}))


if __name__ == "__main__":
    main(sys.argv[1:])
