"""A report as Markdown, for people; every number in it stands in report.json as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from he_chain.reports.report import Json


def report_as_markdown(report: Json, pictures: Sequence[str] = ()) -> str:
    """Return the document.

    Args:
        report: as `build_report` or `decode_report` gives it.
        pictures: names of SVG files that lie beside it.
    """
    begin, flow = report["begin"], report["flow"]
    parts = [
        f"# {_first_line(report)}",
        _verdict(report),
        "## What ran",
        _table(("", ""), _what_ran(begin, flow, report["totals"])),
    ]
    if report["measured"] is not None:
        parts += ["## Precision", _precision(report)]
    parts += ["## Hops", _hops(report["records"])]
    for side, title in (("holder", "key holder"), ("evaluator", "evaluator")):
        parts += [f"## What the {title} saw", _ledger(report["ledger"][side])]
    claims = [claim for claim in begin["claims"] if claim not in report["limits"]]
    parts += ["## Claims of the protocol", _list(claims)]
    parts += ["## Limits", _list(report["limits"])]
    if pictures:
        parts += ["## Pictures", "\n\n".join(f"![{name}]({name})" for name in pictures)]
    return "\n\n".join(parts) + "\n"


def _first_line(report: Json) -> str:
    begin = report["begin"]
    return f"Homomorphic run {begin['run_id'][:8]}: {begin['protocol']}, {_verdict_word(report)}"


def _verdict_word(report: Json) -> str:
    return str(report["verdict"]["verdict"])


def _verdict(report: Json) -> str:
    """Say what the numbers say, and apart from it whether the flow finished."""
    verdict, flow = report["verdict"], report["flow"]
    least = ", ".join(
        f"{tensor} against {name} {_bits(bits)}"
        for tensor, row in sorted(verdict["least_bits"].items())
        for name, bits in row.items()
    )
    lines = [
        f"**{verdict['verdict']}**: {verdict['checkpoints']} checkpoints measured, "
        f"{len(verdict['below'])} below the gate of {verdict['gate_bits']} bits or with another "
        f"argmax, {verdict['not_measured']} not measured.",
        f"Least bits: {least or 'none measured'}.",
        f"Flow: {'finished' if flow['finished'] else 'not finished'}, {flow['hops']} hops, "
        f"{flow['positions']} tokens through all layers, logits of {flow['logits']}. "
        "That the flow finished says nothing about precision.",
    ]
    return "\n\n".join(lines)


def _what_ran(begin: Json, flow: Json, totals: Json) -> list[tuple[str, str]]:
    chain = begin["parameters"]
    last = begin["first_layer"] + begin["num_layers"] - 1
    return [
        ("model", f"`{begin['model_digest']}`"),
        ("plan", f"`{begin['plan_digest']}`"),
        ("calibration", f"`{begin['calibration_digest']}`"),
        ("layers", f"{begin['first_layer']} .. {last}, width {begin['width']}"),
        ("backend", begin["backend"]),
        ("libraries", ", ".join(f"{k} {v}" for k, v in sorted(begin["libraries"].items()))),
        ("security", begin["security"]),
        (
            "parameters",
            f"N = {chain['ring_degree']}, {chain['num_levels']} levels of {chain['scale_bits']} "
            f"bits, first prime {chain['first_bits']}, special prime {chain['special_bits']}",
        ),
        ("operations", ", ".join(f"{n} {k}" for k, n in sorted(totals["counts"].items()))),
        (
            "exchanges",
            f"{totals.get('exchanges', 0)}: {_megabytes(totals.get('bytes_up', 0))} to the key "
            f"holder, {_megabytes(totals.get('bytes_down', 0))} to the evaluator",
        ),
        ("time", f"{totals['cpu_s']:.1f} s CPU of the evaluator, {totals['wall_s']:.1f} s in all"),
        ("memory", f"{_megabytes(totals['peak_rss_bytes'])} at most, evaluator"),
    ]


def _precision(report: Json) -> str:
    measured = report["measured"]
    names = measured["references"]
    head = ["hop", "token", "layer", "tensor"]
    for name in names:
        head += [f"bits, {name}", f"max error, {name}"]
    head += ["mean, exact", "99 %, exact", "argmax", "top 5"]
    if len(names) > 1:
        head.append("bits, wh1-float to exact")
    rows = []
    for one in measured["checkpoints"]:
        row = [str(one["number"]), str(one["position"]), _layer(one["layer"]), one["tensor"]]
        for name in names:
            figures = one["against"][name]
            row += [_bits(figures["bits"]), _error(figures["max_error"])]
        exact = one["against"]["exact"]
        row += [_error(exact["mean_error"]), _error(exact["p99_error"])]
        row += [_equal(one["argmax_equal"]), _equal(one["top5_equal"])]
        if len(names) > 1:
            distance = one["profile_distance"]
            row.append("" if distance is None else _bits(distance["bits"]))
        rows.append(row)
    return _table(head, rows)


def _hops(records: Sequence[Json]) -> str:
    head = ["hop", "kind", "token", "layer", "level in", "level out", "rotations", "ct x pt"]
    head += ["ct x ct", "exchanges", "MB up", "MB down", "CPU s", "wall s", "peak MB", "digest"]
    rows = []
    for r in records:
        counts = r["counts"]
        rows.append(
            [
                str(r["number"]),
                r["kind"],
                str(r["position"]),
                _layer(r["layer"]),
                _most_level(r["inputs"]),
                _most_level(r["outputs"]),
                *(str(counts.get(kind, 0)) for kind in ("rotations", "ct_pt", "ct_ct")),
                str(r["exchanges"]),
                f"{r['bytes_up'] / 1e6:.2f}",
                f"{r['bytes_down'] / 1e6:.2f}",
                f"{r['cpu_s']:.2f}",
                f"{r['wall_s']:.2f}",
                f"{r['peak_rss_bytes'] / 1e6:.0f}",
                f"`{r['digest'][:12]}`",
            ]
        )
    return _table(head, rows)


def _ledger(rows: Sequence[Json]) -> str:
    if not rows:
        return "Nothing is written down."
    head = ("tensor", "times", "values", "bits of each", "bits in all")
    return _table(
        head,
        [
            [row["tensor"], *(str(row[key]) for key in ("times", "values", "bits", "total_bits"))]
            for row in rows
        ],
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_cell(line)}" for line in lines)


def _layer(layer: int | None) -> str:
    return "head" if layer is None else str(layer)


def _most_level(blobs: Sequence[Json]) -> str:
    return str(max(blob["level"] for blob in blobs)) if blobs else ""


def _bits(bits: float | None) -> str:
    return "no number" if bits is None else f"{bits:.2f}"


def _error(error: float | None) -> str:
    return "no number" if error is None else f"{error:.3e}"


def _equal(by_reference: Json) -> str:
    """Say whether all references agree; nothing for a residual."""
    return {True: "equal", False: "OTHER"}[all(by_reference.values())] if by_reference else ""


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
