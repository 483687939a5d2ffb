"""What an auditor asks of a bundle beyond its own consistency (SPEC.md section 6)."""

from __future__ import annotations

import time

from verifier import objects
from verifier.cose import decode_sign1
from verifier.errors import DIGITS, HEX, MalformedError, UsageError, spelt
from verifier.objects import LOG_ID, MAX_NUMBER, MAX_REQUEST_BYTES, ROOT, SIZE
from verifier.transcript import MAX_BYTES as MAX_RESPONSE_BYTES

RUNGS = ("A0", "A1", "A2", "A3")
MAX_MANIFESTS = 16


class Head:
    """A head of a log that the auditor holds; the log id is known where it was a checkpoint."""

    __slots__ = ("log_id", "root", "size")

    def __init__(self, size: int, root: bytes, log_id: bytes | None = None) -> None:
        self.size, self.root, self.log_id = size, root, log_id

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read SIZE:ROOT, the root in 64 lower-case hexadecimal digits (UsageError)."""
        size, _, root = text.partition(":")
        good = spelt(size, DIGITS, 16, DIGITS[1:]) and spelt(root, HEX) and len(root) == 64
        if not good or int(size) > MAX_NUMBER:
            raise UsageError("a log head is SIZE:ROOT, the root in 64 hexadecimal digits")
        return cls(int(size), bytes.fromhex(root))

    @classmethod
    def of_checkpoint(cls, data: bytes) -> Head:
        """Take a checkpoint at its word, without a look at its signature (UsageError)."""
        try:
            sign1 = decode_sign1(data, objects.MAX_OBJECT_BYTES)
            claims = objects.read_checkpoint(sign1.payload)
        except MalformedError as error:
            raise UsageError(f"the log head is no checkpoint: {error}") from None
        if sign1.typ != "windhover/checkpoint;v=1":
            raise UsageError("the log head is no checkpoint: type")
        return cls(claims[SIZE], claims[ROOT], claims[LOG_ID])


class Expectations:
    """The time of verification, the rungs needed, and expected values; times are ms since 1970."""

    def __init__(
        self,
        *,
        at: int | None = None,
        need: tuple[str, ...] = RUNGS,
        signer: bytes | None = None,
        model: bytes | None = None,
        nonce: bytes | None = None,
        after: int | None = None,
        before: int | None = None,
        request: bytes | None = None,
        response: bytes | None = None,
        prefix: bool = False,
        head: Head | None = None,
        software: tuple[bytes, ...] = (),
    ) -> None:
        if not set(need) <= set(RUNGS):
            raise UsageError("the rungs that this program checks are A0, A1, A2, A3")
        if len(request or b"") > MAX_REQUEST_BYTES or len(response or b"") > MAX_RESPONSE_BYTES:
            raise UsageError("the expected request or response is too long")
        if len(software) > MAX_MANIFESTS:
            raise UsageError(f"at most {MAX_MANIFESTS} software manifests")
        self.at = time.time_ns() // 1_000_000 if at is None else at
        self.need = {"A0", *need}
        self.signer, self.model, self.nonce = signer, model, nonce
        self.after, self.before, self.head = after, before, head
        self.request, self.response, self.prefix = request, response, prefix
        self.software = software
