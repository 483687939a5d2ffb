"""The load benchmark: a sealed, signed file from the page cache into memory, every byte verified.

A load is what a start of the service does: open the file, unwrap the data key, compare header and
manifest tags, verify the signature and judge it by a trust file, then read, tag, decrypt and hash
every chunk into fresh memory. The plain `cryptography` path and the compiled kernels take turns
inside a round, and what is compared is the ratio inside a round.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from appliance.bench.cases import spread
from appliance.bench.machine import load_average, machine_facts
from crypto import sm2
from crypto.bulk import Bulk, PortableBulk
from crypto.kernels.load import load_bulk
from crypto.release import Release
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from crypto.trust import TrustFile
from engine.admission import WeightsPolicy, admit
from engine.config import ModelConfig, TokenizerConfig
from engine.memory.full import FullWeights
from engine.version import RUNTIME_VERSION
from engine.vqf import open_vqf, write_vqf
from engine.vqf.families import required_extents
from engine.vqf.manifest import ExtentPlan, TensorSpec
from engine.vqf.panels import packed_bytes
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.wrap import SealFor

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_KIND: Final = "Q4_0"
_TEXT: Final = b"{}"
_SEED: Final = 20260101
_ONE: Final = 0x3FF0000000000000
_NORM_EPS: Final = 0x3727C5AC
_NOW: Final = 1_800_000_000


@dataclass(slots=True)
class Rate:
    """One way of loading on one number of threads: bytes of weights per second in each round."""

    form: str
    threads: int
    portable: list[float] = field(default_factory=list)
    kernels: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Kernels relative to the plain path of the same round."""
        return [fast / slow for fast, slow in zip(self.kernels, self.portable, strict=True)]

    def as_json(self) -> dict[str, object]:
        """Return every number that was measured, and their medians."""
        return {
            "form": self.form,
            "threads": self.threads,
            "portable_bytes_per_s": spread(self.portable),
            "kernel_bytes_per_s": spread(self.kernels),
            "ratio": spread(self.ratios),
        }


