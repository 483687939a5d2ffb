"""The protocol `boot`: layers at position 0 on ciphertexts alone, refreshed by bootstraps.

A layer is two hops. `boot` takes the residual through the first norm, the values and W_o, adds,
and bootstraps the sum; `lay` takes that through the second norm, the gated network and the sum. The
key holder encrypts the first residual and decrypts the last; in between there is no exchange.

Two folders, two processes, two libraries: HOLDER/ has the secret key, EVALUATOR/ the keys for
rotations, products and bootstraps, RUN/ ciphertexts and records.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from numpy.typing import NDArray

from he_chain.backends.lattigo import LattigoEvaluator, LattigoHolder
from he_chain.backends.lattigo_library import GRAPHS, KEYS
from he_chain.boot.layer import LEVELS, period_of
from he_chain.boot.plan import BACKEND, BootPlan, Hop, claims, security
from he_chain.boot.ranges import BootRanges
from he_chain.errors import CheckpointError, PlanError
from he_chain.records.record import MAX_BLOB_BYTES, RUN_ID_BYTES, Begin, Blob, Record, Seen
from he_chain.records.run_folder import Run, read_whole

Values = NDArray[np.float64]

INPUT_NAME: Final = "begin.input"


def write_keys(plan: BootPlan, holder_folder: Path, evaluator_folder: Path) -> int:
    """Make the holder's key and the evaluator's keys, and return the bytes of the latter.

    Raises:
        BackendError: the library is absent, there are keys already, or too little memory.
    """
    with LattigoHolder(plan.parameters) as holder:
        holder.save(holder_folder)
        return holder.write_evaluation_keys(evaluator_folder, plan.rotations)


def begin(plan: BootPlan, holder_folder: Path, run_folder: Path, x: Values, gate_bits: int) -> Run:
    """Encrypt a token's residual for the first layer, and begin a run: the key holder's part.

    Args:
        plan: of the run.
        holder_folder: has the secret key.
        run_folder: for records and ciphertexts; new.
        x: float64[width], the token's embedding.
        gate_bits: what a measured precision must reach.

    Raises:
        RangeError: the residual is outside the calibrated range.
        BackendError: the library is absent or refused.
        WriteError: there is a run already.
    """
    plan.ranges.check(x)
    with LattigoHolder(plan.parameters, holder_folder) as holder:
        data = holder.encrypt(_carried(plan, x), LEVELS)
    begin_record = Begin(
        run_id=secrets.token_bytes(RUN_ID_BYTES),
        protocol="boot",
        model_digest=plan.model_digest,
        plan_digest=plan.digest(),
        calibration_digest=plan.ranges.digest(),
        backend=BACKEND,
        parameters=plan.parameters.as_chain,
        num_layers=1 + plan.hops[-1].layer,
        width=plan.width,
        gate_bits=gate_bits,
        libraries={package.distribution: package.version for package in (KEYS, GRAPHS)},
        security=security(plan.parameters),
        claims=claims(plan.parameters),
    )
    run = Run.create(run_folder, begin_record)
    run.write_blob(INPUT_NAME, data, LEVELS, 2.0**plan.parameters.scale_bits)
    return run


def evaluate(
    plan: BootPlan,
    evaluator_folder: Path,
    run_folder: Path,
    *,
    progress: Callable[[Hop, Record], None] = lambda hop, record: None,
) -> Run:
    """Run the hops that are not done: the evaluator's part, which has no secret key.

    Args:
        plan: of the run.
        evaluator_folder: has the evaluation keys.
        run_folder: of `begin`, or of an evaluation that was interrupted.
        progress: called behind every hop.

    Raises:
        CheckpointError: the run is of another plan, or a ciphertext is not what a record names.
        BackendError: the library is absent, refused or died, or too little memory is available.
        SecurityError: there is a secret key in the evaluator's folder.
    """
    run = Run.open(run_folder)
    if run.begin.plan_digest != plan.digest():
        raise CheckpointError("the run is of another plan")
    if run.next_number == len(plan.hops):
        return run
    with LattigoEvaluator(evaluator_folder) as evaluator, TemporaryDirectory() as scratch:
        for hop in plan.hops[run.next_number :]:
            record = _evaluate(plan, hop, run, evaluator, Path(scratch))
            run.append(record)
            progress(hop, record)
    return run


class BootMeasure:
    """Decrypts residuals in their own unit, as measure.py wants them; a context manager's content.

    A ciphertext of this protocol carries x / unit, since a bootstrap takes values in [-1, 1].
    """

    def __init__(self, holder: LattigoHolder, ranges: BootRanges) -> None:
        """Wrap an open holder."""
        self._holder = holder
        self._ranges = ranges

    def decrypt(self, data: bytes) -> Values:
        """Return float64[num_slots]; RangeError where a residual is outside its range."""
        values = self._holder.decrypt(data) * self._ranges.residual
        self._ranges.check(values)
        return values


def _evaluate(
    plan: BootPlan, hop: Hop, run: Run, evaluator: LattigoEvaluator, scratch: Path
) -> Record:
    number = run.next_number
    started, used = time.perf_counter(), time.process_time()
    source = run.records[-1].outputs[0] if run.records else _input_blob(run, evaluator)
    path = scratch / f"{number:05}.program"
    hop.program.write(path, hop.output)
    data, figures = evaluator.run(path, run.read_blob(source))
    path.unlink()
    shape = evaluator.shape(data)
    if shape.level != hop.output.level:
        raise PlanError(f"{hop.kind} came out at level {shape.level}, not {hop.output.level}")
    name = f"{number:05}.{'x' if hop.kind == 'lay' else 'middle'}"
    blob = run.write_blob(name, data, shape.level, shape.scale, values=_values(plan, hop))
    return Record(
        kind=hop.kind,
        number=number,
        position=0,
        layer=hop.layer,
        inputs=(source,),
        outputs=(blob,),
        counts={name: count for name, count in hop.program.counts.items() if count},
        cpu_s=figures["cpu_s"] + time.process_time() - used,
        wall_s=time.perf_counter() - started,
        peak_rss_bytes=int(figures["peak_rss_bytes"]),
        levels=tuple((level, 1) for _, _, level in hop.program.levels()),
        seen_by_holder=(Seen("residual", plan.width, 53),) if hop is plan.hops[-1] else (),
        seen_by_evaluator=(Seen("residual", plan.width, 0),),
        previous=run.head,
    )


def _values(plan: BootPlan, hop: Hop) -> int:
    return plan.width if hop.kind == "lay" else 0


def _input_blob(run: Run, evaluator: LattigoEvaluator) -> Blob:
    """Return the holder's ciphertext, which no record names yet."""
    data = read_whole(run.folder / "cts" / f"{INPUT_NAME}.ct", MAX_BLOB_BYTES)
    shape = evaluator.shape(data)
    return run.write_blob(INPUT_NAME, data, shape.level, shape.scale)


def _carried(plan: BootPlan, x: Values) -> Values:
    """Return a residual as a ciphertext carries it: over the unit, padded to its period."""
    padded = np.zeros(period_of(plan.width))
    padded[: plan.width] = x / plan.ranges.residual
    return padded
