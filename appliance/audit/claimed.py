"""What a bundle claims about an answer: its statement, and what opens the commitments."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from appliance.api.parse import parse_request
from appliance.api.parsed import Parsed
from appliance.api.request_error import RequestError
from appliance.audit.findings import FailedError, OpenError
from appliance.bundle import Bundle, decode_bundle
from crypto.admission import decode_admission
from crypto.commitment import NAMES, commitment
from crypto.cose import Sign1, decode_sign1
from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.sm3 import sm3
from crypto.statement import COVERS, Statement, decode_statement
from engine.audit.answered import Answered
from engine.audit.challenge import Extent
from engine.errors import ConfigError
from engine.sampling.parameters import ONE, SamplingParameters

_ID_BYTES: Final = 4


@dataclass(frozen=True)
class Claimed:
    """A decoded bundle. Its signatures are not verified here: that is the verifier's part.

    bundle: as it was decoded. statement: what it says. statement_digest: SM3 of the signed object.
    admitted_ms: when the request was admitted. opened: texts that open their commitments, by name.
    """

    bundle: Bundle
    statement: Statement
    statement_digest: bytes
    admitted_ms: int
    opened: dict[str, bytes]

    def text(self, name: str) -> bytes:
        """Return what one commitment is about.

        Raises:
            OpenError: it is absent, its salt is, or the statement does not cover it.
        """
        if name in self.opened:
            return self.opened[name]
        is_there = name in self.bundle.texts and self.statement.coverage & COVERS[name]
        key = name.replace("_", "-")
        raise OpenError(f"no-salt-{key}" if is_there else f"no-{key}")

    @cached_property
    def prompt_ids(self) -> tuple[int, ...]:
        """The ids of the prompt; OpenError as `text`, FailedError `counts`."""
        return self._ids("prompt_ids", self.statement.prompt_tokens)

    @cached_property
    def output_ids(self) -> tuple[int, ...]:
        """All ids drawn; OpenError as `text`, FailedError `counts`."""
        return self._ids("output_ids", self.statement.output_tokens)

    def _ids(self, name: str, count: int) -> tuple[int, ...]:
        data = self.text(name)
        if len(data) != _ID_BYTES * count:
            raise FailedError("counts")
        return tuple(
            int.from_bytes(data[at : at + _ID_BYTES], "little")
            for at in range(0, len(data), _ID_BYTES)
        )

    @cached_property
    def request(self) -> Parsed:
        """What was asked; OpenError as `text`, FailedError `request-refused`."""
        path, _, body = self.text("request").partition(b"\x00")
        try:
            return parse_request(path.decode("ascii"), body)
        except (RequestError, UnicodeDecodeError):
            # No appliance answers it, so the answer cannot follow from it.
            raise FailedError("request-refused") from None

    @property
    def num_inputs(self) -> int:
        """How many texts became vectors, by the statement; 0 where tokens were drawn."""
        return max(self.statement.parameters.get("inputs", 0), 0)

    @property
    def max_tokens(self) -> int:
        """How long the answer could become; FailedError `parameters`."""
        value = self.statement.parameters.get("max_tokens", 0)
        if value < 1:
            raise FailedError("parameters")
        return value

    @cached_property
    def sampling(self) -> SamplingParameters:
        """How tokens were to be chosen, by the statement.

        Raises:
            OpenError: `no-request`, `no-salt-request`: biases stand in the request alone.
            FailedError: `parameters`: they are none that an engine takes; or as `request`.
        """
        said = self.statement.parameters
        try:
            sampling = SamplingParameters(
                seed=self.statement.seed,
                temperature_millionths=said["temperature_millionths"],
                top_k=said.get("top_k", 0),
                top_p_millionths=said.get("top_p_millionths", ONE),
                min_p_millionths=said.get("min_p_millionths", 0),
                repetition_penalty_millionths=said.get("repetition_penalty_millionths", ONE),
                presence_penalty_millionths=said.get("presence_penalty_millionths", 0),
                frequency_penalty_millionths=said.get("frequency_penalty_millionths", 0),
            )
        except (ConfigError, KeyError):
            raise FailedError("parameters") from None
        if said.get("logit_biases", 0) == 0:
            return sampling
        biases = self.request.sampling.logit_bias_millionths
        return replace(sampling, logit_bias_millionths=biases)

    @property
    def answered(self) -> Answered:
        """What is to be executed again; errors as its parts."""
        return Answered(self.prompt_ids, self.output_ids, self.sampling)

    @property
    def trace_root(self) -> bytes:
        """The committed trace root.

        Raises:
            OpenError: it is not opened, or `no-trace`: there is none.
        """
        if self.statement.trace_shape[0] == 0:
            raise OpenError("no-trace")
        return self.text("trace")

    @property
    def extent(self) -> Extent:
        """How much there is to audit; OpenError `nothing-to-audit`."""
        statement = self.statement
        positions, layers, _ = statement.trace_shape
        if not (positions and statement.output_tokens and statement.prompt_tokens):
            raise OpenError("nothing-to-audit")
        extent = Extent(statement.prompt_tokens, statement.output_tokens, layers)
        if extent.num_positions != positions:
            raise FailedError("counts")
        return extent


def read_claimed(unverified_bundle: bytes) -> Claimed:
    """Decode a bundle and open its commitments.

    Raises:
        FailedError: `bundle-format`, `statement-format`, `statement-claims`, `admission-format`, or
            `opens-NAME`: a text is not the one that was committed to.
    """
    try:
        bundle = decode_bundle(unverified_bundle)
    except FormatError:
        raise FailedError("bundle-format") from None
    statement = _statement(bundle.statement)
    admitted_ms = statement.started_ms
    if bundle.admission is not None:
        try:
            admitted_ms = decode_admission(_object(bundle.admission).payload).admitted_ms
        except FormatError:
            raise FailedError("admission-format") from None
    opened = {}
    for name in NAMES:
        text, salt = bundle.texts.get(name), bundle.salts.get(name)
        if text is None or salt is None or not statement.coverage & COVERS[name]:
            continue
        made = commitment(name, salt, text)
        if not hmac.compare_digest(made, statement.commitments[name]):
            raise FailedError(f"opens-{name.replace('_', '-')}")
        opened[name] = text
    return Claimed(bundle, statement, sm3(bundle.statement), admitted_ms, opened)


def _object(data: bytes) -> Sign1:
    return decode_sign1(data, max_bytes=MAX_OBJECT_BYTES)


def _statement(data: bytes) -> Statement:
    try:
        payload = _object(data).payload
    except FormatError:
        raise FailedError("statement-format") from None
    try:
        return decode_statement(payload)
    except FormatError:
        raise FailedError("statement-claims") from None
