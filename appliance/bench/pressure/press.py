"""The load test: a service, its clients, and what is checked before, meanwhile and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.bench.pressure import aftermath, verdicts
from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.crowd import Crowd
from appliance.bench.pressure.deeds import Facts
from appliance.bench.pressure.process import ServedProcess
from appliance.bench.pressure.references import REFERENCES, References
from appliance.bench.pressure.results import Plan, Results
from appliance.bench.pressure.site import copy_site
from appliance.bench.pressure.watch import Memory, Prober
from crypto.sm2 import PublicKey
from engine.errors import ConfigError

REFERENCE_TOKENS: Final = 32
POOL_CONTEXTS: Final = 4
"""How many contexts of positions the engine's cache holds."""

_BLOCK_TOKENS: Final = 64

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A running service, and what is known of it.

    Attributes:
        url: where it listens.
        operator: the text of a key with every scope.
        keys: those of the clients.
        pid: of its process, None where that is not here.
        log: the folder of its log, None where that is not here.
        anchor: of that log.
        attest_key: what its statements are verified with.
    """

    url: str
    operator: str
    keys: tuple[str, ...]
    pid: int | None = None
    log: Path | None = None
    anchor: Path | None = None
    attest_key: PublicKey | None = None


def press_site(
    config: Path, folder: Path, plan: Plan, *, context_tokens: int, progress: Progress
) -> Results:
    """Start a copy of a site, press it, and end it.

    Args:
        config: the configuration of the site.
        folder: where the copy goes; new or empty.
        plan: how.
        context_tokens: of the copy, or 0 as the site has it.
        progress: is told seconds of the load, and of how many.

    Raises:
        ConfigError, OSError: it does not start, or does not answer.
    """
    site = copy_site(config, folder, context_tokens=context_tokens)
    results = Results(plan, site.settings)
    process = ServedProcess(site.config, folder / "stderr.txt")
    exit_code: int | None = None
    try:
        target = Target(process.url, site.operator, site.keys, process.pid)
        _press(results, target, progress)
    finally:
        exit_code = process.stop()
    results.check("it ends when asked", exit_code == 0, f"exit code {exit_code}")
    aftermath.check_log(results, site.log, site.anchor, site.attest_key)
    return results


def press_target(target: Target, plan: Plan, progress: Progress) -> Results:
    """Press a service that runs, and leave it running; errors as `press_site`."""
    results = Results(plan, {})
    _press(results, target, progress)
    aftermath.check_log(results, target.log, target.anchor, target.attest_key)
    return results


def _press(results: Results, target: Target, progress: Progress) -> None:
    operator = Caller(target.url, target.operator)
    plan = results.plan
    status = operator.ask("/v1/status").value
    facts = _facts(operator, status, plan)
    references = References(operator, facts.model, facts.context_tokens, REFERENCE_TOKENS)
    results.figures["filled_tokens"] = _fill(operator, facts, plan)
    alone = {name: references.ask(name) for name in REFERENCES}
    again = [(name, *references.ask(name)) for name in REFERENCES]
    crowd = Crowd(target.url, target.keys, facts, references, plan)
    memory = None if target.pid is None else Memory(target.pid, plan.sample_s)
    if memory is not None:
        memory.start()
    prober = Prober(target.url, plan.probe_s)
    probes: list[float | None] = []
    try:
        still_there = crowd.press(progress)
    finally:
        probes = prober.stop()
        if memory is not None:
            memory.stop()
    if still_there:
        crowd.tally.fault(f"{still_there} clients did not come to an end")
    verdicts.check_answers(results, crowd.tally)
    verdicts.check_health(results, probes)
    verdicts.check_memory(results, memory)
    try:
        aftermath.check_slots(results, operator)
        after = [(name, *references.ask(name)) for name in REFERENCES]
    except ConfigError as error:
        results.check("it still answers", False, str(error))
        return
    results.check("it still answers", True, f"{len(after)} later requests")
    verdicts.check_references(results, {name: drawn for name, (drawn, _) in alone.items()},
                      {"alone": again, "under load": crowd.drawn, "after": after})  # fmt: skip
    known = dict(crowd.tally.attestations)
    keys = (*target.keys, target.operator)
    told = [name for _, _, name in (*again, *crowd.drawn, *after)]
    known |= dict.fromkeys((*told, *(name for _, name in alone.values())), (len(keys) - 1, True))
    aftermath.check_attestations(results, target.url, keys, known)
    aftermath.check_state(results, operator)


def _facts(operator: Caller, status: dict[str, Any], plan: Plan) -> Facts:
    """Return what clients have to know, the length of a prompt included."""
    model, context = status["model"]["name"], status["model"]["context_tokens"]
    probe = {"model": model, "messages": [{"role": "user", "content": "How long is this?"}]}
    usage = operator.ask(CHAT_PATH, probe | {"max_tokens": 1}).value["usage"]
    return Facts(
        model=model,
        context_tokens=context,
        body_bytes=status["requests"]["body_bytes"],
        max_tokens=min(plan.max_tokens, context // 4),
        probe=(probe, usage["prompt_tokens"]),
    )


def _fill(operator: Caller, facts: Facts, plan: Plan) -> int:
    """Ask for prompts that nobody else has until the prefix cache is full of them."""
    draw = np.random.default_rng([plan.seed, plan.clients])
    filled = 0
    number = 0
    characters = max(_BLOCK_TOKENS, facts.context_tokens - 2 * _BLOCK_TOKENS)
    while filled < (POOL_CONTEXTS + 1) * facts.context_tokens:
        text = f"{number} fills the cache. " + draw.bytes(characters // 2).hex()
        fields = {"model": facts.model, "prompt": text[:characters], "max_tokens": 1}
        usage = operator.ask(COMPLETIONS_PATH, fields).value["usage"]
        filled += max(1, usage["prompt_tokens"] // _BLOCK_TOKENS * _BLOCK_TOKENS)
        number += 1
    return filled
