"""Print name, version and licence of every package of the image, one a line with tabs.

    licences.py ROOTFS DROPPED,NAMES > packages.txt

Debian's packages say it in /usr/share/doc/NAME/copyright, Python's in their metadata. Where a text
names no short form of its licence, the line says where the text is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

_COPYRIGHT = "usr/share/doc/{}/copyright"


def debian_packages(rootfs: Path, dropped: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, version, licences of Debian's packages but those that are dropped."""
    status = (rootfs / "var/lib/dpkg/status").read_text(encoding="utf-8")
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version): (.*)$", paragraph, re.MULTILINE))
        if fields and fields["Package"] not in dropped:
            yield fields["Package"], fields["Version"], debian_licences(rootfs, fields["Package"])


def debian_licences(rootfs: Path, name: str) -> str:
    """Return the short forms of a package's licences, or where its text is."""
    path = _COPYRIGHT.format(name)
    if not (rootfs / path).is_file():
        return f"/{path} (of the package it is made with)"
    text = (rootfs / path).read_text(encoding="utf-8", errors="replace")
    short = {word.strip() for word in re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)}
    return " | ".join(sorted(short)) or f"/{path}"


def python_packages(rootfs: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name, version, licence of the packages of the environment."""
    site = rootfs / "usr/lib/windhover/venv/lib/python3.11/site-packages"
    for path in site.glob("*.dist-info/METADATA"):
        fields = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        classifiers = [
            value.rpartition(" :: ")[2]
            for value in fields.get_all("Classifier", [])
            if value.startswith("License ::")
        ]
        licence = fields.get("License-Expression") or " | ".join(classifiers)
        licence = licence or (fields.get("License") or "").strip().split("\n")[0]
        yield f"python:{fields['Name']}", fields["Version"], licence or "in its licence files"


def main() -> None:
    """Print both lists, sorted by name."""
    rootfs, dropped = Path(sys.argv[1]), set(sys.argv[2].split(","))
    for row in sorted([*debian_packages(rootfs, dropped), *python_packages(rootfs)]):
        sys.stdout.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
