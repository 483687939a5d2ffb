"""`windhover inspect`: what a VQF file says about itself. Its contents are not read."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, printable, write_json
from appliance.cli.recipients import recipient_lines, recipients_as_json
from appliance.cli.values import show_instant
from engine.vqf import outline
from engine.vqf.format import TAG_BYTES, Form

if TYPE_CHECKING:
    from engine.vqf import Extent, Manifest, Outline, Tensor, VqfFile
    from engine.vqf.signatures import SignedRelease

_POOLINGS: Final = {
    None: "none",
    "mean": "of a text, the mean over its tokens",
    "last": "of a text, its last token",
}


@click.command()
@weights_argument
@click.option("--tensors", "with_tensors", is_flag=True, help="List every tensor, too.")
@unlock_options(key="--key", secret="--passphrase-file")  # noqa: S106  (a name)
@json_option
def command(path: Path, with_tensors: bool, credentials: Credentials, as_json: bool) -> None:
    """Say what the VQF file FILE is; of a sealed one, without keys, what anybody may know.

    Only the manifest is read and checked; `windhover check` verifies every byte and every
    signature.
    """
    found = outline(path)
    if found.preamble.form is Form.SEALED and not credentials.given:
        _show_sealed(path, found, as_json=as_json)
        return
    with credentials.open(path) as file:
        manifest, size_bytes = file.manifest, file.preamble.file_length
        if as_json:
            write_json(
                {
                    "file": str(path),
                    "size_bytes": size_bytes,
                    "model_digest": file.model_digest.hex(),
                    **_form_as_json(file),
                    **_as_json(manifest, with_tensors),
                }
            )
            return
        click.echo(printable(str(path)))
        lines = [
            ("form", _form_text(file)),
            ("model digest", file.model_digest.hex()),
            *(line for signed in file.signatures for line in _signature_lines(signed)),
            *(recipient_lines(file.seal.recipients) if file.seal else ()),
            *_lines(manifest, size_bytes),
        ]
    for label, text in lines:
        click.echo(f"  {label:<13} {printable(text)}")
    if with_tensors:
        for tensor in _tensors(manifest):
            shape = " x ".join(map(str, tensor.shape))
            size = format_bytes(tensor.length_bytes)
            click.echo(f"  {printable(tensor.name):<28} {tensor.kind:<5} {shape:>15} {size:>8}")


def _show_sealed(path: Path, found: Outline, *, as_json: bool) -> None:
    """Print what a sealed file tells without keys: lengths, file id, recipients."""
    preamble, recipients = found
    num_chunks = preamble.tag_table_length // TAG_BYTES
    if as_json:
        write_json(
            {
                "file": str(path),
                "size_bytes": preamble.file_length,
                "form": "sealed",
                "authenticated": False,
                "file_id": preamble.identity.hex(),
                "recipients": recipients_as_json(recipients),
                "manifest_length_bytes": preamble.manifest_length,
                "signatures_length_bytes": preamble.signatures_length,
                "data_length_bytes": preamble.data_length,
                "num_chunks": num_chunks,
            }
        )
        return
    click.echo(printable(str(path)))
    for label, text in [
        ("form", "sealed; nothing of this is authenticated without a key"),
        ("file id", preamble.identity.hex()),
        *recipient_lines(recipients),
        ("size", format_bytes(preamble.file_length)),
        ("data", f"{format_bytes(preamble.data_length)} in {num_chunks} chunks"),
        ("manifest", format_bytes(preamble.manifest_length)),
        ("signatures", format_bytes(preamble.signatures_length)),
    ]:
        click.echo(f"  {label:<13} {text}")


def _form_text(file: VqfFile) -> str:
    """Return the form of a file that is open, for people."""
    if file.form is Form.SEALED:
        return "sealed" if file.signatures else "sealed, not signed"
    return "signed" if file.signatures else "plain, not signed"


def _form_as_json(file: VqfFile) -> dict[str, object]:
    """Return the form of a file that is open, its signatures and its recipients."""
    value: dict[str, object] = {
        "form": file.form.name.lower(),
        "signed": bool(file.signatures),
        "signatures_checked": False,
        "signatures": [_signature_as_json(signed) for signed in file.signatures],
    }
    if file.seal is not None:
        value["file_id"] = file.preamble.identity.hex()
        value["recipients"] = recipients_as_json(file.seal.recipients)
    return value


def _signature_as_json(signed: SignedRelease) -> dict[str, object]:
    value = asdict(signed.release)
    del value["model_digest"]
    return {"key_id": signed.sign1.key_id.hex(), **value}


def _signature_lines(signed: SignedRelease) -> list[tuple[str, str]]:
    release = signed.release
    until = "" if release.expires is None else f" until {show_instant(release.expires)}"
    valid = f"valid from {show_instant(release.not_before)}{until}"
    text = f"not verified: release {release.release} of line {release.line}, {valid}"
    return [("signature", text), ("", f"by key {signed.sign1.key_id.hex()}")]


def _tensors(manifest: Manifest) -> list[Tensor]:
    return [tensor for extent in manifest.extents for tensor in extent.tensors]


def _kinds(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return how many matrices of each kind there are, and their bytes."""
    numbers: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for tensor in _tensors(manifest):
        if len(tensor.shape) > 1:
            numbers[tensor.kind] += 1
            sizes[tensor.kind] += tensor.length_bytes
    return {kind: {"matrices": numbers[kind], "bytes": sizes[kind]} for kind in sorted(numbers)}


