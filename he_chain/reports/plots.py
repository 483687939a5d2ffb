"""Four pictures of a report: levels, bits, seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from he_chain.reports.report import Json
from he_chain.reports.svg import Bars, Chart, Line

_NAMES: Final = {
    "rotations": "rotation",
    "ct_pt": "times plain",
    "ct_ct": "times ciphertext",
    "rescales": "rescale",
    "encodes": "encode",
    "encrypts": "encrypt",
    "decrypts": "decrypt",
    "bootstraps": "bootstrap",
    "other": "other",
}
_MEGABYTE: Final = 1e6


def plots(report: Json) -> dict[str, str]:
    """Return SVG documents by file name; a picture without numbers is left out."""
    charts = {
        "levels.svg": levels_chart(report),
        "bits.svg": bits_chart(report),
        "seconds.svg": seconds_chart(report),
        "bytes.svg": bytes_chart(report),
    }
    return {name: chart.render() for name, chart in charts.items() if chart is not None}


def levels_chart(report: Json) -> Chart | None:
    """Return the saw-tooth of levels: of the first layer's operations where they were traced."""
    records = [r for r in report["records"] if r["position"] == 0]
    traced = [r for r in records if r["layer"] == report["begin"]["first_layer"] and r["levels"]]
    points: list[tuple[float, float]] = []
    done = 0
    for record in traced:
        for level, operations in record["levels"]:
            points.append((done, level))
            done += operations
    if points:
        points.append((done, points[-1][1]))
        unit = "operation (first layer, first token)"
    else:
        for number, record in enumerate(records):
            for share, blobs in ((0.0, record["inputs"]), (0.7, record["outputs"])):
                if blobs:
                    points.append((number + share, max(blob["level"] for blob in blobs)))
        unit = "hop of the first token"
    if not points:
        return None
    chart = Chart("Level of each operation's result", unit, "rescales left", whole_y=True)
    chart.series.append(Line("level", points, "step"))
    return chart


def bits_chart(report: Json) -> Chart | None:
    """Return the least precision behind every layer, against each reference, and the gate."""
    measured = report["measured"]
    if measured is None:
        return None
    chart = Chart("Precision behind each layer (least of all tokens)", "layer", "bits")
    rows = [c for c in measured["checkpoints"] if c["tensor"] == "x"]
    for name in measured["references"]:
        points = _least((c["layer"], c["against"][name]["bits"]) for c in rows)
        if points:
            chart.series.append(Line(f"decrypted against {name}", points))
    both = _least((c["layer"], (c["profile_distance"] or {"bits": None})["bits"]) for c in rows)
    if both:
        chart.series.append(Line("wh1-float against exact", both))
    if not chart.series:
        return None
    ends = [x for series in chart.series if isinstance(series, Line) for x, _ in series.points]
    gate = report["begin"]["gate_bits"]
    beside = 0.5 if min(ends) == max(ends) else 0.0  # a single layer stands in the middle
    gate_line = [(min(ends) - beside, gate), (max(ends) + beside, gate)]
    chart.series.append(Line(f"gate {gate}", gate_line, dashed=True, colour="#b00020"))
    return chart


def seconds_chart(report: Json) -> Chart | None:
    """Return seconds by kind of operation where they were watched, by kind of hop elsewhere."""
    seconds = {_NAMES[kind]: value for kind, value in report["totals"]["op_seconds"].items()}
    if seconds:
        counts = {_NAMES[kind]: n for kind, n in report["totals"]["counts"].items()}
        title, unit = "Evaluator: seconds by operation, all hops", "operation, and how many"
    else:
        counts = {}
        for record in report["records"]:
            seconds[record["kind"]] = seconds.get(record["kind"], 0.0) + record["wall_s"]
            counts[record["kind"]] = counts.get(record["kind"], 0) + 1
        title, unit = "Seconds by kind of hop", "hop, and how many"
    if not seconds:
        return None
    order = sorted(seconds, key=lambda kind: -seconds[kind])
    places = [f"{kind}\n{counts[kind]:,}" if kind in counts else kind for kind in order]
    chart = Chart(title, unit, "seconds", places=places)
    chart.series.append(Bars("seconds", [seconds[kind] for kind in order]))
    return chart


def bytes_chart(report: Json) -> Chart | None:
    """Return the bytes of an exchange, averaged over each hop of the first token."""
    records = [r for r in report["records"] if r["position"] == 0 and r["exchanges"]]
    if not records:
        return None
    places = ["fin" if r["layer"] is None else str(r["layer"]) for r in records]
    chart = Chart("Bytes of one exchange (first token)", "layer", "megabytes", places=places)
    for name, key in (("to the key holder", "bytes_up"), ("to the evaluator", "bytes_down")):
        chart.series.append(Bars(name, [r[key] / r["exchanges"] / _MEGABYTE for r in records]))
    return chart


def _least(pairs: Iterable[tuple[int, float | None]]) -> list[tuple[float, float]]:
    """Return (layer, least bits); what is no number is drawn as 0."""
    found: dict[int, float] = {}
    for layer, bits in pairs:
        value = 0.0 if bits is None else bits
        found[layer] = min(found.get(layer, value), value)
    return sorted((float(layer), bits) for layer, bits in found.items())
