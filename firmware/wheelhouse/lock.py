"""requirements.lock: what is pinned, and which of it an installation needs.

Source: the form that `uv pip compile --generate-hashes` writes (`make lock`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from firmware.wheelhouse.errors import WheelhouseError

PROJECT: Final = "windhover"

_PIN: Final = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;\\]+)(?: ; ([^\\]+?))? \\$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA: Final = re.compile(r"^    #(?: via)? +([A-Za-z0-9._-]+)")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class Pin(NamedTuple):
    """One entry of the lock.

    name: normalised. marker: where it is needed, as of PEP 508, or nothing. digests: SHA-256 of the
    files of the release, in hexadecimal. wanted_by: normalised names of what requires it.
    """

    name: str
    version: str
    marker: str
    digests: frozenset[str]
    wanted_by: frozenset[str]


def normalised(name: str) -> str:
    """Return a package's name as it is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> dict[str, Pin]:
    """Return the entries of a lock by their names.

    Raises:
        WheelhouseError: a line is none that `make lock` writes, or an entry has no digest.
    """
    pins: dict[str, Pin] = {}
    for block in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]:
        first, *rest = block.splitlines()
        match = _PIN.match(first)
        if match is None:
            raise WheelhouseError(f"the lock has a line that is not understood: {first}")
        digests = frozenset(_HASH.findall(block))
        if not digests:
            raise WheelhouseError(f"the lock has no digest for {match[1]}")
        wanted = (found for line in rest if (found := _VIA.match(line)))
        wanted_by = frozenset(normalised(each[1]) for each in wanted)
        pins[match[1]] = Pin(match[1], match[2], match[3] or "", digests, wanted_by)
    return pins


def direct_names(project: Mapping[str, Any], extras: Iterable[str]) -> set[str]:
    """Return what a project requires itself.

    Args:
        project: the table `project` of pyproject.toml.
        extras: names of its optional dependencies.

    Raises:
        WheelhouseError: there is no such extra.
    """
    optional = project.get("optional-dependencies", {})
    required = list(project["dependencies"])
    for extra in extras:
        if extra not in optional:
            raise WheelhouseError(f"there is no extra {extra}; there are {', '.join(optional)}")
        required += optional[extra]
    return {normalised(match[0]) for each in required if (match := _NAME.match(each))}


def needed(pins: Mapping[str, Pin], direct: set[str]) -> list[Pin]:
    """Return the entries that these packages need, and theirs, and so on, by name.

    What a package needs for an extra of its own that nobody asked for may be among them.

    Raises:
        WheelhouseError: the lock does not have one.
    """
    if missing := sorted(direct - pins.keys()):
        raise WheelhouseError(f"the lock does not have {missing[0]}; run `make lock`")
    found = set(direct)
    while True:
        more = {pin.name for pin in pins.values() if pin.wanted_by & found} - found
        if not more:
            return [pins[name] for name in sorted(found)]
        found |= more


def requirement_lines(pins: Iterable[Pin]) -> list[str]:
    """Return lines of a requirements file that pip accepts with `--require-hashes`."""
    lines = []
    for pin in pins:
        marker = f" ; {pin.marker}" if pin.marker else ""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(pin.digests))
        lines.append(f"{pin.name}=={pin.version}{marker} {hashes}")
    return lines
