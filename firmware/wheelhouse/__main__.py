"""`python -m firmware.wheelhouse OUT`: collect what an installation without a network needs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from firmware.wheelhouse.collect import collect
from firmware.wheelhouse.errors import WheelhouseError

_CHECKOUT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0 done, 2 usage, or something cannot be had."""
    parser = argparse.ArgumentParser(prog="wheelhouse", description=__doc__)
    parser.add_argument("out", type=Path, help="a folder that does not exist yet")
    parser.add_argument(
        "--extra", action="append", default=[], metavar="NAME", help="of pyproject.toml; repeatable"
    )
    parser.add_argument(
        "--machine", choices=("x86_64", "aarch64"), help="for Debian 12 on another processor"
    )
    given = parser.parse_args(arguments)
    try:
        count = collect(_CHECKOUT, given.out, extras=given.extra, machine=given.machine)
    except (WheelhouseError, OSError) as error:
        sys.stderr.write(f"wheelhouse: {error}\n")
        return 2
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    sys.stdout.write(f"{given.out}: {count} components, {size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
