"""What is computed once, before a process trusts or opens anything: the examples of the standards.

A library can be broken, replaced, or built for another machine. Each primitive is therefore tried
through the provider that this process uses, on inputs whose results are known, and on altered ones
that must be refused. A wrong result stops everything.

Source: GB/T 32905-2016 (SM3), GB/T 32907-2016 (SM4), GB/T 32918.5-2017 annexes A and C (SM2),
GM/T 0042-2015 (HMAC), and the vectors of tests/data/crypto.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from crypto import cbor, kdf, merkle, sm2_provider, sm2_verify, sm3, sm4
from crypto.errors import (
    CryptoError,
    FormatError,
    InvalidProofError,
    InvalidSignatureError,
    InvalidTagError,
    SelfTestError,
    UnavailableError,
)
from crypto.sm2_keys import PublicKey

_SM3_INPUT: Final = b"abcd" * 16
_SM3_DIGEST: Final = "debe9ff92275b8a138604889c18e5a4d6fdb70e5387e5765293dcba39c0c5732"
_HMAC_MESSAGE: Final = 2 * b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
_HMAC_TAG: Final = "ca05e144ed05d1857840d1f318a4a8669e559fc8391f414485bfdf7bb408963a"
_HKDF_OUTPUT: Final = (
    "c69fe91b7aaee2dd5718d72dcaee0cce93f1b8e41f792da51261b6a517e68b36ed2c595572b01dfa359b"
)
_PBKDF2_OUTPUT: Final = "4c60affdc0040fc208ebf2cca209919a1fa1eb99fe25118244fc25d3d805f134"
_SM4_KEY: Final = bytes.fromhex("0123456789abcdeffedcba9876543210")
_SM4_BLOCK: Final = "681edf34d206965e86b3e94f536e4246"
_SM4_WRAP_KEY: Final = bytes(range(16))
_SM4_WRAP_TEXT: Final = (
    "564a2172de84073af42da4007cef7e6c5ae4c8607126c82a30f2ee65e663f1b57ef552"
    "de1c96dccfd14f31db7b18082e6a46644aa6fbe9584f353447f81d6151e29e4b062eef"
)
_CBOR_VALUE: Final[dict[int | str, cbor.Encodable]] = {
    "b": [1, -1, 2**64 - 1, b"\x01", "\u6a21", True],
    -70001: {1: False},
}
_CBOR_BYTES: Final = bytes.fromhex("a23a00011170a101f461628601201bffffffffffffffff410163e6a8a1f5")
_MERKLE_ROOT: Final = bytes.fromhex(
    "be87c83f79f8ca8800720865201356365bfe3c9eb63df6e2b890da70980f6599"
)
_SM2_PUBLIC: Final = bytes.fromhex(
    "0409f9df311e5421a150dd7d161e4bc5c672179fad1833fc076bb08ff356f35020"
    "ccea490ce26775a52dc6ea718cc1aa600aed05fbf35e084a6632f6072da9ad13"
)
_SM2_SIGNATURE: Final = bytes.fromhex(
    "f5a03b0648d2c4630eeac513e1bb81a15944da3827d5b74143ac7eaceee720b3"
    "b1b6aa29df212fd8763182bc0d421ca1bb9038fd1f7f42d4840b69c485bbc1aa"
)


def run_self_tests() -> None:
    """Compute every example; about 20 ms, and 60 ms more where libraries are still to be loaded.

    Raises:
        SelfTestError: a primitive, which the message names, gave another result.
        UnavailableError: this machine lacks something without which nothing can be tested.
    """
    for name, check in _CHECKS:
        try:
            good = check()
        except (SelfTestError, UnavailableError):
            raise
        except Exception as error:
            raise SelfTestError(f"{name}: the self-test failed with {error!r}") from error
        if not good:
            raise SelfTestError(f"{name}: the self-test gave another result than the standard")


_lock: Final = threading.Lock()
_passed = False


def ensure_self_tested() -> None:
    """Run the self-tests unless this process has passed them; called by all that opens or signs.

    Raises:
        SelfTestError: as `run_self_tests`, at this call and at every further one.
        UnavailableError: as `run_self_tests`.
    """
    global _passed  # noqa: PLW0603  # one fact about the process
    with _lock:
        if not _passed:
            run_self_tests()
            _passed = True


def _refuses(error: type[CryptoError], check: Callable[..., object], *arguments: object) -> bool:
    """Say whether a check of altered input ends in the error that it must end in."""
    try:
        check(*arguments)
    except error:
        return True
    return False


def _altered(data: bytes) -> bytes:
    """Return `data` with one bit of its last byte changed."""
    return data[:-1] + bytes([data[-1] ^ 1])


def _check_sm3() -> bool:
    """The provider of SM3, whole and in pieces."""
    pieces = sm3.Sm3(_SM3_INPUT[:5])
    pieces.update(_SM3_INPUT[5:])
    digests = (sm3.sm3(_SM3_INPUT), pieces.digest(), sm3.prefixed(b"ab")(_SM3_INPUT[2:]))
    return all(digest.hex() == _SM3_DIGEST for digest in digests)


def _check_hmac() -> bool:
    """HMAC-SM3, and the comparison of tags."""
    tag = kdf.hmac_sm3(bytes(range(1, 33)), _HMAC_MESSAGE[:7], _HMAC_MESSAGE[7:])
    kdf.check_tag(tag, bytes.fromhex(_HMAC_TAG))
    return tag.hex() == _HMAC_TAG and _refuses(InvalidTagError, kdf.check_tag, tag, _altered(tag))


def _check_hkdf() -> bool:
    """HKDF-SM3."""
    secret, salt, info = bytes([11]) * 22, bytes(range(13)), bytes(range(0xF0, 0xFA))
    return kdf.hkdf_sm3(secret, salt, info, 42).hex() == _HKDF_OUTPUT


def _check_pbkdf2() -> bool:
    """PBKDF2-HMAC-SM3."""
    salt = bytes.fromhex("000306090c0f1215")
    return kdf.pbkdf2_hmac_sm3(b"password", salt, 1, 32).hex() == _PBKDF2_OUTPUT


def _check_sm4() -> bool:
    """SM4-CTR: the block of the standard, and a counter that wraps, in place."""
    counter = int.from_bytes(_SM4_KEY, "big")
    block = sm4.ctr(_SM4_KEY, counter, bytes(sm4.BLOCK_BYTES))
    buffer = bytearray(3 * i % 251 for i in range(70))
    sm4.ctr_into(_SM4_WRAP_KEY, sm4.MAX_BLOCK - 1, buffer, buffer)
    return block.hex() == _SM4_BLOCK and buffer.hex() == _SM4_WRAP_TEXT


def _check_cbor() -> bool:
    """The encoder, the decoder, and its refusal of a longer form."""
    return (
        cbor.encode(_CBOR_VALUE) == _CBOR_BYTES
        and cbor.decode(_CBOR_BYTES) == _CBOR_VALUE
        and _refuses(FormatError, cbor.decode, b"\x18\x17")
    )


def _check_merkle() -> bool:
    """A root and an inclusion proof, and the refusal of the proof for another place."""
    leaves = [merkle.leaf_hash(bytes([i])) for i in range(5)]
    proof = merkle.inclusion_proof(leaves, 3)
    merkle.verify_inclusion(leaves[3], 3, 5, proof, _MERKLE_ROOT)
    wrong = (leaves[3], 2, 5, proof, _MERKLE_ROOT)
    return merkle.root(leaves) == _MERKLE_ROOT and _refuses(
        InvalidProofError, merkle.verify_inclusion, *wrong
    )


def _check_sm2_verification() -> bool:
    """The signature of the standard, and the refusal of another message and another signature."""
    key = PublicKey.from_bytes(_SM2_PUBLIC)
    message = b"message digest"
    sm2_verify.verify(key, message, _SM2_SIGNATURE)
    return all(
        _refuses(InvalidSignatureError, sm2_verify.verify, key, *wrong)
        for wrong in ((_altered(message), _SM2_SIGNATURE), (message, _altered(_SM2_SIGNATURE)))
    )


def _check_sm2_private_key() -> bool:
    """Signing and decrypting by the provider of this process; its own check raises."""
    sm2_provider.check_provider(sm2_provider.provider())
    return True


_CHECKS: Final[tuple[tuple[str, Callable[[], bool]], ...]] = (
    ("SM3", _check_sm3),
    ("HMAC-SM3", _check_hmac),
    ("HKDF-SM3", _check_hkdf),
    ("PBKDF2-HMAC-SM3", _check_pbkdf2),
    ("SM4-CTR", _check_sm4),
    ("CBOR", _check_cbor),
    ("Merkle tree", _check_merkle),
    ("SM2 verification", _check_sm2_verification),
    ("SM2 private key", _check_sm2_private_key),
)
