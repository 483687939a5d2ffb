"""Print what of requirements.lock a running appliance needs, with its digests, for pip.

    runtime.py pyproject.toml requirements.lock > runtime.lock

The lock says of each package who asked for it; what is wanted is reached from the dependencies of
pyproject.toml alone, and none of its extras.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

LEFT_OUT: Final = frozenset({"huggingface-hub"})
"""tokenizers asks for it to fetch vocabularies over a network; nothing here has one."""

_NAME = re.compile(r"^([a-z0-9-]+)==[^ ;\\]+(?: ; ([^\\]+))? \\$", re.MULTILINE)
_VIA = re.compile(r"^    #(?: via|  ) +([a-z0-9-]+)(?: .*)?$", re.MULTILINE)


def blocks_of(lock: str) -> dict[str, str]:
    """Return what a lock says of each package, by its name."""
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    found = {}
    for block in blocks:
        name = _NAME.match(block)
        if name is None:
            raise ValueError(f"not the line of a package: {block.splitlines()[0]}")
        found[name[1]] = block
    return found


def needed(dependencies: list[str], blocks: dict[str, str]) -> list[str]:
    """Return the sorted names of the dependencies, and of what they ask for."""
    asked = {name: set(_VIA.findall(block)) for name, block in blocks.items()}
    wanted = {re.split(r"[^a-z0-9-]", name.lower(), maxsplit=1)[0] for name in dependencies}
    if not wanted <= set(blocks):
        raise ValueError(f"not in the lock: {sorted(wanted - set(blocks))}")
    while more := {n for n, by in asked.items() if by & wanted and n not in wanted | LEFT_OUT}:
        wanted |= more
    return sorted(name for name in wanted if "win32" not in blocks[name].splitlines()[0])


def main() -> None:
    """Read both files and print the packages that are needed."""
    project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    blocks = blocks_of(Path(sys.argv[2]).read_text(encoding="utf-8"))
    for name in needed(project["project"]["dependencies"], blocks):
        sys.stdout.write(blocks[name])


if __name__ == "__main__":
    main()
