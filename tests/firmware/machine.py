"""A copy of this machine that systemd boots in namespaces, with the files of firmware/ in it."""

from __future__ import annotations

import base64
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.appliance.cli.workshop import PROGRAM
from tests.appliance.service.site import windhover
from tests.firmware.front import HOST, Authority
from tests.firmware.tools import FIRMWARE, text_of, tool

CHECKOUT = FIRMWARE.parent
BOOT = Path(__file__).with_name("boot.sh")
CANNOT = 77
"""How boot.sh ends where the kernel gives it no namespaces or no overlay."""

_LIBRARIES = f"/usr/lib/windhover/app/.venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}"
_ENVIRONMENT = f"""\
export LD_LIBRARY_PATH=/usr/lib/windhover/python/lib PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=/usr/lib/windhover/app:{_LIBRARIES}/site-packages
python=/usr/lib/windhover/python/bin/python3
"""
_WINDHOVER = f"""\
#!/bin/sh
. /usr/lib/windhover/environment
exec $python -c "{PROGRAM}" "$@"
"""
_FIRST = """\
set -eu
as_service="setpriv --reuid windhover --regid windhover-socket --init-groups"
for name in unseal attest; do
  systemd-creds encrypt --with-key=host --name=$name /etc/windhover/pass \
    /etc/windhover/credentials/$name.cred
done
chown windhover /etc/windhover/pass
$as_service windhover log new /var/lib/windhover/log --key /etc/windhover/attest.pem \
  --key-passphrase-file /etc/windhover/pass --issuer 'an appliance' \
  --anchor /var/lib/windhover-anchor/anchor > /run/log.txt
$as_service windhover apikey new /var/lib/windhover/api-keys.json --name x \
  --scope generate --scope status --json > /run/key.new
mv /run/key.new /run/key.json
(cat /etc/windhover/trust.toml; tail -n 2 /run/log.txt | sed s/NAME/demo/) \
  > /etc/windhover/verifier.toml
shred -u /etc/windhover/pass
. /usr/lib/windhover/environment
$python -m compileall -q /usr/lib/windhover/app/[a-z]*
windhover compile-cache /usr/lib/windhover/kernels
"""
_PLACES = {
    "systemd/windhover.service": "usr/lib/systemd/system/windhover.service",
    "systemd/windhover-check.service": "usr/lib/systemd/system/windhover-check.service",
    "systemd/windhover-check.timer": "usr/lib/systemd/system/windhover-check.timer",
    "etc/sysusers.conf": "usr/lib/sysusers.d/windhover.conf",
    "etc/tmpfiles.conf": "usr/lib/tmpfiles.d/windhover.conf",
    "etc/logrotate.conf": "etc/logrotate.d/windhover",
    "systemd/nginx.conf": "etc/systemd/system/nginx.service.d/windhover.conf",
    "nginx/nginx.conf": "etc/nginx/nginx.conf",
    "nginx/windhover/errors.conf": "etc/nginx/windhover/errors.conf",
    "nginx/windhover/client-certificates-none.conf": "etc/nginx/windhover/client-certificates.conf",
}


class NotReadyError(Exception):
    """The service of a machine has failed; the message tells what happened."""


