"""The signature over a report: a COSE_Sign1 object of type he-report by a key of role `attest`.

The role is the one whose keys say what a machine computed; a type of its own keeps a report from
being taken for a statement about an answer.

Source: he_chain/README.md section "Report", crypto/README.md section "COSE".
"""

from __future__ import annotations

from typing import Final

from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.cose import decode_sign1, sign1
from crypto.errors import InvalidSignatureError
from crypto.labels import HE_REPORT
from crypto.signer import Signer
from crypto.sm2 import PublicKey
from crypto.sm3 import DIGEST_BYTES, Sm3

REPORT_TYPE: Final = "windhover/he-report;v=1"
MAX_SIGNED_BYTES: Final = 1024

_REPORT: Final = "report"
_HEAD: Final = "head"


def sign_report(report: bytes, head: bytes, signer: Signer) -> bytes:
    """Return the signed object for a report in its one form.

    Args:
        report: the bytes of report.json.
        head: 32 bytes, digest of the run's last record.
        signer: an `attest` key.

    Raises:
        CryptoError: as of `crypto.cose.sign1`.
    """
    payload = encode({_REPORT: report_digest(report), _HEAD: head})
    return sign1(payload, typ=REPORT_TYPE, signer=signer)


def verify_report(unverified_signed: bytes, report: bytes, head: bytes, key: PublicKey) -> None:
    """Check that a key signed this report of this run.

    Raises:
        FormatError: no object of this type.
        InvalidSignatureError: another key or another report was signed, or the signature is wrong.
    """
    signed = decode_sign1(unverified_signed, max_bytes=MAX_SIGNED_BYTES)
    signed.verify(key, typ=REPORT_TYPE)
    payload = CborMap(signed.payload, {_REPORT, _HEAD}, max_bytes=MAX_SIGNED_BYTES)
    stated = [payload.octets(name, DIGEST_BYTES, DIGEST_BYTES) for name in (_REPORT, _HEAD)]
    if stated != [report_digest(report), head]:
        raise InvalidSignatureError("the signature is over another report")


def report_digest(report: bytes) -> bytes:
    """Return the 32 bytes that stand for the bytes of report.json."""
    state = Sm3(HE_REPORT)
    state.update(report)
    return state.digest()
