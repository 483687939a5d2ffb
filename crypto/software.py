"""What a `software` key says about a release of the software: which files it is made of.

The list of files itself is in appliance/software_list.py; what is compared is its digest. Bytes and
reason codes stand in crypto/README.md, section "Software".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from crypto.cbor import Encodable, encode
from crypto.cbor_map import CborMap
from crypto.cose import decode_sign1, sign1
from crypto.errors import FormatError, InvalidSignatureError, PolicyError
from crypto.release import LINE, MAX_INTEGER, MAX_VERSION
from crypto.revocations import Revocations
from crypto.signer import Signer
from crypto.sm3 import DIGEST_BYTES
from crypto.trust import TrustFile
from crypto.trust_values import TrustedKey

SOFTWARE_TYPE: Final = "windhover/software;v=1"
MAX_MANIFEST_BYTES: Final = 4096
MAX_PAYLOAD_BYTES: Final = 2048
MAX_FILES: Final = 100_000
MAX_NAMES: Final = 8
MAX_NAME_CHARACTERS: Final = 64
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")

_PRODUCT: Final = -70301
_VERSION: Final = -70302
_FILES: Final = -70303
_FILE_BYTES: Final = -70304
_LIST: Final = -70305
_KERNELS: Final = -70306
_PROFILES: Final = -70307
_SOFTWARE: Final = -70214
_ISSUED: Final = -70122
_KEYS: Final = frozenset(
    {_PRODUCT, _VERSION, _FILES, _FILE_BYTES, _LIST, _KERNELS, _PROFILES, _SOFTWARE, _ISSUED}
)


@dataclass(frozen=True, slots=True)
class SoftwareManifest:
    """One release of the software.

    Attributes:
        product: 1..64 characters of `a-z 0-9 . _ -`, the first a letter or digit.
        version: major, minor, patch.
        software_digest: 32 bytes, what statements of a process of these files have.
        num_files: files of the list, 1 .. 100,000.
        num_bytes: the sum of their lengths.
        list_digest: 32 bytes, of the file of the list.
        kernels: targets of the prepared kernels in it, at most 8, ascending.
        numerics: profiles of their arithmetic, 1 .. 8, ascending.
        issued: seconds since 1970-01-01 UTC.
    """

    product: str
    version: tuple[int, int, int]
    software_digest: bytes
    num_files: int
    num_bytes: int
    list_digest: bytes
    kernels: tuple[str, ...]
    numerics: tuple[str, ...]
    issued: int

    @property
    def name(self) -> str:
        """The release for people, such as `windhover 1.2.3`."""
        return f"{self.product} {'.'.join(map(str, self.version))}"

    def encode(self) -> bytes:
        """Return the payload that is signed.

        Raises:
            ValueError: a value that `decode_manifest` would refuse; the message names the rule.
            TypeError: a value of a type that CBOR does not have here.
        """
        entries: dict[int, Encodable] = {
            _PRODUCT: self.product,
            _VERSION: self.version,
            _SOFTWARE: self.software_digest,
            _FILES: self.num_files,
            _FILE_BYTES: self.num_bytes,
            _LIST: self.list_digest,
            _KERNELS: self.kernels,
            _PROFILES: self.numerics,
            _ISSUED: self.issued,
        }
        data = encode(entries)
        try:
            decode_manifest(data)
        except FormatError as error:
            raise ValueError(f"no such manifest can be written: {error.rule}") from None
        return data

    def check(self, software_digest: bytes) -> None:
        """Compare with what a process is made of.

        Raises:
            PolicyError: `software-differs`.
        """
        if not compare_digest(self.software_digest, software_digest):
            raise PolicyError(
                "software-differs",
                f"the files of this program are not those of {self.name}: their digest is "
                f"{software_digest.hex()}, not {self.software_digest.hex()}",
            )


class _ManifestMap(CborMap):
    """The payload's map, which also has arrays of names."""

    __slots__ = ()

    def names(self, key: int, least: int) -> tuple[str, ...]:
        """Return least..8 names that ascend."""
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if not least <= len(value) <= MAX_NAMES:
            raise self.refusal(key, "value-range")
        found: list[str] = []
        for name in value:
            if not isinstance(name, str):
                raise self.refusal(key, "value-type")
            if not 1 <= len(name) <= MAX_NAME_CHARACTERS:
                raise self.refusal(key, "value-range")
            if NAME.fullmatch(name) is None:
                raise self.refusal(key, "text-characters")
            if found and name <= found[-1]:
                raise self.refusal(key, "name-order")
            found.append(name)
        return tuple(found)


