"""The real model of these tests, and what other programs computed with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from appliance.bench.quality import log_probabilities
from appliance.cli.fetch_demo_model import DEMO_MODEL, fetch
from engine.errors import WeightsUncheckedError
from engine.forward import Piece
from engine.model import Model

CHECKOUT = Path(__file__).resolve().parents[3]
DATA = CHECKOUT / "tests" / "data" / "smollm2"
GOLDEN: dict[str, Any] = json.loads((DATA / "golden.json").read_text())
OWN: dict[str, Any] = json.loads((DATA / "windhover.json").read_text())
CASES = GOLDEN["cases"]


def find_gguf() -> Path:
    """Return the GGUF file: that of `make demo`, or one fetched as `make demo` fetches it."""
    name = Path(DEMO_MODEL.member).name
    kept = CHECKOUT / "models" / name
    if kept.exists():
        return kept
    try:
        return fetch(CHECKOUT / ".cache" / "models", DEMO_MODEL)[0]
    except WeightsUncheckedError as error:
        pytest.skip(f"the real model cannot be fetched without a network: {error}")


def forced_logits(model: Model, case: dict[str, Any]) -> np.ndarray:
    """Logits before each output token of a case when the golden's own tokens are fed."""
    outputs = case["output_ids"]
    ids = np.array([*case["prompt_ids"], *outputs[:-1]], np.int32)
    cache = model.engine.new_cache(len(ids))
    logits = model.engine.step([Piece(cache, ids, len(outputs))]).logits.copy()
    cache.release()
    return logits


def forced_logprobs(logits: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    """Log-probabilities of a case's output tokens."""
    return log_probabilities(logits)[np.arange(len(logits)), case["output_ids"]]
