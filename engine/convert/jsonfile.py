"""Strict JSON: no key twice, no NaN, numbers with a point or exponent as `Decimal`."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

from engine.convert.files import open_regular
from engine.errors import ConversionError

MAX_CONFIG_BYTES = 16 << 20


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a small regular file.

    Raises:
        ConversionError: It does not exist, is not a regular file or is larger than `max_bytes`.
        OSError: It cannot be read.
    """
    try:
        file, _ = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        raise ConversionError(f"{path}: the file is missing") from None
    with file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ConversionError(f"{path}: larger than {max_bytes} bytes")
    return data


def read_json(path: Path, max_bytes: int = MAX_CONFIG_BYTES) -> dict[str, object]:
    """Read a file that holds one JSON object.

    Raises:
        ConversionError: It is missing, too large, or not a JSON object.
        OSError: It cannot be read.
    """
    return parse_json(read_file(path, max_bytes), str(path))


def parse_json(data: bytes, source: str) -> dict[str, object]:
    """Parse one JSON object; `source` names it in messages.

    Raises:
        ConversionError: It is not one.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ConversionError(f"{source}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConversionError(f"{source}: not a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value
