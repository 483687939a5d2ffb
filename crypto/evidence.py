"""What the objects of an attestation log share: claim numbers, limits, and the reader of a payload.

The objects themselves are in `crypto.statement`, `crypto.admission`, `crypto.checkpoint` and
`crypto.event`.

Source: verifier/SPEC.md section 2; the rules stand in crypto/README.md, section "Evidence".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Set
from typing import Final

from crypto.cbor import MAX_BYTES, Decoded, Encodable, encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError
from crypto.release import LINE as LINE_NAME
from crypto.release import MAX_INTEGER, MAX_LINE_CHARACTERS
from crypto.sm3 import DIGEST_BYTES

MAX_SEED: Final = (1 << 64) - 1
MAX_OBJECT_BYTES: Final = MAX_BYTES
MAX_NAME_CHARACTERS: Final = 64
MAX_REASON_CHARACTERS: Final = 200
MAX_PARAMETERS: Final = 32
NONCE_BYTES: Final = (16, 64)
ID_BYTES: Final = 16
"""Length of the id of a principal or a request."""

PROFILE_GENERATE: Final = "windhover/generate;v=1"
SEED_SOURCES: Final = ("request", "nonce", "server")

MODEL_DIGEST: Final = -70101
LINE: Final = -70102
RELEASE: Final = -70103
ISSUER: Final = -70201
LOG_ID: Final = -70202
SEQUENCE: Final = -70203
ADMISSION: Final = -70204
STARTED: Final = -70205
ENDED: Final = -70206
NONCE: Final = -70207
PROFILE: Final = -70208
OUTCOME: Final = -70209
RELEASE_PAYLOAD: Final = -70211
LOAD_VERDICT: Final = -70212
MODE: Final = -70213
SOFTWARE: Final = -70214
NUMERICS: Final = -70215
KERNEL_PATH: Final = -70216
RESIDENCY: Final = -70217
WRITE_XOR_EXECUTE: Final = -70218
PRINCIPAL: Final = -70219
TOKENIZER: Final = -70220
TEMPLATE: Final = -70221
PARAMETERS: Final = -70222
SEED: Final = -70223
SEED_SOURCE: Final = -70224
COMMITMENTS: Final = -70225
TOKENS: Final = -70226
FINISH_REASON: Final = -70227
TRACE_SHAPE: Final = -70228
TRUST: Final = -70229
REVOCATIONS: Final = -70230
EARLIER_HEAD: Final = -70231
COVERAGE: Final = -70232
REQUEST_ID: Final = -70233
REQUEST_COMMITMENT: Final = -70234
TREE_SIZE: Final = -70241
TREE_ROOT: Final = -70242
TIME: Final = -70243
PREVIOUS: Final = -70244
EVENT: Final = -70251
REASON: Final = -70252
REPLACES: Final = -70253
NEXT_KEY: Final = -70254

_PRINTABLE: Final = re.compile(r"[ -~]*")
_PARAMETER: Final = re.compile(r"[a-z0-9_]{1,40}")


class Claims(CborMap):
    """The payload of an object of the log; its values are still to be asked for."""

    __slots__ = ()

    def __init__(
        self,
        unverified_data: bytes | bytearray | memoryview,
        required: Set[int | str],
        optional: Set[int | str] = frozenset(),
    ) -> None:
        """Decode a map with all `required` keys and no others than these and the `optional`.

        Raises:
            FormatError: a rule of the CBOR subset, `object-map`, `missing-key` or `unknown-key`.
        """
        super().__init__(unverified_data, required, optional, max_bytes=MAX_OBJECT_BYTES)

    def number(self, key: int) -> int:
        """Return the integer 0 .. 2^53 - 1 of `key`; FormatError as `integer`."""
        return self.integer(key, 0, MAX_INTEGER)

    def positive(self, key: int) -> int:
        """Return the integer 1 .. 2^53 - 1 of `key`; FormatError as `integer`."""
        return self.integer(key, 1, MAX_INTEGER)

    def digest(self, key: int) -> bytes:
        """Return the 32 bytes of `key`; FormatError as `octets`."""
        return self.octets(key, DIGEST_BYTES, DIGEST_BYTES)

    def nonce(self) -> bytes | None:
        """Return the client's nonce of 16 .. 64 bytes, if there is one; FormatError as `octets`."""
        return self.octets(NONCE, *NONCE_BYTES) if NONCE in self else None

    def name(self, key: int) -> str:
        """Return the text of `key`, 1 .. 64 printable ASCII characters; FormatError as `text`."""
        return self.text(key, _PRINTABLE, MAX_NAME_CHARACTERS)

    def line(self) -> str:
        """Return the name of the release's line; FormatError as `text`."""
        return self.text(LINE, LINE_NAME, MAX_LINE_CHARACTERS)

    def reason(self, key: int) -> str:
        """Return the text of `key`, 0 .. 200 printable ASCII characters; FormatError as `text`."""
        if self._entries[key] == "":
            return ""
        return self.text(key, _PRINTABLE, MAX_REASON_CHARACTERS)

    def choice(self, key: int, names: Collection[str]) -> str:
        """Return the text of `key`, one of `names`; FormatError `value-type`, `claim-choice`."""
        value = self._entries[key]
        if not isinstance(value, str):
            raise self.refusal(key, "value-type")
        if value not in names:
            raise self.refusal(key, "claim-choice")
        return value

    def elements(self, key: int, count: int) -> list[Decoded]:
        """Return the `count` elements of the array of `key`; FormatError as `integers`."""
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if len(value) != count:
            raise self.refusal(key, "value-range")
        return value

    def element_number(self, key: int, element: Decoded) -> int:
        """Return an element of the array of `key` as 0 .. 2^53 - 1; FormatError as `integer`."""
        if type(element) is not int:
            raise self.refusal(key, "value-type")
        if not 0 <= element <= MAX_INTEGER:
            raise self.refusal(key, "value-range")
        return element

    def element_digest(self, key: int, element: Decoded) -> bytes:
        """Return an element of the array or map of `key` as 32 bytes; FormatError as `octets`."""
        if not isinstance(element, bytes):
            raise self.refusal(key, "value-type")
        if len(element) != DIGEST_BYTES:
            raise self.refusal(key, "value-range")
        return element

    def digests(self, key: int, names: Collection[str]) -> dict[str, bytes]:
        """Return the map of `key`: a digest under each of `names`, and nothing else.

        Raises:
            FormatError: `value-type`, `missing-key`, `unknown-key` or `value-range`, at the map.
        """
        value = self._entries[key]
        if not isinstance(value, dict):
            raise self.refusal(key, "value-type")
        if not value.keys() >= set(names):
            raise self.refusal(key, "missing-key")
        if len(value) != len(names):
            raise self.refusal(key, "unknown-key")
        return {name: self.element_digest(key, value[name]) for name in names}

    def parameters(self) -> dict[str, int]:
        """Return the parameters of decoding: 0 .. 32 integers by names of 1 .. 40 characters.

        Raises:
            FormatError: `value-type`, `value-range` or `text-characters`, at the map.
        """
        value = self._entries[PARAMETERS]
        if not isinstance(value, dict):
            raise self.refusal(PARAMETERS, "value-type")
        if len(value) > MAX_PARAMETERS:
            raise self.refusal(PARAMETERS, "value-range")
        parameters: dict[str, int] = {}
        for name, number in value.items():
            if not isinstance(name, str) or type(number) is not int:
                raise self.refusal(PARAMETERS, "value-type")
            if _PARAMETER.fullmatch(name) is None:
                raise self.refusal(PARAMETERS, "text-characters")
            if not -MAX_INTEGER <= number <= MAX_INTEGER:
                raise self.refusal(PARAMETERS, "value-range")
            parameters[name] = number
        return parameters


def encode_checked(
    entries: Mapping[int, Encodable | None], decode: Callable[[bytes], object]
) -> bytes:
    """Return the encoding of the entries that are not None, if `decode` takes it.

    Raises:
        ValueError: a value that `decode` would refuse; the message names the rule.
        TypeError: a value of a type that CBOR does not have here.
    """
    data = encode({key: value for key, value in entries.items() if value is not None})
    try:
        decode(data)
    except FormatError as error:
        raise ValueError(f"no such object can be written: {error.rule}") from None
    return data
