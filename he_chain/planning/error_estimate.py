"""How precise a planned block is expected to be, from noise, rescales and fitted polynomials.

Every step passes on a share of its operands' errors (`Operand.gain`, the median of slopes over the
calibrated range) and adds its own. Errors of different steps are taken as independent and
normal, and the largest of all slots as four deviations away. It is an expectation and no bound: a
bound by the steepest slopes would say nothing at all after thirty levels.
"""

from __future__ import annotations

import math
from typing import Final

from he_chain.noise import fresh_noise, key_switch_noise
from he_chain.parameters import Parameters
from he_chain.planning.placement import PlannedStep
from he_chain.planning.plan_step import Block, Step

_TAIL: Final = 4.0
_TYPICAL: Final = 8.0
"""A calibrated bound is about so many times the usual magnitude of a value's largest slot."""


def expected_bits(block: Block, steps: tuple[PlannedStep, ...], parameters: Parameters) -> float:
    """Return -log2 of the expected error of a block's output over its largest value."""
    scale = 2.0**parameters.scale_bits
    fresh = fresh_noise(parameters) / scale
    variances = {name: fresh * fresh for name, _ in block.inputs}
    for step, planned in zip(block.steps, steps, strict=True):
        for refreshed in planned.refreshes:
            # blinding is encoded twice, and the answer is encrypted once
            variances[refreshed.value] += 2 * fresh * fresh
        passed = sum((o.gain**2) * variances[o.value] for o in step.operands)
        variances[step.output] = passed + _own(step, planned.level, parameters)
    error = math.sqrt(variances[block.output]) * _TAIL
    return -math.log2(error / block.bounds[block.output] * _TYPICAL)


def _own(step: Step, level: int, parameters: Parameters) -> float:
    """Return the variance that a step adds: its fit, and a rescale's noise per level."""
    noise = key_switch_noise(parameters, level) / 2.0**parameters.scale_bits
    return (step.fit_error / _TAIL) ** 2 + max(1, step.levels) * noise * noise
