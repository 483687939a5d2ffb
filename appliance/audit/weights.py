"""The weight file of an audit: what it says that it is, before anything of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.audit.claimed import Claimed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.config import ModelConfig
    from engine.model import Model
    from engine.vqf import VqfFile
    from engine.vqf.unlock import Unlock


class FileIdentity:
    """What an open file says that it is."""

    def __init__(self, file: VqfFile) -> None:
        """Look at the manifest."""
        self.model_digest = file.model_digest
        self.config: ModelConfig = file.manifest.config
        self.tokenizer_root = file.extent("tokenizer").root
        self.template_root = file.extent("template").root if file.has_extent("template") else None


def load_model(
    path: Path,
    unlock: Unlock,
    claimed: Claimed,
    *,
    num_threads: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """Load a model with room for one answer.

    Nobody is asked to vouch for it: whether it is the right one is a matter of its digest, which
    the statement names, and the statement's signers vouch for that.

    Raises:
        OSError, EngineError, KeyFileError: as `Model`.
    """
    from engine.admission import DEV  # noqa: PLC0415
    from engine.kv.cache import BLOCK_POSITIONS  # noqa: PLC0415
    from engine.model import Model  # noqa: PLC0415

    statement = claimed.statement
    positions = max(1, statement.prompt_tokens + statement.output_tokens)
    return Model(
        path,
        policy=DEV,
        unlock=unlock,
        num_threads=num_threads,
        max_positions=positions,
        # Texts that become vectors do not stand in the cache together.
        max_blocks=None if claimed.num_inputs else -(-positions // BLOCK_POSITIONS),
        progress=progress,
    )
