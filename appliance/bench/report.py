"""Results as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from appliance.bench.cases import Series
from appliance.bench.engine import PEAK_ANSWER_TOKENS, PEAK_PROMPT_TOKENS, Results
from appliance.bench.table import table
from appliance.bench.width import WidthResults


def engine_report(results: Results) -> str:
    """Return the whole report of the engine benchmark."""
    lines = [f"# {results.weights['file']}, kernel path {results.engine['kernel_path']}", ""]
    lines += [_setting(results), ""]
    for threads in sorted({series.threads for series in results.series}):
        chosen = [series for series in results.series if series.threads == threads]
        lines += [f"## {_threads(threads)}, tokens per second", "", *_speeds(chosen), ""]
    lines += ["## Sampling (temperature 0.8, top-p 0.95)", "", *_sampling(results), ""]
    lines += ["## Peak memory", "", *_memory(results), ""]
    start = results.cold_start
    if start is not None:
        lines += [
            "## Start",
            "",
            f"From the start of `windhover generate` to its first text: {start.second_s:.2f} s "
            f"({min(start.runs_s):.2f} to {max(start.runs_s):.2f}); {start.first_s:.1f} s when "
            "every kernel had to be compiled.",
            "",
        ]
    return "\n".join(lines)


def width_report(results: WidthResults) -> str:
    """Return the report of the 8B shape."""
    header = ("case", "threads", "a layer", "the rest", "a layer's trace", "trace costs")
    rows = [
        (row.case.label, str(row.threads), f"{row.layer_ms:.2f}", f"{row.rest_ms:.2f}",
         f"{row.hash_ms:.3f}", _percent(row.trace_cost))
        for row in results.rows
    ]  # fmt: skip
    return "\n".join(
        [
            f"# 8B shape in {results.kind}, kernel path {results.engine['kernel_path']}",
            "",
            f"Milliseconds of a prefill or of one decode step, from models of 1 and "
            f"{results.num_layers} layers; the last column is for all 32.",
            "",
            *table(header, rows),
            "",
        ]
    )


def _setting(results: Results) -> str:
    machine = results.machine
    text = f"{machine['cpu']}, {machine['usable_cores']} cores, {machine['system']}; "
    text += f"load average before {results.load_before}."
    if results.rival is not None:
        rival = results.rival
        text += f" llama.cpp {rival.get('build_commit', '?')} on {rival['gguf']}."
    return text


def _speeds(chosen: Sequence[Series]) -> list[str]:
    rows = []
    with_rival = any(series.rival for series in chosen)
    for series in chosen:
        row = [series.case.label, _rate(series.plain), _rate(series.traced)]
        row.append(_percent(statistics.median(series.trace_costs)))
        if with_rival:
            ratios = series.ratios
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            row += [_rate(series.rival), f"{statistics.median(ratios):.2f}", spread]
            row += [f"{series.best_ratio:.2f}", _attention(series)]
        rows.append(row)
    header = ["case", "windhover", "with trace", "trace costs"]
    if with_rival:
        header += ["llama.cpp", "ratio", "rounds", "of best", "its attention"]
    return table(header, rows)


def _sampling(results: Results) -> list[str]:
    rows = [
        (str(threads), f"{times['step_s'] * 1e3:.2f} ms", f"{times['sample_s'] * 1e3:.3f} ms",
         _percent(times["sample_s"] / times["step_s"]))
        for threads, times in results.sampling.items()
    ]  # fmt: skip
    return table(("threads", "decode step", "sampling", "share"), rows)


def _memory(results: Results) -> list[str]:
    header = ["threads", "windhover"]
    with_rival = any(memory.rival for memory in results.memory)
    rows = []
    for memory in results.memory:
        row = [str(memory.threads), _megabytes(memory.ours.max_rss_bytes)]
        if memory.rival is not None:
            difference = memory.ours.max_rss_bytes - memory.rival.max_rss_bytes
            row += [_megabytes(memory.rival.max_rss_bytes), _megabytes(difference)]
        rows.append(row)
    what = f"Largest resident set for {PEAK_PROMPT_TOKENS} prompt tokens and {PEAK_ANSWER_TOKENS}"
    lines = table(header + (["llama.cpp", "difference"] if with_rival else []), rows)
    return [f"{what} of an answer, file pages included.", "", *lines]


def _attention(series: Series) -> str:
    return {True: "flash", False: "plain", None: "default"}[series.rival_flash_attention]


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _rate(values: Sequence[float]) -> str:
    median = statistics.median(values)
    return f"{median:.0f}" if median >= 100 else f"{median:.1f}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"