class Machine:
    """The machine while it runs.

    run: its /run, seen from outside.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        """Keep where it is, and what holds its namespaces."""
        self.run = folder / "run"
        self._log = folder / "boot.log"
        self._process = process

    @property
    def key(self) -> str:
        """A key for its service."""
        key: str = json.loads((self.run / "key.json").read_text().splitlines()[-1])["key"]
        return key

    def enter(self, *words: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        """Run a program inside, whatever it says."""
        own = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        (child,) = own.read_text().split()
        inside = ["nsenter", "-t", child, "-m", "-p", "-C", "-n", "-u", "-i", "-r", "-w"]
        return subprocess.run(
            [*inside, *words], check=False, capture_output=True, text=True, timeout=timeout_s
        )

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.enter("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Ask the service on its socket; return the status and the object."""
        data = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {HOST}",
            f"Authorization: Bearer {self.key}", "Connection: close",
        ]  # fmt: skip
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(self.run / "windhover/http.sock"))
            connection.sendall("\r\n".join([*head, "", ""]).encode() + data)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        head_bytes, _, content = answer.partition(b"\r\n\r\n")
        return int(head_bytes.split()[1]), json.loads(content)

    def runs_in(self, unit: str, program: str) -> str:
        """Let a unit run a Python program in place of its own; return what it printed."""
        folder = self.run / f"systemd/system/{unit}.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        script = self.run / "program"
        script.write_text(
            f"#!/bin/sh\n. /usr/lib/windhover/environment\nexec $python -c '{program}'\n"
        )
        script.chmod(0o755)
        (folder / "test.conf").write_text("[Service]\nExecStart=\nExecStart=/run/program\n")
        self.enter("systemctl", "daemon-reload")
        started = self.enter("systemctl", "start", unit)
        said = self.enter("journalctl", "--no-pager", "-o", "cat", "-n", "6", "-u", unit).stdout
        assert started.returncode == 0, said
        return said

    def wait(self) -> None:
        """Wait until the service is ready.

        Raises:
            NotReadyError: it has failed.
        """
        for _ in range(600):
            if self._process.poll() == CANNOT:
                pytest.skip(f"no machine can be made here: {self._log.read_text()[-300:]}")
            if self._process.poll() is not None:
                pytest.fail(self._log.read_text()[-2000:])
            try:
                if self.ask("/ready")[0] == 200:
                    return
            except OSError:
                if (self.run / "systemd").exists() and self.show("windhover", "NRestarts") not in {
                    "", "0",
                }:  # fmt: skip
                    break
            time.sleep(0.5)
        raise NotReadyError(self._story())

    def _story(self) -> str:
        """Return what happened, for whoever has nothing else of a machine that is gone."""
        journal = self.enter("journalctl", "--no-pager", "-u", "windhover").stdout
        kernels = self.enter("find", "/usr/lib/windhover/kernels", "-ls").stdout
        return f"{self._log.read_text()[-2000:]}\n{journal[-4000:]}\n{kernels[:4000]}"


@contextmanager
def booted(weights: Path, folder: Path) -> Iterator[Machine]:
    """Boot a machine that serves weights, signed and sealed; `folder` has a short name."""
    for name in ("upper", "root", "run", "files"):
        (folder / name).mkdir()
    _write_files(folder, weights)
    words = ["--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--net", "--uts", "--ipc",
             "--propagation", "private"]  # fmt: skip
    goal = [str(folder), str(CHECKOUT), sys.base_prefix, "windhover.service"]
    with (folder / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            [tool("unshare"), *words, "sh", str(BOOT), *goal], stdout=log, stderr=log
        )
    try:
        yield Machine(folder, process)
    finally:
        process.kill()
        process.wait(30)


def _write_files(folder: Path, weights: Path) -> None:
    """Write what is laid over the root."""
    files = folder / "files"
    for name, place in _PLACES.items():
        path = files / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIRMWARE / name, path)
    certificate, key = Authority(folder, "authority").issue(HOST)
    shutil.copy(certificate, files / "etc/nginx/windhover/server.crt")
    shutil.copy(key, files / "etc/nginx/windhover/server.key")
    etc, srv = files / "etc/windhover", files / "srv/windhover"
    (etc / "credentials").mkdir(parents=True)
    srv.mkdir(parents=True)
    secret = etc / "pass"
    secret.write_bytes(base64.b64encode(os.urandom(24)) + b"\n")
    secret.chmod(0o600)
    trust = 'version = 1\n\n[lines.tiny]\nsigners = ["vendor"]\nthreshold = 1\n\n'
    vendor, plain = folder / "vendor.pem", folder / "plain.vqf"
    trust += windhover("keygen", vendor, "--role", "weights", "--no-passphrase")
    for role in ("unseal", "attest"):
        key = etc / f"{role}.pem"
        trust += windhover("keygen", key, "--role", role, "--passphrase-file", secret)
    (etc / "trust.toml").write_text(trust)
    shutil.copy(weights, plain)
    windhover("sign", plain, "--key", vendor, "--line", "tiny", "--release", 1)
    windhover("seal", plain, srv / "model.vqf", "--to", etc / "unseal.pub.pem")
    text = text_of("etc/appliance.toml")
    for old, new in (("MODEL", "model"), ("AI.EXAMPLE", HOST), ("ISSUER", "an appliance")):
        text = text.replace(f'"{old}"', f'"{new}"')
    (etc / "appliance.toml").write_text(text)
    for name, text, mode in (
        ("usr/bin/windhover", _WINDHOVER, 0o755),
        ("usr/lib/windhover/environment", _ENVIRONMENT, 0o644),
        ("usr/lib/windhover/first.sh", _FIRST, 0o644),
    ):
        path = files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)


def can_boot() -> str | None:
    """Return why no machine can be made here, or None."""
    if os.geteuid() != 0:
        return "only root makes namespaces and mounts"
    if platform.system() != "Linux" or not Path("/lib/systemd/systemd").exists():
        return "systemd is not here; `make tools` installs it"
    return None
