"""What is in a folder of wheels: names, versions, licences and home pages, by their own metadata.

Source: Core metadata 2.5; PEP 639 (licence expressions and files), PEP 427 (wheels).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from firmware.wheelhouse.errors import WheelhouseError
from firmware.wheelhouse.lock import normalised

NOT_STATED: Final = "not stated"

_CLASSIFIER: Final = "License :: "
_HOME_LABELS: Final = ("homepage", "home", "source", "source code", "repository", "github")
_TEXTS: Final = ("licen", "copying", "notice", "copyright", "authors")
_MOST_TEXT_BYTES: Final = 4 << 20
_LONGEST_NAME: Final = 100


class Component(NamedTuple):
    """One wheel. sha256: hexadecimal. licence, home_page: as the wheel states them itself."""

    name: str
    version: str
    licence: str
    home_page: str
    file: str
    sha256: str
    size_bytes: int


class Wheel(NamedTuple):
    """A component and the texts of its licences: their names, and what is in them."""

    component: Component
    texts: dict[str, bytes]


def read_wheel(path: Path) -> Wheel:
    """Read one wheel; nothing of it is run.

    Raises:
        WheelhouseError: it is no wheel.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            (record,) = (
                name for name in names
                if name.endswith(".dist-info/METADATA") and name.count("/") == 1
            )  # fmt: skip
            metadata = HeaderParser().parsestr(archive.read(record).decode("utf-8"))
            folder = record.removesuffix("METADATA")
            texts = {
                name.removeprefix(folder).removeprefix("licenses/"): archive.read(name)
                for name in names
                if name.startswith(folder) and _is_text(name.removeprefix(folder), archive)
            }
    except (ValueError, zipfile.BadZipFile, UnicodeDecodeError):
        raise WheelhouseError(f"{path.name} is no wheel") from None
    component = Component(
        name=normalised(metadata["Name"] or ""),
        version=metadata["Version"] or NOT_STATED,
        licence=licence_of(metadata),
        home_page=home_page_of(metadata),
        file=path.name,
        sha256=sha256(content).hexdigest(),
        size_bytes=len(content),
    )
    return Wheel(component, texts)


def licence_of(metadata: Message) -> str:
    """Return the licence that a package states: its expression, its short name, its classifiers."""
    if expression := metadata["License-Expression"]:
        return " ".join(expression.split())
    named = (metadata["License"] or "").strip()
    if named and "\n" not in named and len(named) <= _LONGEST_NAME:
        return named
    classifiers = [
        each.removeprefix(_CLASSIFIER).removeprefix("OSI Approved :: ")
        for each in metadata.get_all("Classifier", [])
        if each.startswith(_CLASSIFIER)
    ]
    if classifiers:
        return "; ".join(classifiers)
    # some put the whole text there; its first line is its title
    return named.splitlines()[0].strip() if named else NOT_STATED


def home_page_of(metadata: Message) -> str:
    """Return where a package says that it is at home."""
    if home := (metadata["Home-page"] or "").strip():
        return home
    pages: dict[str, str] = {}
    for each in metadata.get_all("Project-URL", []):
        label, _, page = each.partition(",")
        pages.setdefault(label.strip().lower(), page.strip())
    for label in _HOME_LABELS:
        if label in pages:
            return pages[label]
    return next(iter(pages.values()), NOT_STATED)


def as_json(components: Iterable[Component]) -> str:
    """Return components.json."""
    value = {"version": 1, "components": [each._asdict() for each in components]}
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"


def as_text(components: Iterable[Component]) -> str:
    """Return components.txt: a line for each, in columns."""
    rows = [("name", "version", "licence", "home page")]
    rows += [(each.name, each.version, each.licence, each.home_page) for each in components]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _is_text(name: str, archive: zipfile.ZipFile) -> bool:
    """Return whether a file of the metadata is the text of a licence, under a usable name."""
    path = PurePosixPath(name)
    if not path.name or name.endswith("/") or path.is_absolute() or ".." in path.parts:
        return False
    if path.parts[0] != "licenses" and not path.name.lower().startswith(_TEXTS):
        return False
    full = next(each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
    return archive.getinfo(full).file_size <= _MOST_TEXT_BYTES
