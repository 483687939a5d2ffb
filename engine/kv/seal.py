"""How slices of cache blocks are sealed while they are out of memory (rules D3 to D6)."""

from __future__ import annotations

import hmac
import secrets
import struct
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from crypto.bulk import Bulk
from crypto.kdf import TAG_BYTES, hkdf_sm3
from crypto.labels import KV_SPILL_KEYS, KV_SPILL_TAG
from crypto.private_file import wipe
from crypto.selftest import ensure_self_tested
from crypto.sm4 import KEY_BYTES
from engine.errors import SpillError, SpillIntegrityError

_PLACE: Final = struct.Struct("<IIQ")
_MAX_NUMBER: Final = (1 << 64) - 1
_COUNTER_SHIFT: Final = 64


class Written(NamedTuple):
    """One writing of one slice.

    number: of the write, never used twice (D4); slices in memory have none, so 0 is free.
    """

    layer: int
    slot: int
    number: int


class SliceSeal:
    """Keys of one file, which nobody else has, and how often they were used."""

    def __init__(self, bulk: Bulk) -> None:
        """Draw keys.

        Raises:
            SelfTestError: a primitive of this process gives wrong results.
        """
        ensure_self_tested()
        self._bulk = bulk
        self._lock = threading.Lock()
        self._last_number = 0
        root = bytearray(secrets.token_bytes(TAG_BYTES))
        derived = bytearray(hkdf_sm3(root, b"", KV_SPILL_KEYS, KEY_BYTES + TAG_BYTES))
        self._cipher_key, self._tag_key = derived[:KEY_BYTES], derived[KEY_BYTES:]
        wipe(root)
        wipe(derived)

    def take_numbers(self, count: int) -> int:
        """Use up `count` numbers of writes and return the first.

        Raises:
            SpillError: there are no more.
        """
        with self._lock:
            if count > _MAX_NUMBER - self._last_number:
                raise SpillError("the file of cache blocks was written to too often")
            first = self._last_number + 1
            self._last_number += count
            return first

    def close(self, slices: Sequence[Written], buffers: Sequence[memoryview]) -> list[bytes]:
        """Encrypt buffers of one length where they lie and return the tag of each."""
        self._bulk.sm4_ctr_many(_octets(self._cipher_key), _initial_blocks(slices), buffers)
        return self._tags(slices, buffers)

    def open(
        self, slices: Sequence[Written], tags: Sequence[bytes], buffers: Sequence[memoryview]
    ) -> None:
        """Compare the tags of buffers of one length, and decrypt them where they lie.

        Raises:
            SpillIntegrityError: a buffer does not have its tag. None was decrypted.
        """
        computed = self._tags(slices, buffers)
        for place, tag, expected in zip(slices, computed, tags, strict=True):
            if not hmac.compare_digest(tag, expected):
                where = f"layer {place.layer} of the cache block in slot {place.slot}"
                raise SpillIntegrityError(f"{where} does not have its tag")
        self._bulk.sm4_ctr_many(_octets(self._cipher_key), _initial_blocks(slices), buffers)

    def wipe(self) -> None:
        """Overwrite the keys; nothing that was written can be read any more."""
        wipe(self._cipher_key)
        wipe(self._tag_key)

    def _tags(self, slices: Sequence[Written], buffers: Sequence[memoryview]) -> list[bytes]:
        prefixes = [KV_SPILL_TAG + _PLACE.pack(*place) for place in slices]
        return self._bulk.hmac_sm3_many(_octets(self._tag_key), prefixes, buffers)


def _initial_blocks(slices: Sequence[Written]) -> list[int]:
    return [place.number << _COUNTER_SHIFT for place in slices]


def _octets(key: bytearray) -> bytes:
    """Pass a key on as it lies: a copy in `bytes` could not be overwritten."""
    return cast("bytes", key)
