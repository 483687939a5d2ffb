"""Whether an open file may be used: the policy of the one who runs it (DESIGN-VQF, DESIGN 8).

What a reader accepts is well formed and not damaged; who vouches for it is decided here, by the
trust file. `dev` is the only way round, and whoever uses it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from crypto.errors import PolicyError
from crypto.floors import Floors
from crypto.policy import Form, judge
from engine.version import RUNTIME_VERSION

if TYPE_CHECKING:
    from crypto.floors import FloorStore
    from crypto.policy import Verdict
    from crypto.revocations import Revocations
    from crypto.trust import TrustFile
    from engine.vqf import VqfFile

Mode: TypeAlias = Literal["production", "dev"]


@dataclass(frozen=True, slots=True)
class WeightsPolicy:
    """What is asked of weights before they are used.

    Attributes:
        trust: the trust file; without one nothing is admitted but in mode `dev`.
        revocations: the list in force.
        floors: where this machine keeps the least releases that it still accepts.
        dev: admit everything, whoever vouches for it.
    """

    trust: TrustFile | None = None
    revocations: Revocations | None = None
    floors: FloorStore | None = None
    dev: bool = False


DEV: Final = WeightsPolicy(dev=True)
"""Admits everything: for development, benchmarks and tests."""


class Admission(NamedTuple):
    """Weights that may be used, and on what grounds."""

    mode: Mode
    verdict: Verdict | None
    """None in mode `dev`, where nothing was judged."""


def admit(file: VqfFile, policy: WeightsPolicy, *, now: int) -> Admission:
    """Decide whether the weights of an open file may be used.

    Args:
        file: the file; nothing but its manifest and signatures is looked at.
        policy: what is asked of it.
        now: seconds since 1970-01-01 UTC.

    Raises:
        PolicyError: they may not; the reason is one of `crypto.policy.REASONS`, of `FloorStore`, or
            `no-trust`.
        FormatError, UnavailableError: the file of floors is damaged or cannot be read.
    """
    if policy.dev:
        return Admission("dev", None)
    if policy.trust is None:
        raise PolicyError("no-trust", f"{file.path}: no trust file says who may vouch for it")
    verdict = judge(
        policy.trust,
        form=cast("Form", file.form.name.lower()),
        model_digest=file.model_digest,
        signatures=[(signed.sign1, signed.release) for signed in file.signatures],
        revocations=policy.revocations,
        floors=Floors() if policy.floors is None else policy.floors.read(),
        runtime_version=RUNTIME_VERSION,
        now=now,
    )
    return Admission("production", verdict)


def record_load(admission: Admission, policy: WeightsPolicy) -> None:
    """Raise the floors to what was loaded: call it when a load in production has succeeded.

    Raises:
        WriteError: the file of floors cannot be written.
        PolicyError, FormatError, UnavailableError: as `FloorStore.read`.
    """
    verdict = admission.verdict
    if verdict is None or policy.floors is None:
        return
    if verdict.release is not None:
        policy.floors.raise_to(verdict.release.line, verdict.release.release)
    if verdict.revocation_sequence:
        policy.floors.raise_revocations(verdict.revocation_sequence)
