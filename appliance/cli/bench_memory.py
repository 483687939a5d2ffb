"""`windhover bench memory`: how much memory a model takes, as a cgroup is charged for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.errors import EXIT_BAD
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import note, printable, write_json
from crypto.atomic import AtomicFile
from crypto.secret import STANDARD_INPUT
from engine.memory.residency import DEFAULT_WINDOW_BYTES, MODES, Mode, Residency

if TYPE_CHECKING:
    from appliance.bench.memory_plan import State
    from appliance.bench.memory_run import MemoryRun

_MEGABYTE = 1_000_000
_MEBIBYTE = 1 << 20
_SPEED_BYTES = 512 << 20


@click.command()
@weights_argument
@click.option("--mode", type=click.Choice(MODES), default="full", show_default=True)
@click.option(
    "--state", type=click.Choice(["bounded", "cached"]), default="bounded", show_default=True,
    help="bounded: nothing of FILE is in memory before, and it is dropped after use. cached: all "
    "of it is, charged to somebody else.",
)  # fmt: skip
@click.option("--context", type=click.IntRange(2, 1 << 20), default=1024, show_default=True,
              help="Positions of prompt and answer.")  # fmt: skip
@click.option("--prefill-chunk", "chunk", type=click.IntRange(1, 1 << 16), default=128,
              show_default=True)  # fmt: skip
@click.option("--tokens", type=click.IntRange(1, 1 << 16), default=16, show_default=True)
@click.option("--limit-mb", type=click.IntRange(16, 1 << 24), default=1000, show_default=True,
              help="Of the cgroup: more is killed.")  # fmt: skip
@click.option("--window-mb", type=click.IntRange(1, 1 << 14),
              default=DEFAULT_WINDOW_BYTES // _MEBIBYTE, show_default=True,
              help="In units of 2^20 bytes.")  # fmt: skip
@click.option("--keep-layers", type=click.IntRange(1, 1 << 16), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(1, 256), help="By default all usable cores.")
@click.option("--kv-budget-mb", type=click.IntRange(1, 1 << 24),
              help="Memory of the key/value cache; the rest spills to a file.")  # fmt: skip
@click.option("--synthetic-kv", is_flag=True,
              help="Fill the cache with positions that nobody computed: a prefill of a very long "
              "context takes hours. The run has no trace.")  # fmt: skip
@click.option("--with-disk-speed", is_flag=True, help="Measure it before, for the evidence.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="Write the evidence to a file of its own there.")  # fmt: skip
@unlock_options(key="--unseal-key", secret="--passphrase-file")  # noqa: S106  (a name)
@json_option
def command(
    path: Path,
    mode: Mode,
    state: State,
    context: int,
    chunk: int,
    tokens: int,
    limit_mb: int,
    window_mb: int,
    keep_layers: int,
    threads: int | None,
    kv_budget_mb: int | None,
    synthetic_kv: bool,
    with_disk_speed: bool,
    out: Path | None,
    credentials: Credentials,
    as_json: bool,
) -> int:
    """Run a model inside a memory cgroup and print what it is charged.

    Nothing is reported (exit code 3) where no cgroup can be made, where swap was used, or where
    pages of FILE were in memory elsewhere. Exit code 1 says that the limit killed the run.
    """
    from appliance.bench.memory_plan import MemoryPlan  # noqa: PLC0415 - with the benchmark
    from appliance.bench.resident import measure_memory  # noqa: PLC0415 - takes NumPy

    if STANDARD_INPUT in (credentials.key_passphrase, credentials.passphrase):
        raise click.UsageError("the measured process has no standard input: name a file")
    plan = MemoryPlan(
        path,
        Residency(
            mode,
            window_bytes=window_mb * _MEBIBYTE,
            keep_layers=keep_layers,
            drop_page_cache=state == "bounded",
        ),
        state,
        context=context,
        chunk=chunk,
        tokens=tokens,
        limit_bytes=limit_mb * _MEGABYTE,
        threads=threads,
        kv_budget_bytes=None if kv_budget_mb is None else kv_budget_mb * _MEGABYTE,
        is_synthetic=synthetic_kv,
        keys=credentials.keys,
        key_passphrase=credentials.key_passphrase,
        passphrase=credentials.passphrase,
    )
    speed = _disk_speed(path) if with_disk_speed else None
    run = measure_memory(plan, disk_bytes_per_s=speed)
    evidence = run.as_json()
    exit_code = 0 if run.outcome == "answered" else EXIT_BAD
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        with AtomicFile(out / run.evidence_name, force=False) as file:
            file.create()
            file.write_at(0, json.dumps(evidence, indent=1, allow_nan=False).encode() + b"\n")
            file.commit()
    if as_json:
        write_json(evidence | {"exit_code": exit_code})
    else:
        for line in _lines(run):
            click.echo(printable(line))
    if exit_code:
        note(f"the limit of {limit_mb} MB killed the run")
    if run.facts.get("compiled_functions"):
        note("kernels were compiled in this run; run it again, with those in the cache")
    return exit_code


def _disk_speed(path: Path) -> float:
    from appliance.bench.reading import direct_speed  # noqa: PLC0415 - takes NumPy

    return direct_speed(path, _SPEED_BYTES)


def _lines(run: MemoryRun) -> list[str]:
    """Return the report."""
    from dataclasses import fields  # noqa: PLC0415 - as below

    from appliance.bench.charge import Charge  # noqa: PLC0415 - with the benchmark
    from appliance.bench.table import table  # noqa: PLC0415

    names = [field.name for field in fields(Charge)]
    rows = [
        (phase, *(_mb(getattr(charge, name)) for name in names))
        for phase, charge in (*run.phases.items(), ("peak", run.peak))
    ]
    header = ("phase, MB", *(name.replace("_", " ") for name in names))
    plan, facts = run.plan, run.facts
    kept = plan.residency
    lines = [
        f"{plan.file.name} ({run.form}, {_mb(run.file_bytes)} MB), {kept.mode}, {plan.state}, "
        f"context {plan.context}, chunks of {plan.chunk}, limit {_mb(plan.limit_bytes)} MB",
        "",
        *table(header, rows),
        "",
        f"mapped of other files      {_mb(run.mapped_others)} MB, whoever is charged",
        f"counts                     {_mb(run.counted_bytes)} MB",
        f"of the file in memory      {_mb(run.resident_before)} MB before, "
        f"{_mb(run.resident_after)} MB after",
    ]
    if "load_s" in facts:
        lines.append(f"load                       {facts['load_s']:.2f} s")
    if facts.get("prefill_s"):
        rate = facts["prompt_tokens"] / facts["prefill_s"]
        lines.append(f"prefill                    {rate:.1f} tokens/s")
    if facts.get("steps_s"):
        from statistics import median  # noqa: PLC0415 - as above

        lines.append(f"decode                     {median(facts['steps_s']):.4f} s/token")
    if "synthetic" in facts:
        made = facts["synthetic"]
        lines.append(
            f"synthetic                  {made['positions']} positions in {made['fill_s']:.1f} s; "
            f"logits {made['logits_digest']}"
        )
    if "kv" in facts:
        kv = facts["kv"]
        lines.append(
            f"cache                      {_mb(kv['in_memory_bytes'])} MB in memory, "
            f"{_mb(kv['spilled_at_most'] * kv['block_bytes'])} MB in the file at most"
        )
    if "trace_root" in facts:
        lines.append(f"ids, trace                 {facts['ids_digest']} {facts['trace_root']}")
    return lines


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / _MEGABYTE:.1f}"
