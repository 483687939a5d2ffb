"""`windhover inspect`: what a VQF file says about itself. Its contents are not read."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, printable, write_json
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from engine.vqf import Extent, Manifest, Tensor


@click.command()
@weights_argument
@click.option("--tensors", "with_tensors", is_flag=True, help="List every tensor, too.")
@json_option
def command(path: Path, with_tensors: bool, as_json: bool) -> None:
    """Say what the VQF file FILE is, without keys.

    Only the manifest is read and checked; `windhover check` verifies every byte.
    """
    with open_vqf(path) as file:
        manifest, digest_hex = file.manifest, file.model_digest.hex()
    size_bytes = path.stat().st_size
    if as_json:
        value = {"file": str(path), "size_bytes": size_bytes, "model_digest": digest_hex}
        write_json({**value, **_as_json(manifest, with_tensors)})
        return
    click.echo(printable(str(path)))
    for label, text in _lines(manifest, digest_hex, size_bytes):
        click.echo(f"  {label:<13} {printable(text)}")
    if with_tensors:
        for tensor in _tensors(manifest):
            shape = " x ".join(map(str, tensor.shape))
            size = format_bytes(tensor.length_bytes)
            click.echo(f"  {printable(tensor.name):<28} {tensor.kind:<5} {shape:>15} {size:>8}")


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


def _lines(manifest: Manifest, digest_hex: str, size_bytes: int) -> list[tuple[str, str]]:
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
        ("form", "plain, not signed"),
        ("model digest", digest_hex),
        ("size", format_bytes(size_bytes)),
        ("architecture", f"{config.architecture}, {config.num_layers} layers"),
        ("attention", f"{heads}, {config.head_dim} dimensions each"),
        ("widths", f"hidden {config.hidden_size}, intermediate {config.intermediate_size}"),
        ("vocabulary", f"{config.vocab_size} tokens, head {head}"),
        ("context", f"{config.context_length_tokens} tokens"),
        ("parameters", f"{_num_parameters(manifest):,}"),
        ("matrices", kinds),
        ("text", ", ".join(text_parts) or "none"),
        ("contents", "not checked; `windhover check` verifies every byte"),
    ]


def _as_json(manifest: Manifest, with_tensors: bool) -> dict[str, object]:
    return {
        "form": "plain",
        "signed": False,
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