def decode_manifest(unverified_data: bytes | bytearray | memoryview) -> SoftwareManifest:
    """Return the manifest that a payload states.

    Raises:
        FormatError: a rule of the CBOR subset or of objects, or `name-order`.
    """
    entries = _ManifestMap(unverified_data, _KEYS, max_bytes=MAX_PAYLOAD_BYTES)
    product = entries.text(_PRODUCT, LINE, MAX_NAME_CHARACTERS)
    major, minor, patch = entries.integers(_VERSION, counts=(3, 3), least=0, most=MAX_VERSION)
    return SoftwareManifest(
        product=product,
        version=(major, minor, patch),
        software_digest=entries.octets(_SOFTWARE, DIGEST_BYTES, DIGEST_BYTES),
        num_files=entries.integer(_FILES, 1, MAX_FILES),
        num_bytes=entries.integer(_FILE_BYTES, 0, MAX_INTEGER),
        list_digest=entries.octets(_LIST, DIGEST_BYTES, DIGEST_BYTES),
        kernels=entries.names(_KERNELS, 0),
        numerics=entries.names(_PROFILES, 1),
        issued=entries.integer(_ISSUED, 0, MAX_INTEGER),
    )


def sign_manifest(manifest: SoftwareManifest, signer: Signer) -> bytes:
    """Return the signed object; the signer has the role `software`.

    Raises:
        ValueError, TypeError: as of `SoftwareManifest.encode`.
        CryptoError: as `sign1`.
    """
    return sign1(manifest.encode(), typ=SOFTWARE_TYPE, signer=signer)


def open_manifest(
    unverified_data: bytes, trust: TrustFile, *, revocations: Revocations | None, now: int
) -> tuple[SoftwareManifest, TrustedKey]:
    """Return the manifest that these bytes hold, and the trusted key that signed it.

    Args:
        unverified_data: a file from anywhere.
        trust: who may sign software.
        revocations: the list in force.
        now: seconds since 1970-01-01 UTC.

    Raises:
        FormatError: not a manifest (rule `type`: another object).
        PolicyError: the first that holds of `software-unknown-signer`, `software-bad-signature`,
            `software-key-revoked`, `software-key-expired`, `software-key-not-yet-valid`.
    """
    signed = decode_sign1(unverified_data, max_bytes=MAX_MANIFEST_BYTES)
    if signed.typ != SOFTWARE_TYPE:
        raise FormatError(0, "type")
    manifest = decode_manifest(signed.payload)
    key = trust.key(signed.key_id, "software")
    if key is None:
        raise PolicyError(
            "software-unknown-signer",
            "the software manifest is not signed by a key that the trust file has for software",
        )
    try:
        signed.verify(key.public_key, typ=SOFTWARE_TYPE)
    except InvalidSignatureError:
        raise PolicyError(
            "software-bad-signature", "the signature of the software manifest did not verify"
        ) from None
    if revocations is not None and key.key_id in revocations.key_ids:
        raise PolicyError(
            "software-key-revoked", f"key {key.name} that signed the software is revoked"
        )
    if key.is_too_late(now):
        raise PolicyError(
            "software-key-expired", f"key {key.name} that signed the software has expired"
        )
    if key.is_too_early(now):
        raise PolicyError(
            "software-key-not-yet-valid",
            f"key {key.name} that signed the software is not valid yet",
        )
    return manifest, key
