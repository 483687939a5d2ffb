"""The report of a run: all records, all figures, what each side saw, and the verdict.

report.json is one JSON object in one form (`encode_report`). Everything in it but the figures
follows from the run's folder, and the verdict follows from the figures and the gate.

Source: he_chain/README.md section "Report".
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from he_chain.errors import CheckpointError
from he_chain.records.claims import LIMITS
from he_chain.records.flow import Flow, check_flow
from he_chain.records.record import Begin, Record, Seen
from he_chain.records.run_folder import Run
from he_chain.reports.figures import Figures
from he_chain.reports.measure import Checkpoint, Measurement

FORMAT: Final = "windhover he_chain report 1"
MAX_REPORT_BYTES: Final = 1 << 26

Json = dict[str, Any]


def build_report(run: Run, measurement: Measurement | None) -> Json:
    """Return the report of a run.

    Args:
        run: its records.
        measurement: what the key holder measured; None where nobody did.

    Raises:
        CheckpointError: the records are not hops in their order.
    """
    flow = check_flow(run.begin, run.records)
    return {
        "format": FORMAT,
        "begin": begin_as_json(run.begin),
        "records": [record_as_json(record) for record in run.records],
        "head": run.head.hex(),
        "flow": asdict(flow),
        "totals": totals(run.records),
        "ledger": {
            "holder": ledger(seen for record in run.records for seen in record.seen_by_holder),
            "evaluator": ledger(
                seen for record in run.records for seen in record.seen_by_evaluator
            ),
        },
        "limits": list(LIMITS),
        "measured": None if measurement is None else measurement_as_json(measurement),
        "verdict": verdict(run.begin, flow, measurement),
    }


def verdict(begin: Begin, flow: Flow, measurement: Measurement | None) -> Json:
    """Return the verdict: PASS is made of numbers only.

    FAIL where a measured number is below the gate or an argmax differs; INCOMPLETE where none is
    and hops or measurements are missing.
    """
    checkpoints = () if measurement is None else measurement.checkpoints
    below = [c for c in checkpoints if not c.passes(begin.gate_bits)]
    measured = {(c.position, c.layer) for c in checkpoints}
    layers = range(begin.first_layer, begin.first_layer + begin.num_layers)
    missing = sum((p, layer) not in measured for p in range(flow.positions) for layer in layers)
    missing += flow.logits - len({p for p, layer in measured if layer is None})
    if below:
        word = "FAIL"
    elif not checkpoints or missing or not flow.finished:
        word = "INCOMPLETE"
    else:
        word = "PASS"
    return {
        "verdict": word,
        "gate_bits": begin.gate_bits,
        "against": [] if measurement is None else list(measurement.references),
        "checkpoints": len(checkpoints),
        "below": [[c.number, c.tensor] for c in below],
        "not_measured": missing,
        "least_bits": least_bits(checkpoints),
    }


def least_bits(checkpoints: Iterable[Checkpoint]) -> dict[str, dict[str, float | None]]:
    """Return the least bits by tensor and reference; None where a value was no number."""
    found: dict[str, dict[str, float | None]] = {}
    for one in checkpoints:
        row = found.setdefault(one.tensor, {})
        for name, figures in one.against.items():
            known, bits = row.get(name, figures.bits), figures.bits
            row[name] = None if known is None or bits is None else min(known, bits)
    return found


def totals(records: Iterable[Record]) -> Json:
    """Return the sums over all hops, and the most memory of any."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    cpu_s = wall_s = 0.0
    peak = 0
    for record in records:
        counts.update(record.counts)
        for kind, value in record.op_seconds.items():
            seconds[kind] += value
        for name in ("exchanges", "bytes_up", "bytes_down"):
            sums[name] += getattr(record, name)
        cpu_s, wall_s = cpu_s + record.cpu_s, wall_s + record.wall_s
        peak = max(peak, record.peak_rss_bytes)
    return {
        "counts": dict(counts),
        "op_seconds": {kind: round(value, 3) for kind, value in seconds.items()},
        **dict(sums),
        "cpu_s": round(cpu_s, 3),
        "wall_s": round(wall_s, 3),
        "peak_rss_bytes": peak,
    }


def ledger(seen: Iterable[Seen]) -> list[Json]:
    """Return what one side saw, by tensor: how often, how many values, how many bits in all."""
    rows: dict[tuple[str, int], list[int]] = {}
    for one in seen:
        row = rows.setdefault((one.name, one.bits), [0, 0])
        row[0] += 1
        row[1] += one.values
    return [
        {"tensor": n, "times": times, "values": values, "bits": bits, "total_bits": values * bits}
        for (n, bits), (times, values) in sorted(rows.items())
    ]


def begin_as_json(begin: Begin) -> Json:
    """Return a begin record with its digest."""
    return {**_fields(begin), "digest": begin.digest().hex()}


def record_as_json(record: Record) -> Json:
    """Return a record with its digest."""
    return {**_fields(record), "digest": record.digest().hex()}


def measurement_as_json(measurement: Measurement) -> Json:
    """Return the figures."""
    return _fields(measurement)


def measurement_from_json(value: Json) -> Measurement:
    """Return the figures that a report states; CheckpointError where they are none."""
    try:
        checkpoints = [
            Checkpoint(
                **{
                    **one,
                    "against": {n: Figures(**f) for n, f in one["against"].items()},
                    "profile_distance": (
                        None
                        if one["profile_distance"] is None
                        else Figures(**one["profile_distance"])
                    ),
                }
            )
            for one in value["checkpoints"]
        ]
        return Measurement(tuple(value["references"]), tuple(checkpoints))
    except (TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"the report's figures are damaged: {error}") from None


def encode_report(report: Mapping[str, object]) -> bytes:
    """Return the one form: ASCII, keys in order, no blanks, a line feed at the end."""
    text = json.dumps(
        report, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii") + b"\n"


def decode_report(unverified_data: bytes) -> Json:
    """Return a report; CheckpointError where it is none, or not in its one form."""
    if len(unverified_data) > MAX_REPORT_BYTES:
        raise CheckpointError(f"a report has at most {MAX_REPORT_BYTES} bytes")
    try:
        report = json.loads(unverified_data)
        same = isinstance(report, dict) and encode_report(report) == unverified_data
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"the report is no JSON: {error}") from None
    if not same or report.get("format") != FORMAT:
        raise CheckpointError("the report is not in its one form")
    return dict(report)


def _fields(value: Begin | Record | Measurement) -> Json:
    """Return the fields of a value and of the values in it."""
    return {name: _plain(item) for name, item in asdict(value).items()}


def _plain(value: object) -> object:
    """Return a value of dictionaries, lists and scalars; bytes become hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
