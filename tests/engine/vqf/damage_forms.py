"""Applies the damages of malformed_signed.json and malformed_sealed.json to their files.

Whoever makes these damages holds the data key: everything that is not damaged is made right again,
tags, lengths and the model_digest in signatures included. Beside the edits of `damage`, which
change manifest, data and the finished file, there are:

    in the signatures
    entries                         which of them there are, in which order
    entry, protected | payload, to  a value in a header or payload; `absent` takes it away
    entry, entry_replace, with      bytes of an entry that occur once
    entry, payload_replace, with    bytes of a payload that occur once
    entry, signature_bytes          so many instead of 64
    again, signature                an entry once more, with 64 other bytes as its signature
    section, section_append, section_truncate
    section_at, remove_bytes, insert_hex

    in sealed files
    recipient, to | absent          a value in the map of recipients; [] is all of it
    recipients_order                which of them there are, in which order
    num_recipients                  so many, whom nobody knows
    recipients_at, remove_bytes, insert_hex
    recipients_append
    area_tail, extra_tags, filling  bytes that stand behind something
    extra_zero_tags                 so many tags of zeros behind the others
    data ... "root": false          the root stays as it was
    tagged_poke, hex                bytes before the header tag, which follows
    preamble, to                    a field; the header tag follows
"""

from __future__ import annotations

from typing import Any

from crypto import cbor
from tests.engine.vqf import second
from tests.engine.vqf.damage import (
    damaged,
    edit_data,
    edit_encoding,
    edit_file,
    edit_manifest,
    parent,
)

MODEL_DIGEST = -70101


def value_of(edit: dict[str, Any]) -> Any:
    """Return what an edit puts somewhere."""
    value = edit["to"]
    if isinstance(value, dict) and "hex" in value:
        return bytes.fromhex(value["hex"])
    return value


def put(tree: Any, path: list[Any], edit: dict[str, Any]) -> Any:
    """Set or take away one value and return the tree."""
    if not path:
        return value_of(edit)
    if edit.get("absent"):
        del parent(tree, path)[path[-1]]
    else:
        parent(tree, path)[path[-1]] = value_of(edit)
    return tree


def spliced(data: bytes, name: str, edit: dict[str, Any]) -> bytes:
    """Apply `name`_at and `name`_append."""
    if f"{name}_at" in edit:
        at = edit[f"{name}_at"]
        return data[:at] + bytes.fromhex(edit["insert_hex"]) + data[at + edit["remove_bytes"] :]
    return data + bytes.fromhex(edit.get(f"{name}_append", ""))


def edited_entry(entry: bytes, edit: dict[str, Any]) -> bytes:
    """Change one signature."""
    if "entry_replace" in edit:
        found = bytes.fromhex(edit["entry_replace"])
        assert entry.count(found) == 1
        return entry.replace(found, bytes.fromhex(edit["with"]))
    parts: Any = cbor.decode(entry[1:])
    if "signature_bytes" in edit:
        parts[3] = (2 * parts[3])[: edit["signature_bytes"]]
        return b"\xd2" + cbor.encode(parts)
    if "payload_replace" in edit:
        found = bytes.fromhex(edit["payload_replace"])
        assert parts[2].count(found) == 1
        parts[2] = parts[2].replace(found, bytes.fromhex(edit["with"]))
        return b"\xd2" + cbor.encode(parts)
    place = 0 if "protected" in edit else 2
    path = edit["protected" if "protected" in edit else "payload"]
    tree = put(cbor.decode(parts[place]), path, edit)
    parts[place] = cbor.encode(tree, max_depth=16)
    return b"\xd2" + cbor.encode(parts)


