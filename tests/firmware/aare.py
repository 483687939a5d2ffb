"""What an AppArmor profile allows: its rules about files, and those of what it includes.

Source: apparmor.d(5), sections "Globbing (AARE)" and "Variables".
"""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path("/etc/apparmor.d")
_VARIABLES = {
    "@{PROC}": "/proc/", "@{sys}": "/sys/", "@{run}": "{/run,/var/run}", "@{etc_ro}": "/etc/",
    "@{multiarch}": "*-linux-gnu*", "@{pid}": "[0-9]*", "@{pids}": "[0-9]*", "@{HOME}": "/root",
}  # fmt: skip
_RULE = re.compile(r"^(?:owner )?((?:/|@\{)\S+)\s+([rwlkmix]+),$")
_INCLUDE = re.compile(r"^include (?:if exists )?<(.+)>$")
_TOKEN = re.compile(r"\*\*|\*|\?|\{|\}|,|\[[^\]]*\]|.")


def allowed(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Return what a profile allows: patterns of paths, and permissions."""
    found = []
    for line in text.splitlines():
        included, rule = _INCLUDE.match(line.strip()), _RULE.match(line.strip())
        if included is not None and (_FOLDER / included[1]).is_file():
            found += allowed((_FOLDER / included[1]).read_text(encoding="utf-8"))
        elif rule is not None:
            found.append((_pattern(rule[1]), rule[2]))
    return found


def permissions(rules: list[tuple[re.Pattern[str], str]], path: str) -> set[str]:
    """Return the letters that all rules together give for a path."""
    return {letter for pattern, letters in rules if pattern.fullmatch(path) for letter in letters}


def _pattern(glob: str) -> re.Pattern[str]:
    """Return the regular expression of a path in a rule."""
    for name, value in _VARIABLES.items():
        glob = glob.replace(name, value)
    glob = re.sub("/+", "/", glob)
    depth, parts = 0, []
    for sign in _TOKEN.findall(glob):
        if sign in {"{", "}"}:
            depth += 1 if sign == "{" else -1
            parts.append("(?:" if sign == "{" else ")")
        elif sign == "," and depth:
            parts.append("|")
        elif sign in {"**", "*", "?"}:
            parts.append({"**": ".*", "*": "[^/]*", "?": "[^/]"}[sign])
        else:
            parts.append(sign if sign.startswith("[") else re.escape(sign))
    return re.compile("".join(parts))