def _num_parameters(manifest: Manifest) -> int:
    return sum(prod(tensor.shape) for tensor in _tensors(manifest))


def _lines(manifest: Manifest, size_bytes: int) -> list[tuple[str, str]]:
    config = manifest.config
    heads = f"{config.num_heads} heads over {config.num_kv_heads} for keys and values"
    head = "shared with the embedding" if config.tied_embeddings else "separate"
    kinds = ", ".join(
        f"{amount['matrices']} {kind} ({format_bytes(amount['bytes'])})"
        for kind, amount in _kinds(manifest).items()
    )
    names = {extent.name for extent in manifest.extents}
    text_parts = [name for name in ("tokenizer", "template") if name in names]
    return [
        ("size", format_bytes(size_bytes)),
        ("architecture", f"{config.architecture}, {config.num_layers} layers"),
        ("attention", f"{heads}, {config.head_dim} dimensions each"),
        ("widths", f"hidden {config.hidden_size}, intermediate {config.intermediate_size}"),
        ("vocabulary", f"{config.vocab_size} tokens, head {head}"),
        ("context", f"{config.context_length_tokens} tokens"),
        ("vectors", _POOLINGS[config.pooling]),
        ("parameters", f"{_num_parameters(manifest):,}"),
        ("matrices", kinds),
        ("text", ", ".join(text_parts) or "none"),
        ("contents", "not checked; `windhover check` verifies every byte"),
    ]


def _as_json(manifest: Manifest, with_tensors: bool) -> dict[str, object]:
    return {
        "contents_checked": False,
        "config": asdict(manifest.config),
        "tokenizer": asdict(manifest.tokenizer),
        "num_parameters": _num_parameters(manifest),
        "kinds": _kinds(manifest),
        "extents": [_extent_as_json(extent, with_tensors) for extent in manifest.extents],
    }


def _extent_as_json(extent: Extent, with_tensors: bool) -> dict[str, object]:
    value: dict[str, object] = {
        "name": extent.name,
        "offset_bytes": extent.offset_bytes,
        "length_bytes": extent.length_bytes,
        "num_chunks": extent.num_chunks,
        "root": extent.root.hex(),
    }
    if with_tensors:
        value["tensors"] = [asdict(tensor) for tensor in extent.tensors]
    return value