def edited_section(section: bytes, model_digest: bytes, edits: list[dict[str, Any]]) -> bytes:
    """Change the signatures of a file; they are in order again, except after `entries`."""
    follow = {"entry": 0, "payload": [MODEL_DIGEST], "to": {"hex": model_digest.hex()}}
    found: Any = cbor.decode(section)
    entries = [edited_entry(entry, follow) for entry in found]
    for edit in edits:
        if "entry" in edit:
            entries[edit["entry"]] = edited_entry(entries[edit["entry"]], edit)
        elif "again" in edit:
            entries.append(entries[edit["again"]][:-64] + bytes.fromhex(edit["signature"]))
    entries.sort()
    for edit in edits:
        if "entries" in edit:
            entries = [entries[index] for index in edit["entries"]]
    out = cbor.encode(entries)
    for edit in edits:
        out = bytes.fromhex(edit["section"]) if "section" in edit else out
        out = spliced(out, "section", edit)
        out = out[: -edit["section_truncate"]] if "section_truncate" in edit else out
    return out


def damaged_signed(plain: bytes, section: bytes, edits: list[dict[str, Any]]) -> bytes:
    """Return the signed form of a damaged plain file."""
    inside = [edit for edit in edits if not _of_the_finished_file(edit)]
    file = damaged(plain, inside)
    out = bytearray(second.signed(file, edited_section(section, file[96:128], edits)))
    for edit in edits:
        if _of_the_finished_file(edit):
            edit_file(out, edit)
    return bytes(out)


def _of_the_finished_file(edit: dict[str, Any]) -> bool:
    return any(name in edit for name in ("preamble", "poke", "truncate", "append", "append_zeros"))


def damaged_sealed(file: bytes, data_key: bytes, edits: list[dict[str, Any]]) -> bytes:
    """Return a damaged sealed file."""
    parts = second.taken_apart(file, data_key)
    _edit_model(parts, edits)
    if parts.signatures:
        digest = second.sm3(second.label("manifest") + parts.manifest)
        parts.signatures = edited_section(parts.signatures, digest, edits)
    for edit in edits:
        parts.recipients = _edited_recipients(parts.recipients, edit)
        parts.area_tail += bytes.fromhex(edit.get("area_tail", ""))
        parts.filling += bytes.fromhex(edit.get("filling", ""))
        parts.extra_tags += bytes.fromhex(edit.get("extra_tags", ""))
        parts.extra_tags += bytes(32 * edit.get("extra_zero_tags", 0))
        if "preamble" in edit:
            parts.fields[edit["preamble"]] = edit["to"]
    out = bytearray(parts.built())
    for edit in edits:
        if "tagged_poke" in edit:
            edit_file(out, {"poke": edit["tagged_poke"], "hex": edit["hex"]})
            tag = parts.header_tag(bytes(out[: second.HEADER_TAG]))
            out[second.HEADER_TAG : second.MANIFEST] = tag
    for edit in edits:
        if "preamble" not in edit:
            edit_file(out, edit)
    return bytes(out)


def _edit_model(parts: second.Sealed, edits: list[dict[str, Any]]) -> None:
    manifest: Any = cbor.decode(parts.manifest)
    data = bytearray(parts.data)
    for edit in edits:
        if "data" in edit:
            roots = [extent["root"] for extent in manifest["extents"]]
            edit_data(manifest, data, edit)
            if edit.get("root") is False:
                for extent, old in zip(manifest["extents"], roots, strict=True):
                    extent["root"] = old
        data += bytes(edit.get("extra_data", 0))
    for edit in edits:
        manifest = edit_manifest(manifest, edit)
    encoded = cbor.encode(manifest, max_depth=16)
    for edit in edits:
        encoded = edit_encoding(encoded, edit)
    parts.manifest, parts.data = encoded, bytes(data)


def _edited_recipients(encoded: bytes, edit: dict[str, Any]) -> bytes:
    if "recipient" in edit:
        tree = put(cbor.decode(encoded), edit["recipient"], edit)
        return cbor.encode(tree, max_depth=16)
    if "recipients_order" in edit:
        entries: Any = cbor.decode(encoded)
        return cbor.encode({"sm2": [entries["sm2"][index] for index in edit["recipients_order"]]})
    if "num_recipients" in edit:
        wrapped = b"\4" + bytes(128)
        ids = [index.to_bytes(32, "big") for index in range(edit["num_recipients"])]
        return cbor.encode({"sm2": [{"key_id": key_id, "wrapped": wrapped} for key_id in ids]})
    return spliced(encoded, "recipients", edit)
