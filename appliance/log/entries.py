"""Whether an entry is an object that belongs at its place in the log.

Source: verifier/SPEC.md sections 2 and 4, appliance/log/README.md section "Segment".
"""

from __future__ import annotations

from appliance.log.layout import ADMISSION, CLOSING, ENTRY
from crypto.admission import ADMISSION_TYPE, decode_admission
from crypto.cose import decode_sign1
from crypto.errors import FormatError
from crypto.event import EVENT_TYPE, decode_event
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import STATEMENT_TYPE, decode_statement


def check_entry(kind: int, refers: int, index: int, log_id: bytes, body: bytes) -> None:
    """Check that an entry is what its record says, and says its own log and index.

    Args:
        kind: of the record.
        refers: of a closing statement the index of its admission.
        index: of the entry.
        log_id: 32 bytes.
        body: the object; its signature is not looked at.

    Raises:
        FormatError: it is not; a rule of objects or evidence, or `log-kind`, `log-id`,
            `log-sequence`, `log-admission`.
    """
    signed = decode_sign1(body, max_bytes=MAX_OBJECT_BYTES)
    said_admission = 0
    if signed.typ == STATEMENT_TYPE:
        expected = CLOSING
        statement = decode_statement(signed.payload)
        said_id, sequence, said_admission = (
            statement.log_id,
            statement.sequence,
            statement.admission,
        )
    elif signed.typ == ADMISSION_TYPE:
        expected = ADMISSION
        admission = decode_admission(signed.payload)
        said_id, sequence = admission.log_id, admission.sequence
    elif signed.typ == EVENT_TYPE:
        expected = ENTRY
        event = decode_event(signed.payload)
        said_id, sequence = event.log_id, event.sequence
    else:
        raise FormatError(0, "type")
    if kind != expected:
        raise FormatError(0, "log-kind")
    if said_id != log_id:
        raise FormatError(0, "log-id")
    if sequence != index:
        raise FormatError(0, "log-sequence")
    if said_admission != refers:
        raise FormatError(0, "log-admission")
