from __future__ import annotations

import pytest

from crypto.errors import FormatError, InvalidTagError, SelfTestError, UnavailableError
from crypto.signer import (
    Signer,
    SoftwareSigner,
    SoftwareUnwrapper,
    Unwrapper,
    checked_sign,
)
from crypto.sm2 import encrypt, sign, verify
from tests.crypto.sm2_case import key_of

KEY, OTHER = key_of(77), key_of(78)


class Device:
    """A signing device with a fault, or none."""

    def __init__(self, answer):
        self.public_key, self.key_id = KEY.public_key, KEY.key_id
        self._answer = answer

    def sign(self, message: bytes) -> bytes:
        return self._answer(message)


def test_a_key_in_memory_signs_and_unwraps():
    signer: Signer = SoftwareSigner(KEY)
    unwrapper: Unwrapper = SoftwareUnwrapper(KEY)
    assert signer.key_id == unwrapper.key_id == KEY.public_key.key_id
    verify(signer.public_key, b"m", signer.sign(b"m"))
    verify(KEY.public_key, b"m", checked_sign(signer, b"m"))
    assert unwrapper.unwrap(encrypt(KEY.public_key, b"data key")) == b"data key"
    with pytest.raises(InvalidTagError):
        unwrapper.unwrap(encrypt(OTHER.public_key, b"data key"))
    with pytest.raises(FormatError):
        unwrapper.unwrap(b"\x04")


def test_a_device_that_signs_well():
    verify(KEY.public_key, b"m", checked_sign(Device(lambda m: sign(KEY, m)), b"m"))


FAULTS = {
    "another key": lambda m: sign(OTHER, m),
    "another message": lambda m: sign(KEY, m + b"!"),
    "another identity": lambda m: sign(KEY, m, identifier=b""),
    "zeros": lambda m: bytes(64),
    "nothing": lambda m: b"",
    "too long": lambda m: sign(KEY, m) + b"\x00",
}


@pytest.mark.parametrize("answer", FAULTS.values(), ids=FAULTS)
def test_what_a_device_signs_wrongly_never_leaves(answer):
    with pytest.raises(SelfTestError, match="device"):
        checked_sign(Device(answer), b"m")


def test_a_subclass_is_checked_as_well():
    class Changed(SoftwareSigner):
        def sign(self, message):
            return bytes(64)

    with pytest.raises(SelfTestError):
        checked_sign(Changed(KEY), b"m")


def test_a_device_that_is_away():
    def away(message):
        raise UnavailableError("unplugged")

    with pytest.raises(UnavailableError, match="unplugged"):
        checked_sign(Device(away), b"m")
