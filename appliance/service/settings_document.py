"""CONFIGURATION.md: the reference of the configuration, made from the rules of its fields."""

from __future__ import annotations

import inspect
from dataclasses import MISSING
from typing import Any, Final

from appliance.service.settings import SECTIONS, Settings, rules_of

_HEAD: Final = """# The configuration

One TOML file, given to `windhover serve --config`; `--check` only reads it. Paths that are not
absolute begin at the folder of the file. A field that is not listed here is refused. This page is
made from `settings.py`, and a test compares.

The shortest one, behind no proxy:

```toml
"""
_AFTER: Final = """```

Keys are made with `windhover apikey new`, the log with `windhover log new`, keys that sign with
`windhover keygen`. Behind nginx: `listen = "unix:/run/windhover/http.sock"`, `hosts` with the
public name, `unix_group` with the group of nginx.
"""


def configuration_document() -> str:
    """Return the text of CONFIGURATION.md."""
    parts = [
        _HEAD + shortest_configuration() + _AFTER,
        "## Above the first table\n",
        _table(Settings),
    ]
    for name, section in SECTIONS.items():
        parts += [f"## [{name}]\n", f"{inspect.getdoc(section)}\n", _table(section)]
    return "\n".join(parts)


def shortest_configuration() -> str:
    """Return a file with only what has to be written."""
    lines = []
    for name, section in SECTIONS.items():
        needed = [
            f"{field} = {rule.example}"
            for field, (rule, default) in rules_of(section).items()
            if default is MISSING
        ]
        if name == "model":
            needed.append('trust = "trust.toml"')
        if needed:
            lines += [f"[{name}]", *needed, ""]
    return "\n".join(lines[:-1]) + "\n"


def _table(section: type[Any]) -> str:
    lines = ["| field | takes | default | |", "| --- | --- | --- | --- |"]
    for name, (rule, default) in rules_of(section).items():
        cells = (f"`{name}`", rule.takes(), _default(default), rule.text)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if value is MISSING:
        return "must be written"
    if value is None or value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
