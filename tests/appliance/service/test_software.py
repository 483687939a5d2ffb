"""A service that has a signed manifest is made of its files, or does not start."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from appliance.cli.errors import describe
from appliance.service.release_check import check_software, say_release
from appliance.service.settings import Settings
from appliance.service.start import Start
from appliance.service.start_report import StartReport
from appliance.software_manifest import Accepted
from crypto.errors import PolicyError
from crypto.keys import load_private_key
from crypto.signer import SoftwareSigner
from crypto.software import SoftwareManifest, sign_manifest
from engine.errors import ConfigError
from tests import altered
from tests.appliance.cli.test_serve import DEV, ended
from tests.appliance.service.child import CHECKOUT, environment
from tests.appliance.service.site import CONFIGURATION, Site, windhover

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = SoftwareManifest("windhover", (1, 2, 3), bytes(32), 1, 0, bytes(32), (), ("wh1",), 0)
LINES = '[software]\nmanifest = "software.cose"\n'

# The files of the environment and of the interpreter are the same ones in every start, and many:
# here they are left out on both sides.
FEW = """
from appliance import software
whole = software.tree
software.tree = lambda name, *rest, **more: (
    () if name in ("site", "python/lib") else whole(name, *rest, **more)
)
"""
PROGRAM = f"""
import sys
{FEW}
before = "import sys; sys.path[:] = sys.argv[1:]; "
assert software._PROGRAM.startswith(before)
software._PROGRAM = before + {FEW!r}.replace("; ", "") + software._PROGRAM.removeprefix(before)
from appliance.cli.main import main
sys.argv[0] = "windhover"
main()
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Path:
    """A folder that a service could start from, with a key `software` in its trust file."""
    made = Site(tmp_path_factory.mktemp("site"), tiny_file)
    table = windhover("keygen", made.path("soft.pem"), "--role", "software", "--no-passphrase")
    with made.path("trust.toml").open("a") as trust:
        trust.write(table)
    made.configure(old="[attest]", new=f"{LINES}[attest]")
    return made.folder


@pytest.fixture
def site(tmp_path: Path, template: Path) -> Site:
    """A copy of it for each test."""
    shutil.copytree(template, tmp_path / "site")
    made = Site.__new__(Site)
    made.folder = tmp_path / "site"
    return made


def signed(site: Site, name: str = "soft", role: str = "software") -> bytes:
    key = load_private_key(site.path(f"{name}.pem"), passphrase=None, role=role)
    return sign_manifest(MANIFEST, SoftwareSigner(key))


def unsigned(site: Site) -> bytes:
    return altered.last_byte(signed(site))


def by_the_vendor_of_weights(site: Site) -> bytes:
    return signed(site, "vendor", "weights")


def by_nobody_known(site: Site) -> bytes:
    windhover("keygen", site.path("other.pem"), "--role", "software", "--no-passphrase")
    return signed(site, "other")


def with_a_byte_more(site: Site) -> bytes:
    return signed(site) + b"\0"


def too_long(site: Site) -> bytes:
    return signed(site).ljust(5000, b"\0")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (unsigned, "software-bad-signature"),
        (by_the_vendor_of_weights, "software-unknown-signer"),
        (by_nobody_known, "software-unknown-signer"),
        (with_a_byte_more, "FormatError"),
        (too_long, "FormatError"),
    ],
)
@pytest.mark.parametrize("mode", ["", DEV])
def test_a_manifest_that_does_not_count_ends_the_start(
    site: Site, make: Any, code: str, mode: str
) -> None:
    site.path("software.cose").write_bytes(make(site))
    site.configure(mode, old="[attest]", new=f"{LINES}[attest]")
    start = site.start()
    assert start.failure is not None
    failure = describe(start.failure)
    assert failure.exit_code == 1
    assert "software.cose" in failure.message
    (reason,) = start.service.state.reasons
    assert (start.service.state.phase, reason.code) == ("failed", code)
    assert [step.name for step in start.report.steps] == ["self-tests", "log-check"]


def test_a_manifest_that_is_not_there_ends_the_start(site: Site) -> None:
    start = site.start()
    assert start.failure is not None
    assert describe(start.failure).exit_code == 2
    assert not start.service.state.is_ready


