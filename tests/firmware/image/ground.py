"""A folder that stands for the machine of the image, and the set-up that runs on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.firmware.tools import FIRMWARE

IMAGE = FIRMWARE / "image"
MACHINE_ID = "0123456789abcdef0123456789abcdef"
SETUP = """\
version = 1
format_data = true
issuer = "an appliance"
model = "tiny"
hosts = ["ai.example", "10.0.2.15"]
clients = ["10.0.2.0/24", "fd00::/8"]
time_servers = ["10.0.2.2"]

[network]
interface = "eth0"
addresses = ["10.0.2.15/24"]
gateway = "10.0.2.2"
"""

# Stands for systemd-creds: what it "encrypts" can be read, and is tied to the name as there.
_CREDS = """\
#!/bin/sh
command=$1; shift
for word; do case $word in --name=*) name=${word#--name=} ;; --*) ;; *) break ;; esac; shift; done
case $command in
    encrypt) (echo "$name"; cat "$1") > "$2" ;;
    decrypt) [ "$(head -n 1 "$1")" = "$name" ] && tail -n +2 "$1" ;;
esac
"""
# Stands for `windhover` where only its files matter: what it makes is there, and quickly.
_WINDHOVER = """\
#!/bin/sh
set -e
echo "$*" >> "$(dirname "$0")/calls"
for word; do
    case $last in --anchor) anchor=$word ;; --out) out=$word ;; esac
    last=$word
done
case $1 in
    keygen) [ ! -e "$2" ]; echo "key under $(cat "$6")" > "$2"
        echo public > "${2%.pem}.pub.pem"; echo "[keys.x]" ;;
    log) [ ! -e "$3" ]; mkdir "$3"; echo log > "$3/0"; echo head > "$anchor"
        printf '[logs.NAME]\\nid = "%064d"\\n' 7 ;;
    apikey) echo entry >> "$3"; echo wh-x-secret > "$out" ;;
    inspect) grep -q ^whole "$2" ;;
esac
"""


class Ground:
    """Folders as on the machine after its data disk was mounted, and a medium as a folder."""

    def __init__(self, folder: Path, *, real: bool = False) -> None:
        """Make them; `real` runs the project's own program."""
        self.root = folder / "machine"
        self.programs = folder / "programs"
        self.medium = self.root / "dev/disk/by-label/WH-SETUP"
        self.export = self.medium / "export"
        for name in ("nginx", "nftables", "network", "time", "system"):
            (self.root / "data" / name).mkdir(parents=True)
        for name in ("etc/windhover/credentials", "srv/windhover", "usr/share/windhover", "run"):
            (self.root / name).mkdir(parents=True)
        for name in ("windhover", "windhover-anchor"):
            (self.root / "var/lib" / name).mkdir(parents=True, mode=0o700)
        self.medium.mkdir(parents=True)
        (self.root / "etc/machine-id").write_text(MACHINE_ID + "\n")
        (self.medium / "setup.toml").write_text(SETUP)
        share = self.root / "usr/share/windhover"
        shutil.copy(FIRMWARE / "etc/appliance.toml", share)
        for path in FIRMWARE.glob("nginx/windhover/client-certificates-*.conf"):
            shutil.copy(path, share)
        self.programs.mkdir()
        self.put("systemd-creds", _CREDS)
        if not real:
            self.put("windhover", _WINDHOVER)

    def put(self, name: str, text: str) -> None:
        """Put a program in place of another."""
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, step: str = "machine") -> tuple[int, str]:
        """Run a step; return how it ended and what it said."""
        own = Path(sys.executable).parent
        settings = {
            "WINDHOVER_SETUP_ROOT": str(self.root),
            "WINDHOVER_SETUP_PATH": os.pathsep.join(map(str, (self.programs, own, "/usr/sbin",
                                                              "/sbin", "/usr/bin", "/bin"))),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-I", "-B", str(IMAGE / "setup"), step],
            check=False, capture_output=True, text=True, timeout=120, env=os.environ | settings,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout

    def read(self, name: str) -> str:
        """Return a file of the machine."""
        return (self.root / name).read_text()

    def contents(self) -> dict[str, bytes]:
        """Return every file that the set-up keeps, but what it writes to the medium."""
        kept = ("data", "etc", "srv", "var")
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for name in kept for path in sorted((self.root / name).rglob("*")) if path.is_file()
        }  # fmt: skip
