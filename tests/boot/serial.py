"""What a machine writes on its serial console."""

from __future__ import annotations

import re
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc|[\x00-\x08\x0b-\x1f]")


class Serial:
    """A file that QEMU appends to."""

    def __init__(self, path: Path) -> None:
        """Remember where it is; it may not be there yet."""
        self.path = path

    @property
    def text(self) -> str:
        """All of it, without the sequences that move a cursor."""
        try:
            said = self.path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        return _CONTROL.sub("", said.replace("\r\n", "\n"))

    def tail(self, num_lines: int = 40) -> str:
        """Return its last lines."""
        return "\n".join(line[:200] for line in self.text.splitlines()[-num_lines:])

    def find(self, pattern: str) -> re.Match[str] | None:
        """Return the first place that matches, lines apart."""
        return re.search(pattern, self.text, re.MULTILINE)
