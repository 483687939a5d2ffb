"""`windhover check`: every byte of a VQF file, compared with the digests in its manifest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import admit_unsigned, dev_option, json_option, weights_argument
from appliance.cli.output import Progress, format_bytes, printable, write_json
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from engine.vqf import VqfFile


@click.command()
@weights_argument
@dev_option
@json_option
def command(path: Path, dev: bool, as_json: bool) -> None:
    """Verify every byte of the VQF file FILE.

    The file is well formed, and each part of it has the digest that its manifest states. Whether
    the manifest is the one that somebody meant, only a signature can say.
    """
    with open_vqf(path) as file:
        admit_unsigned(path, dev=dev)
        _verify(file)
        digest_hex = file.model_digest.hex()
        num_chunks = sum(extent.num_chunks for extent in file.manifest.extents)
    size_bytes = path.stat().st_size
    if as_json:
        write_json(
            {
                "file": str(path),
                "verified": True,
                "signed": False,
                "model_digest": digest_hex,
                "num_chunks": num_chunks,
                "size_bytes": size_bytes,
            }
        )
        return
    click.echo(f"{printable(str(path))}: all {num_chunks} chunks verified")
    click.echo(f"  model digest  {digest_hex}")
    click.echo(f"  size          {format_bytes(size_bytes)}")


def _verify(file: VqfFile) -> None:
    """Read every extent once, into memory of the largest one.

    Raises:
        WeightsError, WeightsUncheckedError, FormatError: as `VqfFile.read_extent`.
    """
    extents = file.manifest.extents
    memory = memoryview(bytearray(max(extent.size_bytes for extent in extents)))
    total_bytes = sum(extent.size_bytes for extent in extents)
    done_bytes = 0
    with Progress("checking") as progress:
        for extent in extents:
            if extent.tensors:
                file.read_extent(extent.name, memory[: extent.size_bytes])
            else:
                file.read_bytes(extent.name)
            done_bytes += extent.size_bytes
            progress(done_bytes, total_bytes)
