"""The files of the image, read by the programs that they are for; lists say what they have to."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.firmware.image.ground import IMAGE
from tests.firmware.tools import FIRMWARE, run
from tests.firmware.units import settings

ROOTFS = IMAGE / "rootfs"
UNITS = ROOTFS / "usr/lib/systemd/system"
DROP_INS = ROOTFS / "etc/systemd/system"
README = (FIRMWARE / "README.md").read_text(encoding="utf-8")


def names(name: str) -> list[str]:
    """Return the lines of a list."""
    lines = (IMAGE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    "path", [IMAGE / "build", *sorted((IMAGE / "parts").glob("*.sh")), IMAGE / "initrd/init"],
    ids=lambda path: path.name,
)  # fmt: skip
def test_a_shell_reads_it(path: Path) -> None:
    shell = "bash" if path.parent != IMAGE / "initrd" else "sh"
    done = subprocess.run(
        [f"/bin/{shell}", "-n", path], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    for words in ([], ["--wrong"], ["a", "b"], [tmp_path, "--arch", "sparc"]):
        done = subprocess.run(
            [IMAGE / "build", *words], check=False, capture_output=True, text=True
        )
        assert done.returncode == 2, words
        assert done.stderr.startswith("build: "), words


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    folder = tmp_path / "units"
    folder.mkdir()
    for path in (*UNITS.iterdir(), DROP_INS / "emergency.service"):
        text = path.read_text()
        # the programs are in the image, and not here
        text = re.sub(r"^(Exec\w+=-?)/usr/lib/windhover/\S+", r"\1/bin/true", text, flags=re.M)
        (folder / path.name).write_text(text)
    wanted = sorted(str(path) for path in folder.iterdir())
    result = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *wanted)
    ours = [
        line for line in result.stderr.splitlines() if str(folder) in line or "windhover" in line
    ]
    assert ours == []
    broken = folder / "windhover-setup.service"
    broken.write_text(broken.read_text().replace("Type=oneshot", "Type=twice"))
    result = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(broken))
    assert "service type" in result.stderr


def test_nothing_starts_before_the_set_up() -> None:
    setup = settings((UNITS / "windhover-setup.service").read_text())
    for unit in ("windhover", "windhover-check", "nginx"):
        drop_in = settings((DROP_INS / f"{unit}.service.d/image.conf").read_text())
        assert drop_in["Requires"] == drop_in["After"] == "windhover-setup.service"
        assert f"{unit}.service" in setup["Before"].split()
    # no network without the filter, and no filter before it is known who is let in
    network = settings((DROP_INS / "systemd-networkd.service.d/image.conf").read_text())
    assert network["Requires"] == "nftables.service"
    assert "nftables.service" in network["After"].split()
    nftables = settings((DROP_INS / "nftables.service.d/image.conf").read_text())
    assert nftables == {"After": "windhover-setup.service"}


def test_nothing_on_the_data_disk_is_executed_and_all_of_it_is_found() -> None:
    lines = [line.split() for line in names("rootfs/etc/fstab")]
    (data,) = [line for line in lines if line[0] == "LABEL=windhover-data"]
    assert data[1:3] == ["/data", "ext4"]
    assert {"nosuid", "nodev", "noexec", "errors=remount-ro"} <= set(data[3].split(","))
    assert "x-systemd.requires=windhover-disk.service" in data[3]
    made = (IMAGE / "parts/system.sh").read_text()
    bound = {line[1]: line[0] for line in lines if line[3] == "bind"}
    for source in bound.values():
        assert re.search(rf"[{{,/]{source.removeprefix('/data/')}[}},/]", made), source
    required = settings((FIRMWARE / "systemd/windhover.service").read_text())["RequiresMountsFor"]
    assert set(required.split()) <= set(bound)
    assert {"/etc/windhover", "/var/cache/windhover", "/var/log", "/var/lib/systemd"} <= set(bound)
    for line in lines:
        if line[2] == "tmpfs":
            assert {"nosuid", "nodev", "noexec"} <= set(line[3].split(",")), line
    assert len(lines) == 1 + len(bound) + 3


def test_nobody_logs_in() -> None:
    masked = set(names("masked"))
    assert {
        "getty@.service", "serial-getty@.service", "console-getty.service", "autovt@.service",
        "getty.target", "rescue.service", "rescue.target", "debug-shell.service",
        "systemd-logind.service", "user@.service", "ctrl-alt-del.target",
        "systemd-firstboot.service", "systemd-sysext.service",
        "systemd-ask-password-console.service", "kexec.target",
    } <= masked  # fmt: skip
    assert not masked & set(names("enabled"))
    packages = set(names("packages"))
    assert not packages & {"openssh-server", "dropbear", "login", "sudo", "bash", "apt"}
    assert {"login", "passwd", "bash", "dpkg", "perl-base"} <= set(names("packages.dropped"))
    system = (IMAGE / "parts/system.sh").read_text()
    for generator in ("debug", "getty", "run", "gpt-auto"):
        assert f"systemd-{generator}-generator" in system
    emergency = settings((DROP_INS / "emergency.service").read_text())
    assert "sulogin" not in emergency["ExecStart"]
    assert emergency["ExecStart"].endswith("/bin/systemctl --force reboot")
    assert "StandardInput" not in emergency


def test_the_kernel_is_told_to_stop_where_it_cannot_verify() -> None:
    words = set(names("cmdline"))
    assert {"ro", "apparmor=1", "security=apparmor", "panic=10"} <= words
    init = (IMAGE / "initrd/init").read_text()
    assert "--panic-on-corruption" in init
    # whatever fails ends it: no shell is started, and nothing is read from a console
    code = "\n".join(line for line in init.splitlines() if not line.startswith("#"))
    assert not re.search(r"\b(ash|sulogin|getty|login|rescue)\b|\bsh\b(?! *$)", code)
    assert "exit 1" in code
    assert set(names("modules")) >= {"virtio_blk", "dm_verity", "squashfs", "sha256_ssse3"}


def test_the_lock_has_what_is_asked_for() -> None:
    locked = [line.split() for line in names("packages.lock")]
    assert all(len(line) == 3 and line[2] in {"root", "boot"} for line in locked)
    for where, name in (("root", "packages"), ("boot", "packages.boot")):
        have = {line[0] for line in locked if line[2] == where}
        missing = set(names(name)) - have
        assert missing == set(), name
    have = {line[0] for line in locked if line[2] == "root"}
    assert set(names("packages.dropped")) - have == set()


def test_only_what_runs_is_taken_of_the_lock() -> None:
    checkout = FIRMWARE.parent
    done = subprocess.run(
        [sys.executable, "-B", IMAGE / "runtime.py", checkout / "pyproject.toml",
         checkout / "requirements.lock"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = re.findall(r"^([a-z0-9-]+)==", done.stdout, re.MULTILINE)
    assert {"cryptography", "cffi", "flask", "numba", "llvmlite", "waitress"} <= set(found)
    assert not {"pytest", "ruff", "mypy", "matplotlib", "tenseal", "huggingface-hub", "httpx",
                "requests", "pip", "setuptools", "colorama"} & set(found)  # fmt: skip
    assert done.stdout.count("--hash=sha256:") > len(found)


def test_the_readme_names_every_file() -> None:
    section = README[README.index("\n## Image") :]
    for path in sorted(IMAGE.iterdir()):
        if path.name != "__pycache__":
            assert f"`image/{path.name}{'/' if path.is_dir() else ''}`" in section, path.name
    for field in re.findall(r'"(\w+)", (?:int|bool|_|CERT|KEYS|dict)',
                            (IMAGE / "setup/wishes.py").read_text()):  # fmt: skip
        assert f"`{field}`" in section, field