@dataclass(slots=True)
class LoadResults:
    """Everything that was measured."""

    weights_bytes: int
    bulk: str
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_before: float = field(default_factory=load_average)
    rates: list[Rate] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return the evidence: every measured number beside what it was measured on."""
        return {
            "schema": "windhover-bench-load/1",
            "machine": self.machine,
            "load_average": {"before": self.load_before, "after": load_average()},
            "weights_bytes": self.weights_bytes,
            "kernels": self.bulk,
            "rates": [rate.as_json() for rate in self.rates],
        }


@dataclass(frozen=True, slots=True)
class _Subject:
    """A file to load, and what it takes to be allowed to."""

    form: str
    path: Path
    unlock: Unlock
    policy: WeightsPolicy


def measure_load(
    path: Path | None,
    size_bytes: int,
    threads: Sequence[int],
    rounds: int,
    progress: Callable[[int, int], None],
) -> LoadResults:
    """Measure how fast signed and sealed weights are loaded.

    Args:
        path: plain or signed weights to sign and seal; None makes random ones.
        size_bytes: about how large the random ones are.
        threads: numbers of threads to measure with.
        rounds: how often each is measured.
        progress: called with (measurements done, all of them).

    Raises:
        OSError, FormatError: `path` is no VQF file.
        KeyFileError: it is sealed.
    """
    kernels = load_bulk()
    with tempfile.TemporaryDirectory() as name:
        subjects = _subjects(path, size_bytes, Path(name), kernels)
        with open_vqf(subjects[0].path) as file:
            results = LoadResults(file.manifest.data_length_bytes, kernels.name)
        results.rates = [Rate(s.form, count) for s in subjects for count in threads]
        total, done = rounds * len(results.rates), 0
        for number in range(rounds):
            for rate in results.rates:
                subject = next(s for s in subjects if s.form == rate.form)
                turns: list[tuple[Bulk, list[float]]] = [
                    (PortableBulk(), rate.portable),
                    (kernels, rate.kernels),
                ]
                for bulk, rates in turns if number % 2 == 0 else reversed(turns):
                    rates.append(results.weights_bytes / _load_s(subject, bulk, rate.threads))
                done += 1
                progress(done, total)
    return results


def _load_s(subject: _Subject, bulk: Bulk, num_threads: int) -> float:
    """Load once and return how long it took."""
    started_s = time.perf_counter()
    with open_vqf(subject.path, subject.unlock, bulk=bulk) as file:
        admit(file, subject.policy, now=_NOW)
        FullWeights(file, num_threads=num_threads)
        for name in ("tokenizer", "template"):
            if file.has_extent(name):
                file.read_bytes(name)
    return time.perf_counter() - started_s


def _subjects(path: Path | None, size_bytes: int, folder: Path, bulk: Bulk) -> list[_Subject]:
    """Make the signed and the sealed file."""
    signed, sealed = folder / "signed.vqf", folder / "sealed.vqf"
    if path is None:
        _write_random(signed, size_bytes)
    else:
        shutil.copyfile(path, signed)
    signer, recipient = sm2.generate(), sm2.generate()
    with open_vqf(signed, bulk=bulk) as file:
        release = Release(file.model_digest, "bench", 1, 0, None, RUNTIME_VERSION)
        sign_vqf(file, [SoftwareSigner(signer)], release)
    with open_vqf(signed, bulk=bulk) as file:
        seal_vqf(file, sealed, SealFor((recipient.public_key,)))
    spki = base64.b64encode(signer.public_key.spki_der()).decode()
    trust = (
        f'version = 1\n[policy]\nrequire_sealed = SEALED\n[keys.bench]\nrole = "weights"\n'
        f'public_key = "{spki}"\n[lines.bench]\nsigners = ["bench"]\nthreshold = 1\n'
    )
    subjects = []
    for form, file_path in (("signed", signed), ("sealed", sealed)):
        text = trust.replace("SEALED", "true" if form == "sealed" else "false")
        policy = WeightsPolicy(TrustFile.parse(text.encode()))
        unlock = Unlock((SoftwareUnwrapper(recipient),)) if form == "sealed" else Unlock()
        subjects.append(_Subject(form, file_path, unlock, policy))
    return subjects


def _write_random(target: Path, size_bytes: int) -> None:
    """Write a plain file of about `size_bytes` with random weights."""
    config = _config(1)
    layer = required_extents(config)[1]
    layer_bytes = sum(packed_bytes(_KIND, *s) for _, s in layer.tensors if len(s) == 2)
    config = _config(max(1, round(size_bytes / layer_bytes)))
    rng = np.random.default_rng(_SEED)
    plan = [
        ExtentPlan(
            extent.name,
            tuple(
                TensorSpec(name, _KIND if len(shape) == 2 else "F32", shape)
                for name, shape in extent.tensors
            ),
        )
        for extent in required_extents(config)
    ]
    plan.append(ExtentPlan("tokenizer", (), len(_TEXT)))

    def source(name: str) -> Iterator[ReadableBuffer]:
        if name == "tokenizer":
            yield _TEXT
        for _, kind, shape in next(entry for entry in plan if entry.name == name).tensors:
            if len(shape) == 1:
                yield np.ones(shape, np.float32).data
            else:
                yield rng.integers(0, 256, packed_bytes(kind, *shape), np.uint8).data

    write_vqf(target, config, TokenizerConfig(bos_id=None, eos_ids=(), add_bos=False), plan, source)


def _config(num_layers: int) -> ModelConfig:
    """Return a shape with layers of some MiB; rows are whole panels, so that any bytes will do."""
    return ModelConfig(
        architecture="llama",
        num_layers=num_layers,
        hidden_size=1024,
        num_heads=16,
        num_kv_heads=16,
        head_dim=64,
        intermediate_size=4096,
        vocab_size=4096,
        context_length_tokens=4096,
        norm_eps_bits=_NORM_EPS,
        rope_inv_freq_bits=(_ONE,) * 32,
        tied_embeddings=True,
        attention_bias=False,
        qk_norm=False,
    )
