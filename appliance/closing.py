"""The closing entry of a request: what differs from answer to answer, put together with the facts.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.facts import NO_DIGEST, Facts
from appliance.log.batch import Position
from crypto.evidence import PROFILE_GENERATE
from crypto.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What a statement says that differs from request to request.

    Attributes:
        admission: index of the admission.
        admitted_ms: milliseconds since 1970-01-01 UTC.
        nonce: the client's, None if it gave none.
        principal: 16 bytes.
        parameters: integers by name.
        seed: the one that was answered with.
        seed_source: where it came from.
        commitments: 32 bytes by name.
        counts: tokens of prompt and output.
        outcome: one of `crypto.statement.OUTCOMES`.
        finish_reason: one of `crypto.statement.FINISH_REASONS`.
        has_trace: whether prompt and output were traced.
        coverage: bits of what is committed to.
        model_digest: of an earlier process; None: that of the facts.
    """

    admission: int
    admitted_ms: int
    nonce: bytes | None
    principal: bytes
    parameters: Mapping[str, int]
    seed: int
    seed_source: str
    commitments: Mapping[str, bytes]
    counts: tuple[int, int]
    outcome: str
    finish_reason: str
    has_trace: bool
    coverage: int
    model_digest: bytes | None = None

    def statement(
        self, facts: Facts, issuer: str, software: bytes, ended_ms: int, position: Position
    ) -> Statement:
        """Return the statement for a place in the log."""
        prompt_tokens, output_tokens = self.counts
        is_of_model = self.model_digest in (None, facts.model_digest)
        # The last token drawn is not computed; where none is, texts became vectors.
        positions = prompt_tokens + max(output_tokens - 1, 0)
        shape = (positions, facts.num_layers, facts.hidden_size)
        return Statement(
            issuer=issuer,
            log_id=position.log_id,
            sequence=position.index,
            admission=self.admission,
            started_ms=self.admitted_ms,
            ended_ms=ended_ms,
            nonce=self.nonce,
            profile=PROFILE_GENERATE,
            outcome=self.outcome,
            model_digest=self.model_digest or facts.model_digest,
            line=facts.line if is_of_model else None,
            release=facts.release if is_of_model else None,
            release_payload=facts.release_payload if is_of_model else None,
            load_verdict=facts.load_verdict if is_of_model else "unsigned",
            mode=facts.mode,
            software_digest=software,
            numerics=facts.numerics,
            kernel_path=facts.kernel_path,
            residency=facts.residency,
            write_xor_execute=facts.write_xor_execute,
            principal=self.principal,
            tokenizer_root=facts.tokenizer_root if is_of_model else NO_DIGEST,
            template_root=facts.template_root if is_of_model else None,
            parameters=self.parameters,
            seed=self.seed,
            seed_source=self.seed_source,
            commitments=self.commitments,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            finish_reason=self.finish_reason,
            trace_shape=shape if self.has_trace else (0, 0, 0),
            trust_digest=facts.trust_digest,
            revocation_sequence=facts.revocation_sequence,
            earlier_size=position.earlier_size,
            earlier_root=position.earlier_root,
            coverage=self.coverage,
        )
