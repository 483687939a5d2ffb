"""Whose weights a command accepts, and what it opens them with.

Every command that uses weights has the same options and judges by the same policy; what it gets is
an `Access`. Commands that only open a file, to sign or seal it, take `Credentials` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.errors import about
from appliance.cli.inputs import default_floors, read_public, read_trust
from appliance.cli.options import with_options
from appliance.cli.output import note
from crypto.errors import FormatError, KeyFileError, PolicyError
from crypto.floors import Floors, FloorStore
from crypto.revocations import MAX_REVOCATIONS_BYTES, open_revocations
from engine.admission import WeightsPolicy

_PATH: Final = click.Path(path_type=Path)


class PolicyFiles(NamedTuple):
    """Where it is written whose weights are accepted, or that anybody's are."""

    trust: Path | None = None
    revocations: Path | None = None
    floors: Path | None = None
    dev: bool = False

    def read(self, *, now: int) -> WeightsPolicy:
        """Read the files.

        Raises:
            OSError: the trust file or the list of revocations cannot be read.
            FormatError: one of the files is malformed.
            PolicyError: the list of revocations is not accepted, or the floors cannot be relied on.
            UnavailableError: the floors cannot be read.
        """
        if self.dev and (self.trust or self.revocations or self.floors):
            raise click.UsageError("--dev asks no policy: it goes with no file of one")
        if self.dev:
            return WeightsPolicy(dev=True)
        if self.trust is None:
            if self.revocations is not None:
                raise click.UsageError("--revocations needs --trust")
            return WeightsPolicy()
        trust = read_trust(self.trust)
        store = FloorStore(self.floors or default_floors(), create=True)
        with about(store.path, errors=FormatError):  # the others name it
            floors = store.read()
        revocations = None
        if self.revocations is not None:
            data = read_public(self.revocations, MAX_REVOCATIONS_BYTES)
            with about(self.revocations):
                revocations = open_revocations(data, trust, floors=floors, now=now)
        return WeightsPolicy(trust, revocations, store)

    @contextmanager
    def loading(self, path: Path, policy: WeightsPolicy) -> Iterator[None]:
        """Around the load of a file: a place for the floors before it, what was decided after it.

        Raises:
            OSError: there is no place for the floors.
            PolicyError, KeyFileError: the load was refused; the message names the file.
        """
        floors = Floors() if policy.floors is None else policy.floors.read()
        if policy.floors is not None and self.floors is None:
            policy.floors.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if policy.floors is not None and policy.revocations is not None:
            # The list is genuine even if the weights are then refused: no older one comes back.
            policy.floors.raise_revocations(policy.revocations.sequence)
        with judging(path, policy), about(path, errors=KeyFileError):
            yield
        if floors.is_new and policy.floors is not None and policy.floors.path.exists():
            note(f"{policy.floors.path} was made; releases below those loaded are refused now")


class Access(NamedTuple):
    """What a command that uses weights was given."""

    credentials: Credentials
    policy_files: PolicyFiles


@contextmanager
def judging(path: Path, policy: WeightsPolicy) -> Iterator[None]:
    """Name the file where the policy refuses it, and say aloud where nothing was asked.

    Raises:
        PolicyError: it was refused.
    """
    try:
        yield
    except PolicyError as error:
        if error.reason == "no-trust":
            message = f"{error}; --trust FILE names one, and --dev does without"
            raise PolicyError(error.reason, message) from None
        error.add_note(str(path))
        raise
    if policy.dev:
        note(f"--dev: nobody was asked to vouch for the weights in {path}")


def access_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of every command that uses weights; they arrive as `access`."""
    options = (
        click.option("--trust", type=_PATH, metavar="FILE", help="Who may vouch for weights."),
        click.option(
            "--revocations", type=_PATH, metavar="FILE", help="Signed list of what is withdrawn."
        ),
        click.option(
            "--floors", type=_PATH, metavar="FILE",
            help="Least releases that this machine still accepts; by default `floors` in systemd's "
            "$STATE_DIRECTORY, or in `windhover` of $XDG_STATE_HOME or ~/.local/state.",
        ),
        click.option(
            "--dev", is_flag=True,
            help="Accept weights whoever vouches for them. For development only.",
        ),
    )  # fmt: skip

    @wraps(function)
    def command(
        *,
        credentials: Credentials,
        trust: Path | None,
        revocations: Path | None,
        floors: Path | None,
        dev: bool,
        **others: object,
    ) -> object:
        policy_files = PolicyFiles(trust, revocations, floors, dev)
        return function(access=Access(credentials, policy_files), **others)

    unlock = unlock_options(key="--key", secret="--passphrase-file")  # noqa: S106  (a name)
    return unlock(with_options(command, options))
