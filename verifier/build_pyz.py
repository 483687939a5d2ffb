"""Makes verifier.pyz, the same bytes wherever and whenever it is made.

The archive holds the modules beside this file, but for those that build: stored, in the order of
their names, all of one date and mode, without bytecode.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
FIRST_LINE = b"#!/usr/bin/env -S python3 -I -S\n"
DATE = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644
UNIX = 3
# zipimport finds a module's file name by compiling it, and compiles it again to load it
START = b"""import sys
import zipimport


def filename(importer, name):
    path = name.replace(".", "/") + ("/__init__" if importer.is_package(name) else "")
    return f"{importer.archive}/{path}.py"


zipimport.zipimporter.get_filename = filename

from verifier.__main__ import main

sys.exit(main())
"""


def build() -> bytes:
    """Return the archive."""
    names = sorted(path.name for path in HERE.glob("*.py") if not path.name.startswith("build_"))
    entries = {"__main__.py": START}
    entries |= {f"verifier/{name}": (HERE / name).read_bytes() for name in names}
    target = io.BytesIO()
    target.write(FIRST_LINE)
    with zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = UNIX
            entry.external_attr = MODE << 16
            archive.writestr(entry, data)
    return target.getvalue()


def main(arguments: list[str] | None = None) -> int:
    """Write the archive to a path."""
    parser = argparse.ArgumentParser(description="Makes the single-file verifier.")
    parser.add_argument("target", type=Path, help="where to write, such as dist/verifier.pyz")
    target: Path = parser.parse_args(arguments).target
    part = target.with_name(target.name + ".part")
    part.write_bytes(build())
    os.replace(part, target)  # noqa: PTH105  replaces on every system
    return 0


if __name__ == "__main__":
    sys.exit(main())
