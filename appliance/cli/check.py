"""`windhover check`: every byte of a VQF file, and whether the policy lets anybody use it."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.cli.access import Access, access_options, judging
from appliance.cli.bulk import usable_cores
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, format_bytes, printable, write_json
from appliance.cli.values import now_s
from appliance.cli.verdict import verdict_as_json, verdict_lines
from engine.admission import admit
from engine.vqf.verify import verify_all


@click.command()
@weights_argument
@access_options
@json_option
def command(path: Path, access: Access, as_json: bool) -> None:
    """Verify every byte of the VQF file FILE, and judge it by the trust file.

    The policy is asked first: signatures, dates, line, release, revocations. Then every chunk is
    compared with its tag and with the digests that were signed. Nothing is changed: floors rise
    when weights are loaded, not when they are checked.
    """
    now = now_s()
    with access.credentials.open(path) as file:
        policy = access.policy_files.read(now=now)
        with judging(path, policy):
            admission = admit(file, policy, now=now)
        with Progress("checking") as progress:
            verify_all(file, num_threads=usable_cores(), progress=progress)
        digest_hex = file.model_digest.hex()
        num_chunks = sum(extent.num_chunks for extent in file.manifest.extents)
        size_bytes, form = file.preamble.file_length, file.form.name.lower()
    if as_json:
        write_json(
            {
                "file": str(path),
                "verified": True,
                "form": form,
                "model_digest": digest_hex,
                "num_chunks": num_chunks,
                "size_bytes": size_bytes,
                "verdict": verdict_as_json(admission, policy),
            }
        )
        return
    click.echo(f"{printable(str(path))}: all {num_chunks} chunks verified")
    click.echo(f"  form          {form}")
    click.echo(f"  model digest  {digest_hex}")
    click.echo(f"  size          {format_bytes(size_bytes)}")
    for label, text in verdict_lines(admission, policy):
        click.echo(f"  {label:<13} {printable(text)}")
