"""What leaves with an answer: the statement, its proofs, and what opens its commitments.

Whoever holds a bundle may hand it on in part: without a text and its salt, its commitment tells
nothing of it, however few texts it could be.

Source: verifier/SPEC.md section 5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from crypto.cbor import Encodable, encode
from crypto.cbor_map import CborMap
from crypto.commitment import NAMES, SALT_BYTES
from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.sm3 import DIGEST_BYTES

VERSION: Final = 1
MAX_BUNDLE_BYTES: Final = 32 << 20
MAX_REQUEST_BYTES: Final = 16 << 20
MAX_OBJECTS: Final = 16

_OBJECTS: Final = ("checkpoint", "admission", "revocations")
_PROOFS: Final = {"inclusion": 64, "admission_inclusion": 64, "consistency": 128}
"""How many hashes each of them may have."""

_LISTS: Final = ("cosignatures", "releases")
_FIELD_OF: Final = {name: name for name in NAMES} | {"trace": "trace_root"}
"""Under which key of a bundle stands what a commitment is about."""

_OPTIONAL: Final = frozenset({*_OBJECTS, *_PROOFS, *_LISTS, "salts", *_FIELD_OF.values()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Everything about one answer; what is None was not handed on.

    Attributes:
        statement: a signed object.
        checkpoint: a signed object over the statement.
        inclusion: path of the statement in the checkpoint's tree.
        admission: a signed object.
        admission_inclusion: path of the admission in the same tree.
        consistency: proof from the statement's earlier head to the checkpoint.
        cosignatures: signed objects of witnesses, over the checkpoint.
        releases: signed objects, what the model's signers said.
        revocations: a signed object, the list in force.
        salts: 32 bytes by the names of the commitments.
        texts: what was committed to, by the names of the commitments.
    """

    statement: bytes
    checkpoint: bytes | None = None
    inclusion: tuple[bytes, ...] | None = None
    admission: bytes | None = None
    admission_inclusion: tuple[bytes, ...] | None = None
    consistency: tuple[bytes, ...] | None = None
    cosignatures: tuple[bytes, ...] | None = None
    releases: tuple[bytes, ...] | None = None
    revocations: bytes | None = None
    salts: Mapping[str, bytes] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the bytes of the bundle.

        Raises:
            ValueError: something that `decode_bundle` would refuse; the message names the rule.
        """
        entries: dict[str, Encodable] = {"version": VERSION, "statement": self.statement}
        for name in (*_OBJECTS, *_PROOFS, *_LISTS):
            value = getattr(self, name)
            if value is not None:
                entries[name] = value
        if self.salts:
            entries["salts"] = self.salts
        entries |= {_FIELD_OF[name]: text for name, text in self.texts.items()}
        data = encode(entries)
        try:
            decode_bundle(data)
        except FormatError as error:
            raise ValueError(f"no such bundle can be written: {error.rule}") from None
        return data

    def strip(self, keep: Collection[str] = ()) -> Bundle:
        """Return the bundle with the salts and texts of these commitments alone.

        Raises:
            ValueError: a name that no commitment has.
        """
        if not set(keep) <= set(NAMES):
            raise ValueError("no commitment has this name")
        return replace(
            self,
            salts={name: salt for name, salt in self.salts.items() if name in keep},
            texts={name: text for name, text in self.texts.items() if name in keep},
        )


class _BundleMap(CborMap):
    """A bundle whose values are still to be asked for."""

    __slots__ = ()

    def __init__(self, unverified_data: bytes) -> None:
        required = {"version", "statement"}
        super().__init__(unverified_data, required, _OPTIONAL, max_bytes=MAX_BUNDLE_BYTES)

    def byte_strings(self, key: str, count: int, least: int, most: int) -> tuple[bytes, ...] | None:
        """Return an array of at most `count` byte strings, if it is there."""
        if key not in self:
            return None
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if len(value) > count:
            raise self.refusal(key, "value-range")
        strings = []
        for element in value:
            if not isinstance(element, bytes):
                raise self.refusal(key, "value-type")
            if not least <= len(element) <= most:
                raise self.refusal(key, "value-range")
            strings.append(element)
        return tuple(strings)

    def signed(self, key: str) -> bytes | None:
        """Return a signed object, if it is there."""
        return self.octets(key, 1, MAX_OBJECT_BYTES) if key in self else None

    def text_of(self, name: str, key: str) -> bytes:
        """Return what a commitment is about."""
        text = self.octets(key, 0, MAX_REQUEST_BYTES if name == "request" else MAX_BUNDLE_BYTES)
        if name == "trace" and len(text) not in (0, DIGEST_BYTES):
            raise self.refusal(key, "value-range")
        return text

    def salts(self) -> dict[str, bytes]:
        """Return the salts that are there."""
        value = self._entries.get("salts", {})
        if not isinstance(value, dict):
            raise self.refusal("salts", "value-type")
        salts = {}
        for name, salt in value.items():
            if not isinstance(name, str) or not isinstance(salt, bytes):
                raise self.refusal("salts", "value-type")
            if name not in NAMES:
                raise self.refusal("salts", "unknown-key")
            if len(salt) != SALT_BYTES:
                raise self.refusal("salts", "value-range")
            salts[name] = salt
        return salts


def decode_bundle(unverified_data: bytes) -> Bundle:
    """Return the parts of a bundle; nothing in them is verified.

    Raises:
        FormatError: a rule of the CBOR subset or of objects (crypto/README.md).
    """
    entries = _BundleMap(unverified_data)
    entries.integer("version", VERSION, VERSION)
    objects = {name: entries.signed(name) for name in _OBJECTS}
    proofs = {
        name: entries.byte_strings(name, count, DIGEST_BYTES, DIGEST_BYTES)
        for name, count in _PROOFS.items()
    }
    lists = {name: entries.byte_strings(name, MAX_OBJECTS, 1, MAX_OBJECT_BYTES) for name in _LISTS}
    return Bundle(
        statement=entries.octets("statement", 1, MAX_OBJECT_BYTES),
        checkpoint=objects["checkpoint"],
        inclusion=proofs["inclusion"],
        admission=objects["admission"],
        admission_inclusion=proofs["admission_inclusion"],
        consistency=proofs["consistency"],
        cosignatures=lists["cosignatures"],
        releases=lists["releases"],
        revocations=objects["revocations"],
        salts=entries.salts(),
        texts={
            name: entries.text_of(name, key) for name, key in _FIELD_OF.items() if key in entries
        },
    )
