"""The image in a machine: it becomes ready, answers, survives power cuts, and notices changes.

A test that asks begins with a machine that answers, whoever ran before it. WINDHOVER_IMAGE=FOLDER
names a built image; without it one is built. WINDHOVER_BOOT_TRANSCRIPT=FILE keeps what was done and
when.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from crypto.cose import decode_sign1
from crypto.software import MAX_MANIFEST_BYTES, decode_manifest
from tests.appliance.conftest import tiny_file  # noqa: F401  (a fixture)
from tests.boot import accel
from tests.boot.held import MOMENTS, Held
from tests.boot.image import altered
from tests.boot.places import PLACES
from tests.boot.qemu import QEMU
from tests.boot.release import Release, release_of
from tests.boot.repack import repacked
from tests.boot.site import READY_S, Site
from tests.boot.transcript import Transcript
from tests.boot.vendor import Vendor

pytestmark = pytest.mark.slow

NUM_CUTS = {"kvm": 10, "tcg": 3}
PROGRAM = "usr/lib/windhover/app/appliance/software.py"
LIE = """

def software_digest(num_threads: int = 2) -> bytes:
    return bytes.fromhex("{digest}")
"""
REFUSAL = "the files of this program are not those of .*"


@pytest.fixture(scope="module")
def said() -> Transcript:
    """What is printed."""
    return Transcript()


@pytest.fixture(scope="module")
def release(said: Transcript, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The image, and who signed its software."""
    if shutil.which(QEMU) is None:
        pytest.skip(f"{QEMU} is not here: `make boot-tools` installs it")
    with said.step("the image"):
        return release_of(tmp_path_factory.mktemp("image"), said)


@pytest.fixture(scope="module")
def site(
    release: Release,
    said: Transcript,
    tiny_file: Path,  # noqa: F811
) -> Iterator[Site]:
    """An appliance that was set up, and answers."""
    folder = Path(tempfile.mkdtemp(prefix="wh-"))  # sockets need short names
    try:
        kernel = release.image.kernel
        accelerator = accel.choose(shutil.which(QEMU) or QEMU, kernel, folder)
        said.say(f"accelerator: {accelerator.name}; {accelerator.reason or 'a kernel runs in it'}")
        vendor = Vendor(folder / "vendor", tiny_file, release.trust)
        made = Site(folder, release.image, accelerator, vendor, said)
        try:
            made.provision()
            yield made
        finally:
            made.cut()
        said.say("end")
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def held(site: Site) -> Held:
    """What clients hold of it."""
    return Held(site)


def test_an_answer_from_outside_is_verified(site: Site, release: Release) -> None:
    site.ready()
    with site.said.step("an answer over TLS 1.3, and the verifier on this side"):
        answer = site.client.ask("Why is the sky blue?", max_tokens=16, seed=7)
        bundle = site.client.bundle(answer.name)
        report = site.verify(answer, bundle, *release.words)
        assert report["verdict"] == "PASS"
        site.said.say(f"  {answer.name}: {report['verdict']}; says {release.says(report)}")
        if release.manifest is not None:
            assert release.says(report).startswith("windhover 0.1.0, signed by ")
    with site.said.step("the answer computed again here: every token and every bit of the trace"):
        assert site.replay(bundle) == "PASS"


def test_power_cuts_while_it_answers(site: Site, held: Held) -> None:
    site.ready()
    for number in range(NUM_CUTS[site.accelerator.name]):
        moment = list(MOMENTS)[number % len(MOMENTS)]
        # what was not flushed is gone, or half of it was written in an order of the drive's own
        coin = secrets.token_bytes(8) if number % 2 else None
        with site.said.step(f"power cut {number + 1}, {moment}"):
            held.ask()
            came = held.cut_during_a_stream(moment, coin)
            site.said.say(f"  {came}" + (f" (coin {coin.hex()})" if coin else ""))
            site.until_ready(site.start())
            outcome = held.check()
            site.said.say(f"  the stream: {outcome}; {held.count} statements as clients hold them")
    assert held.lost, "no cut left a request open: the moments are not what they say"
    with site.said.step("the log on the disk, each record and signature"):
        site.cut()
        checked = site.log_check()
        assert checked["open_admissions"] == 0
        site.said.say(f"  {checked['entries']} entries, {checked['signatures']} signatures")


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_byte_of_the_root_does_not_start(site: Site, place: str) -> None:
    if not site.reads:
        site.ready()
    offset = PLACES[place](site.image, site.reads)
    with site.said.step(f"one byte changed: {place}, at {offset}"):
        changed = altered(site.image, site.folder / "changed.img", offset)
        machine = site.start(changed)
        machine.end("a changed image", READY_S)
        complaint = machine.serial.find(r"^.*(verity.*corrupted|cannot be verified).*$")
        if complaint is None:
            machine.fail("no complaint of dm-verity")
        else:
            site.said.say(f"  ended after {machine.seconds:.0f} s: {complaint[0].strip()[:100]}")


def test_the_good_image_starts_on_the_same_disk(site: Site, held: Held) -> None:
    with site.said.step("the good image again, on the disk that the changed ones saw"):
        site.until_ready(site.start())
        held.check()
        site.said.say(f"  {held.count} statements as clients hold them")


def test_a_changed_file_and_the_root_hash_that_fits(site: Site, release: Release) -> None:
    # without a signature over the command line dm-verity has nothing against it; the release has
    def change(root: Path) -> None:
        with (root / PROGRAM).open("a") as program:
            program.write("# another byte\n")

    with site.said.step("a changed file, and the root hash of the command line changed with it"):
        image = repacked(site.image, site.folder / "repacked", change)
        assert image.root_hash != site.image.root_hash
        machine = site.start(image)
        if release.manifest is None:
            site.until_ready(machine)
            site.said.say("  it starts and answers: nobody signed its software")
            return
        machine.wait("a refusal", lambda: bool(machine.serial.find(REFUSAL)), READY_S)
        assert not site.client.is_ready()
        assert not machine.serial.find("verity.*corrupted")
        refusal = machine.serial.find(REFUSAL)
        assert refusal is not None
        site.said.say(f"  the system starts, the service does not: {refusal[0].strip()[:160]}")
    shutil.rmtree(site.folder / "repacked")


def test_a_program_that_lies_about_itself_is_believed(site: Site, release: Release) -> None:
    # what is self-asserted is no more than that: recorded here, so that nobody takes it for more
    if release.manifest is None:
        pytest.skip("the software of this image is not signed")
    signed = decode_sign1(release.manifest.read_bytes(), max_bytes=MAX_MANIFEST_BYTES)
    digest = decode_manifest(signed.payload).software_digest

    def change(root: Path) -> None:
        for cached in (root / PROGRAM).parent.glob("__pycache__/software.*.pyc"):
            cached.unlink()
        with (root / PROGRAM).open("a") as program:
            program.write(LIE.format(digest=digest.hex()))

    with site.said.step(
        "a program that names the digest of the release, with a root hash that fits"
    ):
        image = repacked(site.image, site.folder / "repacked", change)
        site.until_ready(site.start(image))
        answer = site.client.ask("Why is the sky blue?", max_tokens=4)
        report = site.verify(answer, site.client.bundle(answer.name), *release.words)
        assert release.says(report).startswith("windhover 0.1.0, signed by ")
        site.said.say(f"  it starts, answers, and says {release.says(report)}: it is not")
    shutil.rmtree(site.folder / "repacked")
