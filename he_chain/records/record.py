"""What a run writes down about itself: one begin record, then one record for each hop.

Everything is the CBOR subset of this project in one encoding, and every record carries the digest
of the one before it. Precision is not in here: who computes on ciphertexts cannot know it
(measure.py). The folder is in run_folder.py.

Source: he_chain/README.md section "Records".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from crypto.labels import HE_CIPHERTEXT, HE_RECORD
from crypto.sm3 import DIGEST_BYTES, Sm3, sm3
from he_chain.parameters import Parameters
from he_chain.records.codec import MAX_INTEGER, checked, decoded, is_positive_hex, is_text, require

PROTOCOLS: Final = ("assist", "refresh", "boot")
KINDS: Final = ("lay", "refresh", "boot", "fin")
COUNTS: Final = (
    "rotations",
    "ct_pt",
    "ct_ct",
    "rescales",
    "encodes",
    "encrypts",
    "decrypts",
    "bootstraps",
)
"""Operations that are counted; an absent one is 0."""
MAX_BLOB_BYTES: Final = 1 << 28
RUN_ID_BYTES: Final = 16
MAX_LEVELS: Final = 2000  # entries of a record's trace

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")


@dataclass(frozen=True, slots=True)
class Blob:
    """A ciphertext in a file of the run: RUN/cts/NAME.ct."""

    name: str
    """1 .. 80 of a-z, 0-9, `.`, `_`, `-`."""
    digest: bytes
    """32 bytes, `blob_digest` of the file."""
    size_bytes: int
    level: int
    scale: str
    """float.hex of its scale."""
    values: int = 0
    """How many leading slots hold what can be compared: of a residual (a name that ends in `.x`) or
    of logits (`.logits0`, `.logits1`, ... in the order of the vocabulary); 0 of all others."""

    def __post_init__(self) -> None:
        """Refuse what no file of a run can be; ValueError."""
        require(_NAME.fullmatch(self.name) is not None, "name of a ciphertext")
        require(len(self.digest) == DIGEST_BYTES, "digest of a ciphertext")
        require(1 <= self.size_bytes <= MAX_BLOB_BYTES, "size of a ciphertext")
        require(0 <= self.level <= 64, "level of a ciphertext")
        require(is_positive_hex(self.scale), "scale of a ciphertext")
        require(0 <= self.values <= 1 << 17, "number of values of a ciphertext")


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor that one side got to see in a hop."""

    name: str
    values: int
    """How many numbers it has."""
    bits: int
    """What each of them tells at most: 0 of a ciphertext or under perfect blinding, 53 in clear."""

    def __post_init__(self) -> None:
        """Refuse what is no entry of a ledger; ValueError."""
        require(is_text(self.name, 80), "name of a tensor")
        require(0 <= self.values <= MAX_INTEGER and 0 <= self.bits <= 64, "size of a tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """What a whole run stands on; its digest is `previous` of the first record."""

    run_id: bytes
    """16 random bytes: records of two runs never fit together."""
    protocol: str
    model_digest: bytes
    plan_digest: bytes
    calibration_digest: bytes
    backend: str
    parameters: Parameters
    num_layers: int
    """How many layers run, from `first_layer` on."""
    width: int
    """Values of a residual."""
    gate_bits: int
    """Bits that a measured precision must reach."""
    libraries: Mapping[str, str]
    """Names and versions."""
    security: str
    """The line of security.py."""
    claims: tuple[str, ...]
    """What the protocol claims, and what it does not."""
    first_layer: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the protocol that a plan follows from, such as `blind_bits`."""

    def __post_init__(self) -> None:
        """Refuse what begins no run; ValueError."""
        digests = (self.model_digest, self.plan_digest, self.calibration_digest)
        require(len(self.run_id) == RUN_ID_BYTES, "run id")
        require(self.protocol in PROTOCOLS, "protocol")
        require(all(len(digest) == DIGEST_BYTES for digest in digests), "digest")
        require(0 <= self.first_layer < 1000, "first layer")
        require(1 <= self.num_layers <= 1000 and 1 <= self.width <= 1 << 20, "shape of the model")
        require(1 <= self.gate_bits <= 53, "gate")
        require(all(1 <= value <= 1 << 17 for value in asdict(self.parameters).values()), "ring")
        for value in self.settings.values():
            require(type(value) is int and 0 <= value <= MAX_INTEGER, "setting of the protocol")
        texts = (*self.settings, self.backend, self.security, *self.claims, *self.libraries)
        require(all(is_text(t) for t in texts), "text")
        require(all(is_text(t) for t in self.libraries.values()), "version")

    def encode(self) -> bytes:
        """Return its one encoding; ValueError where it is longer than a record may be."""
        return checked(
            {
                **{name: getattr(self, name) for name in self.__slots__},
                "libraries": dict(self.libraries),
                "settings": dict(self.settings),
                "parameters": asdict(self.parameters),
            }
        )

    def digest(self) -> bytes:
        """Return the 32 bytes by which the first record names it."""
        return record_digest(self.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One hop, finished."""

    kind: str
    number: int
    """0, 1, ...: its place in the run."""
    position: int
    """Of the token, from 0."""
    layer: int | None
    """None for `fin`."""
    inputs: tuple[Blob, ...]
    outputs: tuple[Blob, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    exchanges: int = 0
    """Messages to the holder that were answered."""
    bytes_up: int = 0
    """From evaluator to holder."""
    bytes_down: int = 0
    """From holder to evaluator."""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_rss_bytes: int = 0
    op_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by operation, names as in `COUNTS` or `other`, where they were watched."""
    levels: tuple[tuple[int, int], ...] = ()
    """(level, how many operations in a row gave a ciphertext of it), where they were watched."""
    seen_by_holder: tuple[Seen, ...] = ()
    seen_by_evaluator: tuple[Seen, ...] = ()
    previous: bytes
    """32 bytes: digest of the record before, or of the begin record."""

    def __post_init__(self) -> None:
        """Refuse what is no hop; ValueError."""
        numbers = (self.position, self.exchanges, self.bytes_up, self.bytes_down)
        require(self.kind in KINDS, "kind of a hop")
        require((self.layer is None) == (self.kind == "fin"), "layer of a hop")
        require(self.layer is None or 0 <= self.layer < 1000, "layer of a hop")
        require(0 <= self.number < 100_000, "number of a hop")
        for value in (*numbers, self.peak_rss_bytes, *self.counts.values()):
            require(type(value) is int and 0 <= value <= MAX_INTEGER, "count of a hop")
        require(set(self.counts) <= set(COUNTS), "operation of a hop")
        require(set(self.op_seconds) <= {*COUNTS, "other"}, "operation of a hop")
        for seconds in (self.cpu_s, self.wall_s, *self.op_seconds.values()):
            require(math.isfinite(seconds) and seconds >= 0, "seconds of a hop")
        require(len(self.levels) <= MAX_LEVELS, "number of levels")
        for level, operations in self.levels:
            require(0 <= level <= 64 and 1 <= operations <= MAX_INTEGER, "level of an operation")
        require(len(self.previous) == DIGEST_BYTES, "digest of the record before")

    def encode(self) -> bytes:
        """Return its one encoding; ValueError where it is longer than a record may be."""
        value: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        value["layer"] = -1 if self.layer is None else self.layer
        value["counts"] = dict(self.counts)
        value["cpu_s"], value["wall_s"] = float(self.cpu_s).hex(), float(self.wall_s).hex()
        value["op_seconds"] = {k: float(v).hex() for k, v in self.op_seconds.items()}
        for name in ("inputs", "outputs", "seen_by_holder", "seen_by_evaluator"):
            value[name] = [[getattr(one, f) for f in one.__slots__] for one in value[name]]
        return checked(value)

    def digest(self) -> bytes:
        """Return the 32 bytes by which the next record names it."""
        return record_digest(self.encode())


def record_digest(encoded: bytes) -> bytes:
    """Return the digest of an encoded begin record or record."""
    return sm3(HE_RECORD + encoded)


def blob_digest(data: bytes) -> bytes:
    """Return the digest of the bytes of a ciphertext."""
    state = Sm3(HE_CIPHERTEXT)
    state.update(data)
    return state.digest()


def decode_begin(unverified_data: bytes) -> Begin:
    """Return what a begin record says; CheckpointError where it is none."""

    def build(value: dict[Any, Any]) -> Begin:
        value["parameters"] = Parameters(**value["parameters"])
        value["claims"] = tuple(value["claims"])
        return Begin(**value)

    return decoded(unverified_data, build, "a begin record")


def decode_record(unverified_data: bytes) -> Record:
    """Return what a record says; CheckpointError where it is none."""

    def build(value: dict[Any, Any]) -> Record:
        value["layer"] = None if value["layer"] == -1 else value["layer"]
        for name in ("cpu_s", "wall_s"):
            value[name] = float.fromhex(value[name])
        value["op_seconds"] = {k: float.fromhex(v) for k, v in value["op_seconds"].items()}
        value["levels"] = tuple((level, count) for level, count in value["levels"])
        for name in ("inputs", "outputs"):
            value[name] = tuple(Blob(*one) for one in value[name])
        for name in ("seen_by_holder", "seen_by_evaluator"):
            value[name] = tuple(Seen(*one) for one in value[name])
        return Record(**value)

    return decoded(unverified_data, build, "a record")
