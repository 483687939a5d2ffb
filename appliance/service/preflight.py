"""What the configuration points to, looked at before the weights are read: `serve --check`.

Everything here only reads. Each failure says in one line which file it is, and what to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from appliance.cli.errors import about
from appliance.cli.inputs import default_floors, read_public, read_trust
from appliance.cli.secrets import passphrase, private_keys
from appliance.log.anchor import FileAnchor
from appliance.log.files import LogFiles
from appliance.log.start import check_anchor, check_signature
from appliance.service.key_file import read_keys
from appliance.service.release_check import check_software, say_release
from appliance.software import software_digest
from appliance.software_manifest import Accepted, read_manifest
from crypto.checkpoint import decode_checkpoint
from crypto.cose import decode_sign1
from crypto.errors import CryptoError, FormatError, KeyFileError, PolicyError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.floors import Floors, FloorStore
from crypto.revocations import MAX_REVOCATIONS_BYTES, open_revocations
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from engine.admission import WeightsPolicy, admit
from engine.errors import ConfigError
from engine.vqf import open_vqf
from engine.vqf.unlock import Unlock

if TYPE_CHECKING:
    from appliance.service.settings import Settings
    from crypto.sm2 import PrivateKey
    from engine.admission import Admission

_GENESIS: Final = 1


class Policy(NamedTuple):
    """Whose weights are accepted.

    revocations: the list in force as it was read, or None. software: the manifest of this program.
    """

    weights: WeightsPolicy
    revocations: bytes | None
    software: Accepted | None = None


class Attesting(NamedTuple):
    """What answers are signed with, and into which log. size: of the log, entries."""

    signer: SoftwareSigner
    issuer: str
    anchor: FileAnchor
    size: int


def read_policy(settings: Settings, log_size: int) -> Policy:
    """Read trust file, floors, revocations and manifest; nothing is made that is not there.

    Args:
        settings: the configuration.
        log_size: entries of the log. Where it has its first one alone, nothing was ever served here
            and the floors may begin; later, that the file is gone is an error.

    Raises:
        OSError, FormatError, UnavailableError: a file cannot be read, or is malformed.
        PolicyError: list or manifest is not accepted, or the floors cannot be relied on.
    """
    model = settings.model
    if settings.dev.allow_unsigned:
        return Policy(WeightsPolicy(dev=True), None)
    if model.trust is None:
        raise ConfigError(f"{settings.path}: model.trust: no trust file is named")
    trust = read_trust(model.trust)
    store = FloorStore(
        model.floors or default_floors(), create=settings.mode == "dev" or log_size <= _GENESIS
    )
    try:
        with about(store.path, errors=FormatError):
            floors = store.read()
    except PolicyError as error:
        if error.reason != "floors-missing":
            raise
        raise PolicyError(
            error.reason,
            f"{error}; this machine has served before: find out who removed it and put it back, or "
            "begin a new log with `windhover log new`, whose id says so to everybody",
        ) from None
    _compare_floors(store, floors, FileAnchor(settings.attest.anchor))
    data = revocations = None
    if model.revocations is not None:
        data = read_public(model.revocations, MAX_REVOCATIONS_BYTES)
        with about(model.revocations):
            revocations = open_revocations(data, trust, floors=floors, now=int(time.time()))
    software = None
    if settings.software.manifest is not None:
        software = read_manifest(settings.software.manifest, trust, revocations=revocations)
    return Policy(WeightsPolicy(trust, revocations, store), data, software)


@contextmanager
def unlocking(settings: Settings) -> Iterator[Unlock]:
    """Read what opens sealed weights; it is wiped at the end.

    Raises:
        KeyFileError: as `private_keys` and `passphrase`.
    """
    model = settings.model
    paths = () if model.unseal_key is None else (model.unseal_key,)
    with (
        passphrase(model.passphrase, what="the weights") as secret,
        private_keys(paths, model.unseal_key_passphrase, role="unseal") as keys,
    ):
        yield Unlock(tuple(map(SoftwareUnwrapper, keys)), secret)


def read_attest_key(settings: Settings, stack: ExitStack) -> SoftwareSigner:
    """Return the key that attests; it is wiped when the stack is closed.

    Raises:
        KeyFileError: as `private_keys`.
    """
    attest = settings.attest
    keys: tuple[PrivateKey, ...] = stack.enter_context(
        private_keys((attest.key,), attest.key_passphrase, role="attest")
    )
    return SoftwareSigner(keys[0])


def check_log(settings: Settings, signer: SoftwareSigner) -> Attesting:
    """Compare the log with its anchor and its key, and change nothing.

    Raises:
        ConfigError: there is no log, or it is another issuer's.
        CryptoError, OSError: as `LogFiles`, `check_signature` and `check_anchor`.
    """
    attest = settings.attest
    anchor = FileAnchor(attest.anchor)
    if not attest.log.is_dir():
        raise ConfigError(
            f"{attest.log}: there is no log; `windhover log new {attest.log} --key {attest.key} "
            f"--anchor {attest.anchor} --issuer '{attest.issuer}'` begins one, and the verifiers' "
            "trust files need its id"
        )
    files = LogFiles(attest.log, attest.archive)
    check_signature(files, [signer.public_key])
    check_anchor(files, anchor.read())
    payload = decode_sign1(files.head.checkpoint, max_bytes=MAX_OBJECT_BYTES).payload
    issuer = decode_checkpoint(payload).issuer
    if issuer != attest.issuer:
        raise ConfigError(
            f"{settings.path}: attest.issuer: the log is that of {issuer!r}, not of "
            f"{attest.issuer!r}; write the log's"
        )
    return Attesting(signer, issuer, anchor, files.head.size)


def check_weights(settings: Settings, policy: Policy) -> Admission:
    """Open the weights and ask the policy; of the file only the head is read and verified.

    Raises:
        OSError, FormatError, KeyFileError, PolicyError, WeightsError: as `open_vqf` and `admit`.
    """
    path = settings.model.file
    with unlocking(settings) as unlock, naming(path), open_vqf(path, unlock) as file:
        return admit(file, policy.weights, now=int(time.time()))


def check_all(settings: Settings) -> dict[str, str]:
    """Look at everything, in the order of a start; return what there is to say.

    Raises:
        Exception: what a start would fail with.
    """
    keys = read_keys(settings.auth.keys)
    with ExitStack() as stack:
        signer = read_attest_key(settings, stack)
        attesting = check_log(settings, signer)
        policy = read_policy(settings, attesting.size)
        admission = check_weights(settings, policy)
        made_of = None
        if policy.software is not None:
            is_dev = settings.mode == "dev"
            made_of = check_software(policy.software, software_digest(), is_dev=is_dev)
    verdict = admission.verdict
    release = None if verdict is None else verdict.release
    vouched = "by nobody" if release is None else f"release {release.release} of {release.line}"
    found = {
        "model": f"{settings.model_name}, {settings.model.file}",
        "vouched_for": vouched,
        "log": f"{settings.attest.log}, {attesting.size} entries",
        "attest_key": signer.key_id.hex(),
        "api_keys": str(len(keys)),
        "listen": settings.server.listen,
    }
    return found if made_of is None else found | {"software": say_release(made_of)}


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Name the weights in an error that does not."""
    with about(path, errors=KeyFileError), about(path, errors=PolicyError):
        yield


def summary(error: BaseException) -> str:
    """Return the stable word for a failure: the reason of a refusal, or the kind of error."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) and reason else type(error).__name__


def _compare_floors(store: FloorStore, floors: Floors, anchor: FileAnchor) -> None:
    """Refuse floors that are lower than the anchor remembers.

    A damaged or missing anchor is left to the log, which says more about it.

    Raises:
        PolicyError: `floors-rolled-back`.
    """
    seen = None
    with suppress(CryptoError):
        seen = anchor.read()
    if seen is None:
        return
    lower = [line for line, least in seen.floors.releases.items() if floors.release(line) < least]
    if lower or floors.revocation_sequence < seen.floors.revocation_sequence:
        what = f"of line {lower[0]}" if lower else "of revocations"
        raise PolicyError(
            "floors-rolled-back",
            f"{store.path}: the floor {what} is lower than the anchor {anchor.path} remembers; "
            "an older copy was put back: restore the newer one",
        )
