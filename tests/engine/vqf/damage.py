"""Applies the damages of tests/data/vqf/malformed.json to the example file.

Edits come in four stages, whatever their order: of the data, of the manifest's values, of its
encoding, and of the finished file. Between them everything that is not damaged is made right again:
roots, lengths, offsets, identity.

    data, at, hex                   overwrite bytes of an extent; its root follows
    extra_data                      so many zeros behind the last extent
    set, to                         a value of the manifest, {"hex": ..} for byte strings
    remove                          an entry or element
    copy, before                    an element once more, before another
    copy, to                        a value once more, as an entry
    move, before                    an element elsewhere
    replace, with                   bytes of the encoding that occur once
    manifest_at, remove_bytes, insert_hex
    manifest_append, manifest_truncate
    preamble, to                    a field
    poke, hex                       bytes of the file
    truncate, append, append_zeros  its length
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from crypto import cbor, merkle
from engine.vqf.format import CHUNK_BYTES
from engine.vqf.manifest import model_digest
from engine.vqf.preamble import parse_preamble, plain_preamble

FIELDS = {
    "version": (8, 4),
    "form": (12, 4),
    "suite": (16, 4),
    "file_length": (24, 8),
    "manifest_length": (32, 8),
    "tag_table_length": (40, 8),
    "data_offset": (48, 8),
    "data_length": (56, 8),
    "signatures_length": (64, 8),
}


def damaged(base: bytes, edits: list[dict[str, Any]]) -> bytes:
    """Return the file with the edits of one vector."""
    preamble = parse_preamble(base[:128], len(base))
    data = bytearray(base[preamble.data_offset :])
    manifest = cbor.decode(base[128 : 128 + preamble.manifest_length])
    for edit in edits:
        if "data" in edit:
            edit_data(manifest, data, edit)
        data += bytes(edit.get("extra_data", 0))
    for edit in edits:
        manifest = edit_manifest(manifest, edit)
    encoded = cbor.encode(manifest, max_depth=16)
    for edit in edits:
        encoded = edit_encoding(encoded, edit)
    out = bytearray(assembled(encoded, bytes(data)))
    for edit in edits:
        edit_file(out, edit)
    return bytes(out)


def assembled(encoded_manifest: bytes, data: bytes) -> bytes:
    """Return a file whose preamble fits its manifest and data."""
    digest = model_digest(encoded_manifest)
    preamble = plain_preamble(len(encoded_manifest), len(data), digest)
    head = preamble.encode() + encoded_manifest
    return head.ljust(preamble.data_offset, b"\0") + data


def edit_data(manifest: Any, data: bytearray, edit: dict[str, Any]) -> None:
    (extent,) = [extent for extent in manifest["extents"] if extent["name"] == edit["data"]]
    start = extent["offset"]
    end = start - (-extent["length"] // 4096 * 4096)
    patch = bytes.fromhex(edit["hex"])
    data[start + edit["at"] : start + edit["at"] + len(patch)] = patch
    chunks = [data[at : min(at + CHUNK_BYTES, end)] for at in range(start, end, CHUNK_BYTES)]
    extent["root"] = merkle.root([merkle.leaf_hash(bytes(chunk)) for chunk in chunks])


def edit_manifest(manifest: Any, edit: dict[str, Any]) -> Any:
    if "set" in edit:
        value = edit["to"]
        if isinstance(value, dict) and "hex" in value:
            value = bytes.fromhex(value["hex"])
        if not edit["set"]:
            return value
        parent(manifest, edit["set"])[edit["set"][-1]] = value
    elif "remove" in edit:
        del parent(manifest, edit["remove"])[edit["remove"][-1]]
    elif "copy" in edit or "move" in edit:
        path = edit.get("copy") or edit["move"]
        value = deepcopy(parent(manifest, path)[path[-1]])
        if "move" in edit:
            del parent(manifest, path)[path[-1]]
        if "before" in edit:
            parent(manifest, edit["before"]).insert(edit["before"][-1], value)
        else:
            parent(manifest, edit["to"])[edit["to"][-1]] = value
    return manifest


def parent(manifest: Any, path: list[Any]) -> Any:
    for step in path[:-1]:
        manifest = manifest[step]
    return manifest


def edit_encoding(encoded: bytes, edit: dict[str, Any]) -> bytes:
    if "replace" in edit:
        found = bytes.fromhex(edit["replace"])
        assert encoded.count(found) == 1
        return encoded.replace(found, bytes.fromhex(edit["with"]))
    if "manifest_at" in edit:
        at = edit["manifest_at"]
        return (
            encoded[:at] + bytes.fromhex(edit["insert_hex"]) + encoded[at + edit["remove_bytes"] :]
        )
    if "manifest_append" in edit:
        return encoded + bytes.fromhex(edit["manifest_append"])
    if "manifest_truncate" in edit:
        return encoded[: -edit["manifest_truncate"]]
    return encoded


def edit_file(out: bytearray, edit: dict[str, Any]) -> None:
    if "preamble" in edit:
        offset, width = FIELDS[edit["preamble"]]
        out[offset : offset + width] = edit["to"].to_bytes(width, "little")
    elif "poke" in edit:
        patch = bytes.fromhex(edit["hex"])
        assert out[edit["poke"] : edit["poke"] + len(patch)] != patch
        out[edit["poke"] : edit["poke"] + len(patch)] = patch
    elif "truncate" in edit:
        del out[edit["truncate"] :]
    elif "append" in edit:
        out += bytes.fromhex(edit["append"])
    elif "append_zeros" in edit:
        out += bytes(edit["append_zeros"])
