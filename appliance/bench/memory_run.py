"""What one measurement of memory found, and the evidence of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from appliance.bench.cases import spread
from appliance.bench.charge import Charge
from appliance.bench.disk import Disk
from appliance.bench.machine import load_average, machine_facts
from appliance.bench.memory_plan import MemoryPlan

SCHEMA: Final = "windhover-bench-memory/1"


@dataclass(frozen=True, slots=True)
class MemoryRun:
    """What a run took.

    Attributes:
        plan: what was run.
        outcome: `answered`, or `killed` where the limit was too low.
        group_version: of the cgroup.
        form: of the file: `plain`, `signed` or `sealed`.
        file_bytes: size of the file.
        resident_before, resident_after: bytes of the file that were in memory, whoever had them.
        peak: the largest charges of the run.
        phases: the largest charges of each phase.
        mapped_model, mapped_others: the largest file mappings that the process had in memory.
        samples: how often it was looked at.
        facts: what the process itself told.
        disk: where the file is, and how fast it was read just before, if that was asked for.
    """

    plan: MemoryPlan
    outcome: str
    group_version: int
    form: str
    file_bytes: int
    resident_before: int
    resident_after: int
    peak: Charge
    phases: dict[str, Charge]
    mapped_model: int
    mapped_others: int
    samples: int
    facts: dict[str, Any]
    disk: Disk
    disk_bytes_per_s: float | None = None
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_after: float = field(default_factory=load_average)

    @property
    def counted_bytes(self) -> int:
        """The figure that counts: the whole charge, and all that is mapped of other files.

        Libraries that were in memory already are charged to somebody else; all of them are added,
        also those that the run itself brought and is charged for, so this is an upper bound.
        """
        return self.peak.whole + self.mapped_others

    def as_json(self) -> dict[str, object]:
        """Return the evidence; its fields are documented in README.md."""
        plan, facts = self.plan, dict(self.facts)
        steps = facts.pop("steps_s", [])
        prefill_s, prompt_tokens = facts.pop("prefill_s", None), facts.pop("prompt_tokens", None)
        kv, synthetic = facts.pop("kv", None), facts.pop("synthetic", None)
        load_s = facts.pop("load_s", None)
        return {
            "schema": SCHEMA,
            "outcome": self.outcome,
            "machine": self.machine,
            "load_average": self.load_after,
            "cgroup_version": self.group_version,
            "file": {
                "name": plan.file.name,
                "form": self.form,
                "bytes": self.file_bytes,
                "model_digest": facts.pop("model_digest", None),
                "resident_before_bytes": self.resident_before,
                "resident_after_bytes": self.resident_after,
            },
            "disk": {**self.disk._asdict(), "read_bytes_per_s": self.disk_bytes_per_s},
            "plan": {
                **asdict(plan.residency),
                "state": plan.state,
                "context": plan.context,
                "chunk": plan.chunk,
                "tokens": plan.tokens,
                "kv_budget_bytes": plan.kv_budget_bytes,
                "is_synthetic": plan.is_synthetic,
                "limit_bytes": plan.limit_bytes,
            },
            "memory": {
                "peak": self.peak.as_json(),
                "phases": {name: charge.as_json() for name, charge in self.phases.items()},
                "mapped_of_file_bytes": self.mapped_model,
                "mapped_of_others_bytes": self.mapped_others,
                "counted_bytes": self.counted_bytes,
                "samples": self.samples,
            },
            "timings": {
                "load_s": load_s,
                "prompt_tokens": prompt_tokens,
                "prefill_s": prefill_s,
                "prefill_tokens_per_s": prompt_tokens / prefill_s if prefill_s else None,
                "s_per_token": spread(steps) if steps else None,
            },
            "process": facts,
            "kv": kv,
            "synthetic": synthetic,
        }

    @property
    def evidence_name(self) -> str:
        """A file name that tells runs of different plans apart."""
        plan = self.plan
        parts: Sequence[str] = (
            "memory",
            plan.file.stem,
            plan.residency.mode,
            plan.state,
            f"c{plan.context}",
            f"k{plan.residency.keep_layers}",
        )
        return "-".join(parts) + time.strftime("-%Y%m%dT%H%M%SZ", time.gmtime()) + ".json"
