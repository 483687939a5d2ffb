"""Joins the parts of the page to the one file verify.html: `python verifier/build_page.py`."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SCRIPTS = (
    *("bytes", "sm3", "sm2", "merkle", "cbor", "cose", "toml", "trust", "objects", "bundle"),
    *("json", "transcript", "case", "statement_steps", "log_steps", "text_steps"),
    *(
        "release_steps",
        "software",
        "verify",
        "exports",
        "strings",
        "reasons",
        "dom",
        "report_view",
        "form",
    ),
    "app",
)


def page() -> bytes:
    """Return the bytes of verify.html: the same for the same parts, wherever it is called."""
    parts = [_part(f"{name}.js") for name in SCRIPTS]
    script = '\n"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"
    style = "\n" + _part("page.css")
    text = _part("frame.txt")
    for name, content in (
        ("SCRIPT-DIGEST", _digest(script)),
        ("STYLE-DIGEST", _digest(style)),
        ("STYLE", style),
        ("SCRIPT", script),
    ):
        mark = f"@@{name}@@"
        if text.count(mark) != 1 or "</" + "script" in script or "</" + "style" in style:
            raise ValueError(name)
        text = text.replace(mark, content)
    return text.encode("utf-8")


def _part(name: str) -> str:
    return (FOLDER / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """Return what a content security policy calls an inline part by (it knows no SM3)."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return "'sha256-" + base64.b64encode(digest).decode("ascii") + "'"


def main() -> int:
    """Write verify.html beside this file."""
    (FOLDER / "verify.html").write_bytes(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
