"""What both sides of a run of protocol `refresh` know before there is a key: all of it is public.

Ranges are measured on windows of public text, the design follows from them and the model, the plan
from the design and the parameters, so that both sides compute the same ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from crypto.labels import HE_CALIBRATION
from crypto.sm3 import sm3
from he_chain.backends.base import Values
from he_chain.calib import public_ids
from he_chain.errors import PlanError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.planning.plan import RefreshPlan, plan_refresh
from he_chain.polynomial.design import LayerDesign, design_layer
from he_chain.polynomial.ranges import LayerRanges, merge, observe
from he_chain.polynomial.steps import block_of
from he_chain.records.claims import CLAIMS, LIMITS
from he_chain.records.record import RUN_ID_BYTES, Begin
from he_chain.refresh import Blinding
from he_chain.reports.measure import Decrypts

WINDOWS: Final = 12
"""Windows of public text that ranges are measured on."""
MARGIN: Final = 0.5
SQUARINGS: Final = 0
"""Of the softmax: exponentials over their sum, on ranges as these."""
TARGET: Final = 2.0**-16
"""Relative error of every fitted polynomial."""


@dataclass(frozen=True)
class Setup:
    """What both sides know of a run before a key is made; all of it is public."""

    layer: int
    positions: int
    """Tokens of the windows that ranges were measured on."""
    design: LayerDesign
    plan: RefreshPlan
    ranges_digest: bytes


def prepare(
    model: PlainModel,
    layer: int,
    parameters: Parameters,
    *,
    positions: int,
    blind_bits: int,
    backend: str,
) -> Setup:
    """Measure a layer's ranges on public text, design and plan it.

    Args:
        model: whose layer.
        layer: from 0.
        parameters: of the scheme.
        positions: tokens of a window.
        blind_bits: of the blinding.
        backend: `seal` or `mock`.

    Raises:
        PlanError, LevelError, RangeError, SecurityError, PrecisionError: as of the planner.
    """
    if not 0 <= layer < model.config.num_layers:
        raise PlanError(f"the model has {model.config.num_layers} layers")
    if positions < 1:
        raise PlanError("ranges are measured on at least one token")
    ids = public_ids(model)
    weights = model.layer(layer)
    windows = [ids[i * positions : (i + 1) * positions] for i in range(WINDOWS)]
    inputs = layer_inputs(model, layer, [w for w in windows if len(w) == positions])
    if not inputs:
        raise PlanError(f"the public text has no window of {positions} tokens")
    seen = [observe(weights, model.config, x, SQUARINGS)[0] for x in inputs]
    ranges = merge(seen).widened(MARGIN)
    design = design_layer(model.config, parameters, ranges, target=TARGET)
    if positions > design.grid.positions:
        raise PlanError(f"the cache has room for {design.grid.positions} positions")
    name = f"layer {layer}"
    plan = plan_refresh(design, parameters, blind_bits=blind_bits, backend=backend, name=name)
    return Setup(layer, positions, design, plan, _digest(ranges, model.model_digest))


def layer_inputs(model: PlainModel, layer: int, windows: Sequence[Sequence[int]]) -> list[Values]:
    """Return what a layer gets of each window of tokens, in binary64: float64[tokens, width]."""
    if not windows:
        return []
    table = model.embedding()
    found = [table[list(ids)].astype(np.float64) for ids in windows]
    for index in range(layer):
        weights = model.layer(index)
        found = [observe(weights, model.config, x, 0)[1] for x in found]
    return found


def begin_refresh(
    model: PlainModel, setup: Setup, *, gate_bits: int, libraries: Mapping[str, str]
) -> Begin:
    """Return the begin record of a new run, under a random name."""
    return Begin(
        run_id=os.urandom(RUN_ID_BYTES),
        protocol="refresh",
        model_digest=model.model_digest,
        plan_digest=setup.plan.digest(),
        calibration_digest=setup.ranges_digest,
        backend=setup.plan.backend,
        parameters=setup.plan.parameters,
        num_layers=1,
        first_layer=setup.layer,
        width=model.config.hidden_size,
        gate_bits=gate_bits,
        libraries=libraries,
        security=setup.plan.security,
        settings={"blind_bits": setup.plan.blind_bits, "positions": setup.positions},
        claims=(*CLAIMS["refresh"], _blinding(setup), *LIMITS),
    )


def setup_of(begin: Begin, model: PlainModel) -> Setup:
    """Return what a run has to stand on, by its begin record and the model.

    Raises:
        PlanError: its settings are not there, or as of `prepare`.
    """
    try:
        positions, blind_bits = (begin.settings[name] for name in ("positions", "blind_bits"))
    except KeyError:
        raise PlanError("the run does not say how it was planned") from None
    return prepare(
        model,
        begin.first_layer,
        begin.parameters,
        positions=positions,
        blind_bits=blind_bits,
        backend=begin.backend,
    )


class RefreshMeasure:
    """Decrypts a layer's output in its own unit and order, as measure.py wants it."""

    def __init__(self, holder: Decrypts, setup: Setup) -> None:
        """Wrap what has the secret key."""
        self._holder = holder
        self._setup = setup

    def decrypt(self, data: bytes) -> Values:
        """Return float64[width]; ProtocolError as of the holder."""
        design = self._setup.design
        slots = self._holder.decrypt(data)
        x: Values = design.grid.gather(slots, design.config.hidden_size) / design.output_factor
        return x


def _blinding(setup: Setup) -> str:
    """Return the claim about the blinding, with its numbers."""
    plan, bounds = setup.plan, block_of(setup.design).bounds
    slots = plan.parameters.num_slots
    worst = max(Blinding(plan.blind_bits, bounds[r.value], slots).distance for r in plan.refreshes)
    return (
        f"Blinding of {plan.blind_bits} bits: what a refreshed value shows is within a statistical "
        f"distance of {worst:.3g} of what any other would; all that is refreshed of a layer of one "
        f"token together, within {plan.joint_distance:.3g}, where 1 says nothing."
    )


def _digest(ranges: LayerRanges, model_digest: bytes) -> bytes:
    """Return the 32 bytes that name ranges: of their exact values."""
    rows = {
        name: np.asarray(value, np.float64).tobytes().hex()
        for name, value in asdict(ranges).items()
    }
    return sm3(HE_CALIBRATION + model_digest + json.dumps(rows, sort_keys=True).encode("ascii"))
