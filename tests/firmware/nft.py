"""What nft has against rules that an operator adds to the packet filter."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.firmware.tools import run, said, text_of


def refused_by_nft(added: str) -> list[str]:
    """Return what nft says of the filter with rules added; nothing is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.nft")
        include = 'include "/etc/nftables.d/*.nft"'
        path.write_text(text_of("nftables/nftables.conf").replace(include, added))
        return said(run("nft", "--check", "--file", path))
