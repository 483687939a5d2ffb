"""What an appliance says about its model and itself: the same in every statement of a process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.bundle import MAX_OBJECTS
from crypto.sm3 import DIGEST_BYTES

if TYPE_CHECKING:
    from engine.model import Model

NUMERICS: Final = "wh1"
NO_DIGEST: Final = bytes(DIGEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The part of a statement that no request changes.

    Attributes:
        model_digest: 32 bytes.
        line: of the release that the policy accepted; with the next two, or all None.
        release: its number.
        release_payload: 32 bytes, digest of its payload.
        load_verdict: `signed` or `unsigned`.
        mode: `production` or `dev`.
        numerics: profile of the arithmetic.
        kernel_path: which kernels compute.
        residency: how the weights lie in memory.
        write_xor_execute: whether pages can become executable, `locked` or `open`.
        tokenizer_root: 32 bytes.
        template_root: 32 bytes, None without a template.
        num_layers: layers of the trace.
        hidden_size: its width.
        trust_digest: 32 bytes, the trust file in force; zeros without one.
        revocation_sequence: of the list in force, 0 without one.
        releases: signed objects of keys that the policy counted, as many as a bundle takes.
        revocations: the list in force, a signed object.
    """

    model_digest: bytes
    line: str | None
    release: int | None
    release_payload: bytes | None
    load_verdict: str
    mode: str
    numerics: str
    kernel_path: str
    residency: str
    write_xor_execute: str
    tokenizer_root: bytes
    template_root: bytes | None
    num_layers: int
    hidden_size: int
    trust_digest: bytes
    revocation_sequence: int
    releases: tuple[bytes, ...]
    revocations: bytes | None


def facts_of(
    model: Model,
    *,
    revocations: bytes | None = None,
    write_xor_execute: str = "open",
    dev: bool = False,
) -> Facts:
    """Return what is to be said of a loaded model.

    Args:
        model: the model.
        revocations: the list in force as a signed object, which bundles carry on.
        write_xor_execute: `locked` where the process was, and it was tried; a process that compiles
            is `open`.
        dev: whether the appliance runs in mode `dev`, whoever vouches for the weights.
    """
    from simd.target import TARGET  # noqa: PLC0415  (takes llvmlite)

    verdict = model.admission.verdict
    release = None if verdict is None else verdict.release
    counted = () if verdict is None else verdict.key_ids
    return Facts(
        model_digest=model.model_digest,
        line=None if release is None else release.line,
        release=None if release is None else release.release,
        release_payload=None if verdict is None else verdict.payload_digest,
        load_verdict="unsigned" if release is None else "signed",
        mode="dev" if dev else model.admission.mode,
        numerics=NUMERICS,
        kernel_path=TARGET.path,
        residency=model.residency.mode,
        write_xor_execute=write_xor_execute,
        tokenizer_root=model.tokenizer_root,
        template_root=model.template_root,
        num_layers=model.config.num_layers,
        hidden_size=model.config.hidden_size,
        trust_digest=NO_DIGEST if verdict is None else verdict.trust_digest,
        revocation_sequence=0 if verdict is None else verdict.revocation_sequence,
        releases=tuple(
            signed.encoded
            for signed in model.signatures
            if signed.release == release and signed.sign1.key_id in counted
        )[:MAX_OBJECTS],
        revocations=revocations,
    )
