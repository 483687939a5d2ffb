"""What one measurement of memory runs, and within which limit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import ConfigError
from engine.memory.residency import Residency

State = Literal["bounded", "cached"]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What to run, and within which limit.

    Attributes:
        file: the weights.
        residency: how they are kept; its `drop_page_cache` belongs to state `bounded`.
        state: `bounded`: nothing of the file is in memory at the start, so that whatever comes is
            charged to the run. `cached`: all of it is, charged to somebody else.
        context: positions in all: those of the prompt and `tokens`.
        chunk: most positions of the prompt in one step.
        tokens: how many to generate.
        limit_bytes: of the group.
        threads: by default all usable cores.
        kv_budget_bytes: most memory of the key/value cache; the rest spills to a file.
        is_synthetic: whether the positions before the answer are random keys and values that
            nobody computed: their prefill would take hours. There is no trace then.
        keys: files of private keys that open the weights.
        key_passphrase: where their passphrase is.
        passphrase: where that of the weights is.
    """

    file: Path
    residency: Residency
    state: State = "bounded"
    context: int = 1024
    chunk: int = 128
    tokens: int = 16
    limit_bytes: int = 1_000_000_000
    threads: int | None = None
    kv_budget_bytes: int | None = None
    is_synthetic: bool = False
    keys: tuple[Path, ...] = ()
    key_passphrase: str | None = None
    passphrase: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run; ConfigError."""
        if self.tokens < 1 or self.chunk < 1:
            raise ConfigError("at least one token is generated, and a chunk has at least one")
        if self.context <= self.tokens:
            raise ConfigError(f"a context of {self.context} has no room for {self.tokens} tokens")
        if self.state == "cached" and self.residency.drop_page_cache:
            raise ConfigError("what is to stay cached cannot be dropped after use")

    def as_settings(self, kv_folder: str | None) -> dict[str, Any]:
        """Return what the measured process is told."""
        return {
            "file": str(self.file),
            "residency": asdict(self.residency),
            "context": self.context,
            "chunk": self.chunk,
            "tokens": self.tokens,
            "threads": self.threads,
            "kv_budget_bytes": self.kv_budget_bytes,
            "kv_folder": kv_folder,
            "is_synthetic": self.is_synthetic,
            "keys": [str(path) for path in self.keys],
            "key_passphrase": self.key_passphrase,
            "passphrase": self.passphrase,
        }
