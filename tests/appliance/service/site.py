"""A folder with everything that a service needs: weights, keys, trust file, log, configuration."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

from appliance.cli.main import run
from appliance.service.service import Service
from appliance.service.settings import Settings
from appliance.service.start import Start

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION = """\
[model]
file = "model.vqf"
trust = "trust.toml"
floors = "floors"
unseal_key = "unseal.pem"
threads = 2
context_tokens = 256
[attest]
key = "attest.pem"
log = "log"
anchor = "anchor"
issuer = "an appliance"
[auth]
keys = "keys.json"
[log]
file = "access.jsonl"
[server]
listen = "127.0.0.1:0"
"""


def windhover(*words: object) -> str:
    """Run a command that has to succeed, and return what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        exit_code = run([*map(str, words)])
    assert exit_code == 0, err.getvalue()
    return out.getvalue()


class Site:
    """The folder, and the service that its configuration makes."""

    def __init__(self, folder: Path, weights: Path) -> None:
        """Make everything from plain weights; they are signed and sealed."""
        self.folder = folder
        plain = folder / "plain.vqf"
        shutil.copy(weights, plain)
        trust = 'version = 1\n\n[lines.tiny]\nsigners = ["vendor"]\nthreshold = 1\n\n'
        for name, role in (("vendor", "weights"), ("unseal", "unseal"), ("attest", "attest")):
            trust += windhover("keygen", folder / f"{name}.pem", "--role", role, "--no-passphrase")
        self.path("trust.toml").write_text(trust)
        windhover("sign", plain, "--key", self.path("vendor.pem"), "--line", "tiny", "--release", 2)
        windhover(
            "seal", plain, self.path("model.vqf"), "--to", self.path("unseal.pub.pem"), "--force"
        )
        self.new_log()
        self.key = self.new_key()
        self.configure()

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def new_key(self, *scopes: str, shared: bool = False) -> str:
        """Make a key, with the usual scopes unless some are given."""
        words = [word for scope in scopes for word in ("--scope", scope)]
        words += ["--shared"] * shared
        path = self.path("keys.json")
        out = windhover("apikey", "new", path, "--name", "a client", "--json", *words)
        key: str = json.loads(out.splitlines()[-1])["key"]
        return key

    def new_log(self, log: str = "log", anchor: str = "anchor") -> None:
        """Begin a log."""
        windhover(
            "log", "new", self.path(log), "--key", self.path("attest.pem"), "--issuer",
            "an appliance", "--anchor", self.path(anchor),
        )  # fmt: skip

    def configure(self, before: str = "", *, old: str = "", new: str = "") -> Path:
        """Write the configuration, with something before it and something in it replaced."""
        assert old in CONFIGURATION
        path = self.path("appliance.toml")
        path.write_text(before + CONFIGURATION.replace(old, new) if old else before + CONFIGURATION)
        return path

    def start(self) -> Start:
        """Start it in this process, which must not come as far as the lock; return how it ended."""
        service = Service.new(Settings.read(self.path("appliance.toml")))
        start = Start(service, kernels="user-cache")
        start.begin()
        assert start.wait(120)
        start.close()
        service.stop()
        return start
