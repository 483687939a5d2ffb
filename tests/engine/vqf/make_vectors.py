"""Makes tests/data/vqf/tiny.vqf and digests.json, and prints the example of FORMAT.md.

Run as `python -m tests.engine.vqf.make_vectors` after a change of the format, which is a new
version.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crypto import cbor
from crypto.sm3 import sm3
from engine.vqf import open_vqf, write_vqf
from engine.vqf.kinds import KINDS
from engine.vqf.panels import pack
from tests.engine.vqf import tiny

DATA = Path(__file__).parents[2] / "data" / "vqf"
LAYOUT_ROWS, LAYOUT_BLOCKS = 20, 2


def layout_digest(kind: str) -> str:
    """Return the digest of a packed matrix of 20 rows and two blocks of columns."""
    columns = LAYOUT_BLOCKS * max(KINDS[kind].block_inputs, 16)
    fields = tiny.fields_of(kind, kind, LAYOUT_ROWS, columns)
    return sm3(pack(kind, fields, LAYOUT_ROWS, columns)).hex()


def digests(path: Path) -> dict[str, Any]:
    """Return what digests.json pins for the example file."""
    with open_vqf(path) as file:
        return {
            "source": "made by tests/engine/vqf/make_vectors.py; the fields come from SHAKE128 of "
            "their names as tests/engine/vqf/tiny.py does it",
            "file_sm3": sm3(path.read_bytes()).hex(),
            "model_digest": file.model_digest.hex(),
            "roots": {extent.name: extent.root.hex() for extent in file.manifest.extents},
            "layouts": {kind: layout_digest(kind) for kind in KINDS},
        }


def example(path: Path) -> str:
    """Return section 1 of FORMAT.md from the preamble on."""
    data = path.read_bytes()
    lines = ["```text"]
    lines += [f"{at:04x}  {data[at : at + 16].hex(' ')}" for at in range(0, 128, 16)]
    length = int.from_bytes(data[32:40], "little")
    manifest = cbor.decode(data[128 : 128 + length])
    lines += ["```", "", "The manifest, 128 bytes into the file, in CBOR diagnostic notation:", ""]
    lines += [manifest_text(manifest), "", "The extents:", ""]
    with open_vqf(path) as file:
        lines += ["| extent | first byte in the file | content | with filling |"]
        lines += ["| --- | --- | --- | --- |"]
        data_offset = int.from_bytes(data[48:56], "little")
        lines += [
            f"| {e.name} | {data_offset + e.offset_bytes} | {e.length_bytes} | {e.size_bytes} |"
            for e in file.manifest.extents
        ]
        lines += ["", f"    model_digest = {file.model_digest.hex()}"]
    return "\n".join(lines)


def manifest_text(manifest: Any) -> str:
    """Return the manifest in diagnostic notation, one entry or tensor a line."""
    config, extents, tokenizer = (manifest[key] for key in ("config", "extents", "tokenizer"))
    lines = ["```text", '{"config": {']
    lines += [f'   "{key}": {diagnostic(value)},' for key, value in config.items()]
    lines[-1] = lines[-1][:-1] + "},"
    lines.append(' "extents": [')
    for extent in extents:
        entries = [f'"{key}": {diagnostic(extent[key])}' for key in extent if key != "tensors"]
        lines.append("   {" + ", ".join(entries[:1]) + ",")
        lines += [f"    {entry}," for entry in entries[1:]]
        if "tensors" in extent:
            lines.append('    "tensors": [')
            lines += [f"      {diagnostic(tensor)}," for tensor in extent["tensors"]]
            lines[-1] = lines[-1][:-1] + "],"
        lines[-1] = lines[-1][:-1] + "},"
    lines[-1] = lines[-1][:-1] + "],"
    lines.append(f' "tokenizer": {diagnostic(tokenizer)}' + "}")
    return "\n".join([*lines, "```"])


def diagnostic(value: Any) -> str:
    """Return a value in CBOR diagnostic notation (RFC 8949 section 8)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"h'{value.hex()}'"
    if isinstance(value, list):
        return "[" + ", ".join(map(diagnostic, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {diagnostic(item)}' for key, item in value.items()) + "}"
    return json.dumps(value)


def main() -> None:
    """Write the files and print the example."""
    path = DATA / "tiny.vqf"
    write_vqf(path, tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, tiny.source, force=True)
    (DATA / "digests.json").write_text(json.dumps(digests(path), indent=2) + "\n")
    print(example(path))


if __name__ == "__main__":
    main()
