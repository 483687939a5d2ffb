"""An admitted request until its statement: exactly one, whatever happens on the way."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from appliance.api.answers import Usage
from appliance.api.errors import (
    ApiError,
    api_error_of,
    attestation_error,
    deadline_exceeded,
    engine_error,
    not_ready,
)
from appliance.attestation import Admitted, Answer, Attestor
from appliance.service.asked import ATTESTATION_HEADER
from appliance.service.attestations import Attestation, AttestationStore, attestation_id
from appliance.service.job import Cause, Ended
from appliance.service.spoken import Handed
from crypto.cose import decode_sign1
from crypto.errors import SelfTestError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import decode_statement
from crypto.transcript import Transcript
from engine.sequence import FinishReason

if TYPE_CHECKING:
    from appliance.bundle import Bundle
    from appliance.service.access_log import AccessRecord

_LOG: Final = logging.getLogger("windhover.answering")
_RETRY_AFTER_S: Final = 5


class AttestedError(ApiError):
    """A failure after the admission, which has an attestation of its own."""

    def __init__(self, error: ApiError, attestation: str) -> None:
        """Add the id of the attestation to an error."""
        super().__init__(
            error.status,
            error.type,
            error.code,
            error.message,
            error.param,
            error.retry_after_s,
            error.should_retry,
        )
        self.attestation = attestation

    def headers(self) -> dict[str, str]:
        """Return the headers that go with it."""
        return {**super().headers(), ATTESTATION_HEADER: self.attestation}


@dataclass(frozen=True, slots=True)
class Closed:
    """A whole answer whose statement is durable.

    Attributes:
        finish_reason: why it ended.
        usage: numbers of tokens.
        attestation: the object that announces it.
    """

    finish_reason: str
    usage: Usage
    attestation: dict[str, object]


class Work(Protocol):
    """What the engine has to do for a request: one sequence, or several."""

    def cancel(self, cause: Cause) -> None:
        """Ask for the end, which comes within one step."""
        ...

    def wait(self) -> Ended:
        """Return how it ended; waits for it."""
        ...


class Life:
    """One admitted request. `close` may be called by any thread, and closes once.

    Attributes:
        admitted: the request.
        id: of its attestation.
        handed: what was handed out.
        job: on the engine; None before it was submitted.
    """

    def __init__(
        self,
        admitted: Admitted,
        *,
        attestor: Attestor,
        attestations: AttestationStore,
        log_id: bytes,
        release: Callable[[int], None],
        on_failure: Callable[[str, str], None],
        record: AccessRecord | None = None,
    ) -> None:
        """Begin with the admission.

        Args:
            admitted: what the attestor has admitted.
            attestor: closes it.
            attestations: gets the bundle.
            log_id: 32 bytes.
            release: called once with the number of generated tokens, when it is over.
            on_failure: called with code and message when nothing may be answered any more.
            record: what is noted of the request.
        """
        self.admitted = admitted
        self.id = attestation_id(admitted.index, admitted.request_id)
        self.handed = Handed()
        self.job: Work | None = None
        self._attestor = attestor
        self._attestations = attestations
        self._log_id = log_id
        self._release = release
        self._on_failure = on_failure
        self._record = record
        self._lock = threading.Lock()
        self._is_closed = False
        if record is not None:
            record.attestation = self.id
            record.prompt_tokens = len(admitted.order.prompt_ids)

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or somebody is about to."""
        return self._is_closed

    def answered(self, ended: Ended, finish_reason: str) -> Closed:
        """Close a whole answer, all of which was handed out or is about to be.

        Raises:
            AttestedError: it could not be attested, or was closed before.
        """
        answer = Answer(
            outcome="answered",
            finish_reason=finish_reason,
            transcript=self.handed.transcript(finish_reason),
            output_ids=ended.output_ids,
            trace_root=ended.find_trace_root(),
        )
        attestation = self._close(answer, ended)
        if attestation is None:
            raise AttestedError(attestation_error(), self.id)
        usage = Usage(
            len(self.admitted.order.prompt_ids), len(ended.output_ids), ended.cached_tokens
        )
        announced: dict[str, object] = {
            "id": self.id,
            "log_id": self._log_id.hex(),
            "sequence": attestation.sequence,
            "url": f"/v1/attestations/{self.id}",
            "statement": base64.b64encode(attestation.statement).decode("ascii"),
        }
        return Closed(finish_reason, usage, announced)

    def broken(self, ended: Ended) -> AttestedError:
        """Close an answer that the engine did not finish; return what the client is told."""
        if ended.reason is not FinishReason.CANCELLED:
            error = engine_error() if ended.error is None else api_error_of(ended.error)
            if error.status < 500:
                # It passed every check before it was admitted: the mistake is ours.
                error = engine_error()
            if error.code == "integrity_error":
                self._on_failure("integrity", "the weights no longer verify")
            return self._cut("error", "error", ended, error)
        if ended.cause is Cause.CLIENT:
            return self._cut("disconnected", "cancelled", ended, client_closed())
        if ended.cause is Cause.DEADLINE:
            return self._cut("cancelled", "cancelled", ended, deadline_exceeded())
        stopping = not_ready("the service is stopping", _RETRY_AFTER_S)
        return self._cut("cancelled", "cancelled", ended, stopping)

    def left(self) -> None:
        """End and close it because its client has left; nothing happens if it is closed."""
        if self._is_closed:
            return
        ended = self._end()
        if ended.error is not None:
            self._cut("error", "error", ended, engine_error())
        else:
            self._cut("disconnected", "cancelled", ended, client_closed())

    def failed(self, error: Exception) -> AttestedError:
        """End and close it because the one who answers has failed; return what is told."""
        told = error if isinstance(error, ApiError) else engine_error()
        if self._is_closed:
            return AttestedError(told, self.id)
        return self._cut("error", "error", self._end(), told)

    def refused(self, error: ApiError) -> AttestedError:
        """Close what was admitted and never reached the engine."""
        is_stopping = error.code == "not_ready"
        word = "cancelled" if is_stopping else "error"
        return self._cut(word, word, Ended(FinishReason.ERROR), error)

    def _end(self) -> Ended:
        if self.job is None:
            return Ended(FinishReason.CANCELLED)
        self.job.cancel(Cause.CLIENT)
        return self.job.wait()

    def _cut(self, outcome: str, reason: str, ended: Ended, told: ApiError) -> AttestedError:
        try:
            trace_root = ended.find_trace_root() if ended.output_ids else None
        except Exception as error:
            # What failed may be what it is closed for; a statement without a trace is still one.
            _LOG.error("no trace: %s", type(error).__name__)
            trace_root = None
        answer = Answer(
            outcome=outcome,
            finish_reason=reason,
            transcript=self.handed.transcript(reason),
            output_ids=ended.output_ids,
            trace_root=trace_root,
        )
        if self._close(answer, ended) is None:
            told = attestation_error()
        return AttestedError(told, self.id)

    def _close(self, answer: Answer, ended: Ended) -> Attestation | None:
        """Have the statement made, once; None where it could not be, or was made before."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_closed = True
        try:
            return self._attest(answer)
        finally:
            self._note(answer, ended)
            self._release(len(ended.output_ids))

    def _attest(self, answer: Answer) -> Attestation | None:
        try:
            try:
                bundle = self._attestor.close(self.admitted, answer)
            except SelfTestError:
                raise
            except ValueError:
                # No statement can say this; the request still needs one.
                bare = Answer(outcome="error", finish_reason="error", transcript=_nothing("error"))
                self._keep(self._attestor.close(self.admitted, bare))
                raise
            return self._keep(bundle)
        except Exception as error:
            _LOG.critical("no statement: %s", type(error).__name__)
            self._on_failure("attestation", "an answer could not be attested")
            return None

    def _keep(self, bundle: Bundle) -> Attestation:
        payload = decode_sign1(bundle.statement, max_bytes=MAX_OBJECT_BYTES).payload
        sequence = decode_statement(payload).sequence
        attestation = Attestation(self.id, sequence, bundle.statement, bundle.encode())
        self._attestations.put(self.admitted.index, self.admitted.order.principal, attestation)
        return attestation

    def _note(self, answer: Answer, ended: Ended) -> None:
        record: Any = self._record
        if record is not None:
            record.outcome = answer.outcome
            record.finish = answer.finish_reason
            record.generated_tokens = len(ended.output_ids)
            record.cached_tokens = ended.cached_tokens

    def first_token(self, seconds: float) -> None:
        """Note how long the first token took."""
        if self._record is not None and self._record.first_token_ms is None:
            self._record.first_token_ms = round(seconds * 1000)


def client_closed() -> ApiError:
    """Return the error of a client that is not there any more; only the log shows it."""
    return ApiError(499, "invalid_request_error", "client_closed_request", "the client has left")


def _nothing(finish_reason: str) -> Transcript:
    return Handed().transcript(finish_reason)