def test_other_files_end_the_start_before_anything_is_promised(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.path("software.cose").write_bytes(signed(site))
    other = bytes(31) + b"\1"
    monkeypatch.setattr("appliance.service.start.begin_software_digest", lambda: lambda: other)
    monkeypatch.setattr(Start, "_lock", lambda *_, **__: None)  # of this process: not undone
    before = [path.read_bytes() for path in sorted(site.path("log").iterdir())]
    start = site.start()
    assert isinstance(start.failure, PolicyError)
    assert describe(start.failure).exit_code == 1
    (reason,) = start.service.state.reasons
    assert (start.service.state.phase, reason.code) == ("failed", "software-differs")
    assert start.report.steps[-1].name == "lock"
    assert start.service.attestor is None
    assert [path.read_bytes() for path in sorted(site.path("log").iterdir())] == before


def test_other_files_are_let_pass_in_mode_dev_alone() -> None:
    accepted = Accepted(MANIFEST, "soft")
    same = check_software(accepted, bytes(32), is_dev=False)
    assert (same.is_same, say_release(same)) == (
        True,
        "the files of windhover 1.2.3, signed by soft",
    )
    with pytest.raises(PolicyError) as caught:
        check_software(accepted, bytes(31) + b"\1", is_dev=False)
    assert caught.value.reason == "software-differs"
    other = check_software(accepted, bytes(31) + b"\1", is_dev=True)
    assert (other.is_same, say_release(other).partition(" of ")[0]) == (False, "not the files")
    shown = StartReport(release=other).as_json()["software"]
    assert shown == {"release": "windhover 1.2.3", "signed_by": "soft", "same": False}


def test_a_manifest_needs_a_trust_file() -> None:
    text = DEV + CONFIGURATION.replace('trust = "trust.toml"\nfloors = "floors"\n', "") + LINES
    with pytest.raises(ConfigError, match=r"software\.manifest: needs model\.trust"):
        Settings.parse((text + "[dev]\nallow_unsigned = true\n").encode())
    assert Settings.parse((CONFIGURATION + LINES).encode()).software.manifest is not None
    assert Settings.parse(CONFIGURATION.encode()).software.manifest is None


class Installed:
    """A copy of the application that a service runs from, beside kernels of the checkout."""

    def __init__(self, folder: Path, site: Site) -> None:
        """Copy it; packages with kernels stay where these were made for."""
        self.folder, self.site = folder, site
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / "appliance", folder / "appliance", ignore=ignored)

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Run a command from it."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.folder,
            env=environment(PYTHONPATH=f"{self.folder}:{CHECKOUT}", PYTHONDONTWRITEBYTECODE="1"),
        )  # fmt: skip

    def run(self, *words: object) -> tuple[int, str, str]:
        """Run a command to its end; return exit code, stdout and stderr."""
        return ended(self.start(*words))

    def serve(self) -> tuple[dict[str, Any], tuple[int, str, str]]:
        """Start the service; return the object that it says first, and how it ended."""
        config = self.site.path("appliance.toml")
        process = self.start("serve", "--config", config, "--json")
        assert process.stdout is not None
        value = json.loads(process.stdout.readline() or "{}")
        if "ready" in value:
            process.send_signal(signal.SIGTERM)
        return value, ended(process)


# no `ci`: it starts three processes that compute for ten seconds each
@pytest.mark.slow
def test_a_changed_file_keeps_the_service_from_starting(
    site: Site, tmp_path: Path, prepared_kernels: Path
) -> None:
    app = Installed(tmp_path / "app", site)
    listed, config = site.path("software.list"), site.path("appliance.toml")
    code, out, err = app.run(
        "software", "list", "--kernels", prepared_kernels, "--out", listed, "--json"
    )
    assert code == 0, err
    digest = json.loads(out)["software_digest"]
    assert "app/appliance/cli/software.py" in listed.read_text()
    windhover("software", "sign", listed, site.path("software.cose"),
              "--key", site.path("soft.pem"), "--version", "1.0.0")  # fmt: skip
    more = f'kernel_cache = "{prepared_kernels}"\n{LINES}[attest]'
    site.configure(old="[attest]", new=more)

    ready, (code, _, err) = app.serve()
    assert ready.get("software") == {"release": "windhover 1.0.0", "signed_by": "soft",
                                     "same": True}, err  # fmt: skip
    assert ready["write_xor_execute"] == "locked"
    assert code == 0
    code, out, err = app.run("serve", "--config", config, "--check")
    assert (code, "the files of windhover 1.0.0, signed by soft" in out) == (0, True), err

    changed = app.folder / "appliance" / "bench" / "table.py"
    changed.write_text(changed.read_text() + "# changed\n")
    failed, (code, _, err) = app.serve()
    assert (failed.get("reason"), failed.get("kind"), code) == (
        "software-differs",
        "PolicyError",
        1,
    )
    assert "ready" not in failed
    assert "the files of this program are not those of windhover 1.0.0" in err
    assert f"not {digest}" in err
    code, _, err = app.run("serve", "--config", config, "--check")
    assert (code, "are not those of windhover 1.0.0" in err) == (1, True)
    code, out, _ = app.run(
        "software", "check", listed, "--manifest", site.path("software.cose"),
        "--trust", site.path("trust.toml"), "--kernels", prepared_kernels,
    )  # fmt: skip
    assert (code, out.split()) == (1, ["changed", "app/appliance/bench/table.py"])

    site.configure(DEV, old="[attest]", new=more)
    ready, (code, _, err) = app.serve()
    assert ready.get("software", {}).get("same") is False, err
    assert code == 0
