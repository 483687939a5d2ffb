"""One measured run: an engine in a cgroup, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from appliance.bench.cgroup import MemoryGroup, NotMeasurableError, memory_group
from appliance.bench.charge import Charge
from appliance.bench.disk import Disk
from appliance.bench.memory import last_line
from appliance.bench.memory_plan import MemoryPlan
from appliance.bench.memory_run import MemoryRun
from appliance.bench.pages import available_bytes, evict, resident_bytes, warm
from appliance.bench.sampler import Sampler
from engine.errors import ConfigError
from engine.vqf.reader import outline

WORKER: Final = "import sys; from appliance.bench.resident_worker import main; sys.exit(main())"
"""The program of the measured process."""

_FOLLOWING: Final = {"loaded": "prefill", "prefilled": "decode"}
_LEAVING: Final = 100
"""One part in so many of a cached file may be reclaimed meanwhile; what returns is charged."""

_SLACK_BYTES: Final = 2 << 20
"""Of what a group says it is charged: processors add up in batches of 64 pages."""


def measure_memory(plan: MemoryPlan, *, disk_bytes_per_s: float | None = None) -> MemoryRun:
    """Run an engine in a cgroup of its own and watch it.

    Args:
        plan: what to run.
        disk_bytes_per_s: how fast the disk was found to be, for the evidence.

    Raises:
        OSError: the file cannot be read, or the process cannot be started.
        ConfigError: the process failed; the message is its own.
        NotMeasurableError: there is no cgroup to use, swap was used, or the file's pages were not
            where the state says; the reasons are in README.md.
    """
    status, form = plan.file.stat(), outline(plan.file).preamble.form.name.lower()
    before = _prepare(plan)
    with _kv_folder(plan) as kv_folder, memory_group(plan.limit_bytes) as group:
        _require_swap_account(group)
        facts: dict[str, Any] = {}
        with (
            tempfile.TemporaryFile("w+", errors="replace") as errors,
            _started(group, plan.as_settings(kv_folder), errors) as process,
            Sampler(group, process.pid, status.st_dev, status.st_ino, "load") as sampler,
        ):
            for told in _told(process):
                phase = told.pop("phase")
                if phase == "failed":
                    raise _failure(told)
                facts |= told
                if phase == "answered":
                    sampler.sample()
                    break
                sampler.enter(_FOLLOWING[phase])
            if process.stdin is not None:
                process.stdin.close()
            exit_code = process.wait()
            kills = group.kills()
            if exit_code and not kills:
                errors.seek(0)
                reason = last_line(errors.read())
                raise ConfigError(f"the measured process ended with {exit_code}: {reason}")
        peak = sampler.peak
        # Pages that the run left are counted before the group goes, which gives them back.
        after = resident_bytes(plan.file)
        charged_after = group.charge().page_cache
        version = group.version
    outcome = "killed" if kills else "answered"
    check_run(plan, peak, outcome, before=before, after=after, charged_after=charged_after)
    return MemoryRun(
        plan,
        outcome,
        version,
        form,
        status.st_size,
        before,
        after,
        peak,
        sampler.phases,
        sampler.mapped.model,
        sampler.mapped.others,
        sampler.num_samples,
        facts,
        Disk.of(plan.file),
        disk_bytes_per_s,
    )


def _failure(told: dict[str, Any]) -> Exception:
    """Return what ended the measured process, from its own words."""
    kind, message = told["kind"], told["error"]
    if kind == NotMeasurableError.__name__:
        return NotMeasurableError(told["reason"], message)
    return ConfigError(f"{kind}: {message}")


@contextmanager
def _kv_folder(plan: MemoryPlan) -> Iterator[str | None]:
    """Make a folder beside the weights for what of the key/value cache spills."""
    if plan.kv_budget_bytes is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="windhover-kv-", dir=plan.file.parent) as folder:
        yield folder


def _prepare(plan: MemoryPlan) -> int:
    """Bring the file's pages where the state says; return how many bytes are in memory."""
    if plan.state == "cached":
        size = plan.file.stat().st_size
        needed = size + plan.limit_bytes
        if available_bytes() + resident_bytes(plan.file) < needed:
            message = f"a cached file of {size} bytes needs {needed} bytes of free memory"
            raise NotMeasurableError("memory", message)
        warm(plan.file)
        found = resident_bytes(plan.file)
        if found < size - size // _LEAVING:
            message = f"only {found} of {size} bytes of {plan.file} stay in the page cache"
            raise NotMeasurableError("cache", message)
        return found
    evict(plan.file)
    found = resident_bytes(plan.file)
    if found:
        message = f"{found} bytes of {plan.file} stay in memory: others use it"
        raise NotMeasurableError("resident", message)
    return found


def check_run(
    plan: MemoryPlan, peak: Charge, outcome: str, *, before: int, after: int, charged_after: int
) -> None:
    """Refuse a run that used swap, or that did not have the file's pages where the state says.

    Args:
        plan: what was run.
        peak: its largest charges.
        outcome: as of `MemoryRun`; where it was killed the pages tell nothing.
        before: bytes of the file in memory before.
        after: the same after the run.
        charged_after: page cache that the group was charged for then.

    Raises:
        NotMeasurableError: reason `swap`, `resident` or `cache`.
    """
    if peak.swap:
        raise NotMeasurableError("swap", f"{peak.swap} bytes were moved out to swap")
    if outcome != "answered":
        return
    if plan.state == "cached":
        if after < before - before // _LEAVING:
            message = f"{before - after} bytes of {plan.file} left the page cache meanwhile"
            raise NotMeasurableError("cache", message)
    elif after > charged_after + _SLACK_BYTES:
        message = f"{after} bytes of {plan.file} are in memory, {charged_after} charged to the run"
        raise NotMeasurableError("resident", message)


def _require_swap_account(group: MemoryGroup) -> None:
    """Refuse where the system has swap and the group does not tell what of it is used."""
    swaps = Path("/proc/swaps").read_text(encoding="utf-8", errors="replace").splitlines()
    if len(swaps) > 1 and not group.tells_swap:
        raise NotMeasurableError("swap", "the kernel does not tell how much swap a group uses")


@contextmanager
def _started(
    group: MemoryGroup, settings: dict[str, Any], errors: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """Start the measured process inside the group; it is ended and reaped at the end."""
    program = [sys.executable, "-c", WORKER, json.dumps(settings)]
    process = subprocess.Popen(  # noqa: S603 - this interpreter, a program of this package
        group.command(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=_environment(),
    )
    try:
        _wait_for_exec(process)
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _environment() -> dict[str, str]:
    """Return this environment, with the folders that modules are found in."""
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def _wait_for_exec(process: subprocess.Popen[str]) -> None:
    """Wait until the launcher is gone: its mappings are not those of the program."""
    link = Path(f"/proc/{process.pid}/cmdline")
    end_s = time.monotonic() + 10
    while process.poll() is None and b"-S" in link.read_bytes().split(b"\0")[:3]:
        if time.monotonic() > end_s:
            raise ConfigError("the measured process does not start")
        time.sleep(0.001)


def _told(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the process says until it ends."""
    for line in process.stdout or ():
        told: dict[str, Any] = json.loads(line)
        yield told
