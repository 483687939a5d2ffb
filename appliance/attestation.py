"""From a request to a bundle: admitted before its first token, closed exactly once, verified.

Nothing of an answer leaves before `close` has returned; whatever it raises, there is no answer.

Source: verifier/SPEC.md sections 2 and 5.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.bundle import Bundle
from appliance.closing import Closing
from appliance.facts import Facts
from appliance.log.batch import Committed, Position
from appliance.log.log import Log
from appliance.log.space import Reservation
from appliance.selfcheck import SelfCheck
from crypto.admission import ADMISSION_TYPE, Admission, decode_admission
from crypto.commitment import (
    NAMES,
    commitment,
    ids_bytes,
    new_salt,
    request_bytes,
    seed_of_nonce,
)
from crypto.cose import decode_sign1, sign1
from crypto.evidence import ID_BYTES, MAX_OBJECT_BYTES, PROFILE_GENERATE
from crypto.signer import Signer
from crypto.sm2 import PublicKey
from crypto.statement import (
    COVERS,
    STATEMENT_TYPE,
    Statement,
)
from crypto.transcript import Kind, Transcript

LOCAL_PRINCIPAL: Final = bytes(ID_BYTES)
"""Who asks from the command line of the appliance itself."""

CLOSING_BYTES: Final = 4096
"""Room that is kept for a closing statement."""

_ENVELOPE_BYTES: Final = 512
"""More than a signature and its header take."""

_SEED_BITS: Final = 64


def now_ms() -> int:
    """Return the clock's time in milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A request that has passed every check and can be answered.

    Attributes:
        path: the endpoint's path.
        body: as it was received.
        prompt_ids: what it became, with `admitted_ms` as the only clock.
        parameters: integers by name, as of `Parsed.parameters`.
        admitted_ms: milliseconds since 1970-01-01 UTC.
        seed: the client's, None if it gave none.
        nonce: 16 .. 64 bytes of the client's, None if it gave none.
        principal: 16 bytes, who asks.
    """

    path: str
    body: bytes
    prompt_ids: tuple[int, ...]
    parameters: Mapping[str, int]
    admitted_ms: int
    seed: int | None = None
    nonce: bytes | None = None
    principal: bytes = LOCAL_PRINCIPAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a request ended.

    Attributes:
        outcome: one of `crypto.statement.OUTCOMES`.
        finish_reason: one of `crypto.statement.FINISH_REASONS`.
        transcript: what was handed out.
        output_ids: all ids drawn; None where they are not known.
        trace_root: 32 bytes over prompt and output, or over texts that became vectors; None where
            there is none, as where nothing was drawn.
    """

    outcome: str
    finish_reason: str
    transcript: Transcript = field(default_factory=lambda: Transcript(()))
    output_ids: tuple[int, ...] | None = None
    trace_root: bytes | None = None

    @property
    def trace(self) -> bytes:
        """The trace root as it is committed to: no bytes where nothing was both said and traced."""
        is_said = self.output_ids or any(e.kind is Kind.EMBEDDING for e in self.transcript.entries)
        return self.trace_root if self.trace_root is not None and is_said else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A request that stands in the log and waits for its statement.

    Attributes:
        order: the request.
        index: of its admission.
        request_id: 16 random bytes, in its admission too.
        admission: the signed object.
        seed: the one to answer with.
        seed_source: where it comes from.
        request_salt: 32 bytes.
        reservation: room on the disk for the statement.
    """

    order: Order
    index: int
    request_id: bytes
    admission: bytes
    seed: int
    seed_source: str
    request_salt: bytes
    reservation: Reservation | None


class Attestor:
    """Admits and closes the requests of one process. Any thread may call."""

    def __init__(
        self,
        signer: Signer,
        log: Log,
        facts: Facts,
        *,
        issuer: str,
        software: Callable[[], bytes],
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """Attest with a key of role `attest` into a log that this process writes.

        Args:
            signer: the key.
            log: the log.
            facts: what is said in every statement.
            issuer: 1 .. 64 characters of printable ASCII.
            software: gives the software digest; it may take seconds, once.
            clock: milliseconds since 1970-01-01 UTC.
        """
        self._signer = signer
        self._log = log
        self._facts = facts
        self._issuer = issuer
        self._software = software
        self._clock = clock
        self._check = SelfCheck(signer.public_key, log.log_id)
        self._open: dict[int, bytes] = {}
        """Admissions of this process without a statement, by index."""
        self._lock = threading.Lock()

    @property
    def public_key(self) -> PublicKey:
        """The key that statements are verified with."""
        return self._signer.public_key

    def now_ms(self) -> int:
        """Return the time for the next order."""
        return self._clock()

    def admit(self, order: Order) -> Admitted:
        """Log a request; when this returns its admission is durable, and the answer may begin.

        Raises:
            LogUnavailableError: the log takes nothing just now.
            CryptoError: it could not be signed; the log has stopped.
            ValueError: a value of the order that no admission can have; no index was taken.
        """
        seed, source = _seed(order)
        salt = new_salt()
        request = request_bytes(order.path, order.body)
        made = commitment("request", salt, request)
        request_id = secrets.token_bytes(ID_BYTES)

        def make(log_id: bytes, index: int) -> Admission:
            return Admission(
                issuer=self._issuer,
                log_id=log_id,
                sequence=index,
                admitted_ms=order.admitted_ms,
                nonce=order.nonce,
                profile=PROFILE_GENERATE,
                model_digest=self._facts.model_digest,
                principal=order.principal,
                parameters=order.parameters,
                seed=seed,
                seed_source=source,
                request_id=request_id,
                request_commitment=made,
            )

        # Tried before an index is taken: what is wrong with an order must not stop the log.
        make(self._log.log_id, 0).encode()
        committed = self._log.append(
            lambda position: sign1(
                make(position.log_id, position.index).encode(),
                typ=ADMISSION_TYPE,
                signer=self._signer,
            ),
            admits=True,
            reserve_bytes=CLOSING_BYTES,
        )
        index = committed.position.index
        with self._lock:
            self._open[index] = committed.entry
        return Admitted(
            order=order,
            index=index,
            request_id=request_id,
            admission=committed.entry,
            seed=seed,
            seed_source=source,
            request_salt=salt,
            reservation=committed.reservation,
        )

    def close(self, admitted: Admitted, answer: Answer) -> Bundle:
        """Log the statement that closes a request; when this returns, the answer may leave.

        Raises:
            LogUnavailableError: the log takes nothing just now.
            CryptoError: it could not be signed; the log has stopped.
            SelfTestError: what came out does not verify; it must not leave.
            ValueError: a value that no statement can have, or the request was closed before.
        """
        order = admitted.order
        output_ids = () if answer.output_ids is None else answer.output_ids
        texts = {
            "request": request_bytes(order.path, order.body),
            "prompt_ids": ids_bytes(order.prompt_ids),
            "transcript": answer.transcript.encode(),
            "output_ids": ids_bytes(output_ids),
            "trace": answer.trace,
        }
        salts = {name: new_salt() for name in texts} | {"request": admitted.request_salt}
        commitments = {name: commitment(name, salts[name], text) for name, text in texts.items()}
        said = Closing(
            admission=admitted.index,
            admitted_ms=order.admitted_ms,
            nonce=order.nonce,
            principal=order.principal,
            parameters=order.parameters,
            seed=admitted.seed,
            seed_source=admitted.seed_source,
            commitments=commitments,
            counts=(len(order.prompt_ids), len(output_ids)),
            outcome=answer.outcome,
            finish_reason=answer.finish_reason,
            has_trace=bool(answer.trace),
            coverage=_coverage(answer),
        )
        with self._lock:
            if self._open.pop(admitted.index, None) != admitted.admission:
                raise ValueError("the request was closed before, or is none of this process")
        try:
            committed = self._append(said, admitted.reservation)
        except BaseException:
            with self._lock:
                self._open[admitted.index] = admitted.admission
            raise
        bundle = Bundle(
            statement=committed.entry,
            checkpoint=committed.head.checkpoint,
            inclusion=tuple(committed.inclusion),
            admission=admitted.admission,
            admission_inclusion=tuple(committed.inclusions[admitted.index]),
            consistency=tuple(committed.consistency),
            releases=self._facts.releases or None,
            revocations=self._facts.revocations,
            salts=salts,
            texts=texts,
        )
        covered = {name for name, bit in COVERS.items() if said.coverage & bit}
        self._check(bundle, covered)
        return bundle

    def close_lost(self) -> int:
        """Close every admission that an earlier process left open; return how many there were.

        What they were about is not known any more: a statement commits to the request alone.

        Raises:
            LogUnavailableError, LogDamageError, OSError, CryptoError: as the log raises them.
        """
        left = self._log.open_admissions()
        for index, entry in left:
            admission = decode_admission(
                decode_sign1(entry.body, max_bytes=MAX_OBJECT_BYTES).payload
            )
            nothing = {name: commitment(name, new_salt(), b"") for name in NAMES}
            said = Closing(
                admission=index,
                admitted_ms=admission.admitted_ms,
                nonce=admission.nonce,
                principal=admission.principal,
                parameters=admission.parameters,
                seed=admission.seed,
                seed_source=admission.seed_source,
                commitments=nothing | {"request": admission.request_commitment},
                counts=(0, 0),
                outcome="lost",
                finish_reason="none",
                has_trace=False,
                coverage=COVERS["request"],
                model_digest=admission.model_digest,
            )
            self._append(said, None)
        return len(left)

    def _append(self, said: Closing, reservation: Reservation | None) -> Committed:
        """Append a closing statement."""
        index = said.admission
        software = self._software()
        ended_ms = max(self._clock(), said.admitted_ms)

        def make(position: Position) -> Statement:
            return said.statement(self._facts, self._issuer, software, ended_ms, position)

        # Tried before an index is taken: what is wrong with an answer must not stop the log.
        trial = Position(self._log.log_id, index + 1, 0, bytes(32), 0)
        if len(make(trial).encode()) > CLOSING_BYTES - _ENVELOPE_BYTES:
            raise ValueError("the statement is longer than the room that was kept for it")
        return self._log.append(
            lambda position: sign1(
                make(position).encode(), typ=STATEMENT_TYPE, signer=self._signer
            ),
            closes=index,
            reservation=reservation,
            include=[index],
        )


def _seed(order: Order) -> tuple[int, str]:
    """Return the seed and where it comes from."""
    if order.seed is not None:
        return order.seed, "request"
    if order.nonce is not None:
        return seed_of_nonce(order.nonce), "nonce"
    return secrets.randbits(_SEED_BITS), "server"


def _coverage(answer: Answer) -> int:
    """Return the bits of what the commitments of an answer really cover."""
    covered = {"request", "prompt_ids", "transcript"}
    if answer.output_ids is not None:
        covered.add("output_ids")
    if answer.trace:
        covered.add("trace")
    return sum(COVERS[name] for name in covered)
