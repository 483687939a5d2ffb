"""A range of entries in a folder, with what proves them, for somebody without the log.

Source: appliance/log/README.md, section "Export".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.log.files import LogFiles
from appliance.log.objects import read_head, verify_object
from crypto.atomic import AtomicFile
from crypto.errors import FormatError, WriteError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.merkle import leaf_hash, verify_consistency, verify_inclusion
from crypto.sm2 import PublicKey
from crypto.sm3 import DIGEST_BYTES

SCHEMA: Final = "windhover-log-export/1"
MAX_EXPORTED: Final = 65_536
MAX_JSON_BYTES: Final = 512 << 20
_MAX_PATH: Final = 64


@dataclass(frozen=True, slots=True)
class Exported:
    """A range of entries that verified against a checkpoint.

    Attributes:
        log_id: 32 bytes.
        first: index of the first entry.
        count: number of entries.
        size: of the checkpoint's tree.
        root: 32 bytes.
        time_ms: of the checkpoint.
        from_size: size of the earlier tree that the checkpoint's extends, None if none is there.
        from_root: 32 bytes, its root.
        is_signed: whether the checkpoint's signature was verified.
    """

    log_id: bytes
    first: int
    count: int
    size: int
    root: bytes
    time_ms: int
    from_size: int | None
    from_root: bytes | None
    is_signed: bool


def write_export(
    files: LogFiles, folder: Path, first: int, count: int, *, from_size: int | None = None
) -> None:
    """Write entries first .. first + count - 1 into a new folder, with proofs.

    Args:
        files: the log.
        folder: must not exist.
        first: index of the first entry.
        count: number of entries, 1..65,536.
        from_size: size of an earlier tree, to show that the log extends it.

    Raises:
        IndexError: there are no such entries.
        LogUnavailableError, LogDamageError: as `LogFiles.entry`.
        WriteError: the folder exists, or the file system refused.
        OSError: the log cannot be read.
    """
    head = files.head
    if not (1 <= count <= MAX_EXPORTED and first >= 0 and first + count <= head.size):
        raise IndexError(f"no entries {first}..{first + count - 1} in a log of {head.size}")
    description: dict[str, object] = {
        "schema": SCHEMA,
        "log_id": head.log_id.hex(),
        "first": first,
        "size": head.size,
        "root": head.root.hex(),
        "time_ms": head.time_ms,
        "inclusion": [_hex(files.inclusion(i, head.size)) for i in range(first, first + count)],
    }
    if from_size is not None:
        description["from_size"] = from_size
        description["from_root"] = files.root(from_size).hex()
        description["consistency"] = _hex(files.consistency(from_size, head.size))
    try:
        folder.mkdir()
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error.strerror or error}") from error
    _write(folder / "checkpoint.cose", head.checkpoint)
    for index in range(first, first + count):
        _write(folder / f"{index}.cose", files.entry(index).body)
    _write(folder / "export.json", json.dumps(description, indent=1).encode() + b"\n")


def check_export(folder: Path, keys: Mapping[bytes, PublicKey] | None = None) -> Exported:
    """Verify an exported range: signature, paths, and that all is there.

    Args:
        folder: what `write_export` wrote; bytes from anywhere.
        keys: `attest` keys by key id.

    Raises:
        FormatError: `export`: it is none.
        InvalidProofError: an entry is not in the checkpoint's tree, or the tree does not extend
            the earlier one.
        InvalidSignatureError: the checkpoint's key is there, and did not sign it.
        OSError: a file is missing or cannot be read.
    """
    try:
        value = json.loads(_read(folder / "export.json", MAX_JSON_BYTES))
        first, paths = _number(value["first"]), value["inclusion"]
        if value["schema"] != SCHEMA or not 1 <= len(paths) <= MAX_EXPORTED:
            raise FormatError(0, "export")
        inclusion = [_path(path) for path in paths]
        from_size = _number(value["from_size"]) if "from_size" in value else None
        from_root = None if from_size is None else _digest(value["from_root"])
        consistency = [] if from_size is None else _path(value["consistency"])
        said = (_digest(value["log_id"]), _number(value["size"]), _digest(value["root"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(0, "export") from None
    head = read_head(_read(folder / "checkpoint.cose", MAX_OBJECT_BYTES))
    if said != (head.log_id, head.size, head.root):
        raise FormatError(0, "export")
    for index, path in enumerate(inclusion, first):
        entry = _read(folder / f"{index}.cose", MAX_OBJECT_BYTES)
        verify_inclusion(leaf_hash(entry), index, head.size, path, head.root)
    if from_size is not None and from_root is not None:
        verify_consistency(from_size, from_root, head.size, head.root, consistency)
    is_signed = verify_object(head.checkpoint, keys or {})
    return Exported(
        *(head.log_id, first, len(inclusion), head.size, head.root, head.time_ms),
        *(from_size, from_root, is_signed),
    )


def _hex(path: list[bytes]) -> list[str]:
    return [node.hex() for node in path]


def _write(path: Path, content: bytes) -> None:
    with AtomicFile(path, force=False) as file:
        file.create()
        file.write_at(0, content)
        file.commit()


def _read(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FormatError(max_bytes, "max-bytes")
    return content


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise FormatError(0, "export")
    return value


def _digest(value: object) -> bytes:
    if type(value) is not str or len(value) != 2 * DIGEST_BYTES:
        raise FormatError(0, "export")
    return bytes.fromhex(value)


def _path(value: object) -> list[bytes]:
    if not isinstance(value, list) or len(value) > 2 * _MAX_PATH:
        raise FormatError(0, "export")
    return [_digest(node) for node in value]
