"""Evidence that `bench memory` wrote, read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from appliance.bench.memory_run import SCHEMA
from engine.errors import ConfigError

MAX_BYTES = 1 << 20


def read_evidence(path: Path, model_digest: str) -> dict[str, Any]:
    """Read one file.

    Args:
        path: the file.
        model_digest: of the model that it has to be about, in hexadecimal.

    Raises:
        OSError: it cannot be read.
        ConfigError: it is no such evidence, or about another model.
    """
    with path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is longer than {MAX_BYTES} bytes")
    try:
        value = json.loads(data)
        schema, digest = value["schema"], value["file"]["model_digest"]
        plan, spent = value["plan"], value["timings"]["s_per_token"]
        known = all(isinstance(plan[name], str) for name in ("mode", "state"))
        known = known and isinstance(value["file"]["form"], str)
        known = known and (spent is None or spent["median"] > 0)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no evidence of `bench memory`: {error!r}") from None
    if schema != SCHEMA or not known:
        raise ConfigError(f"{path} is no evidence of `bench memory`")
    if digest != model_digest:
        raise ConfigError(f"{path} is about another model")
    result: dict[str, Any] = value
    return result
