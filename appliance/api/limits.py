"""How much of everything a request may have."""

from __future__ import annotations

from typing import Final

MAX_MODEL_CHARACTERS: Final = 200
MAX_MESSAGES: Final = 10_000
MAX_PARTS: Final = 1_000
MAX_CALLS: Final = 128
MAX_CALL_ID_CHARACTERS: Final = 256
MAX_ARGUMENTS_CHARACTERS: Final = 1 << 20
MAX_TOOLS: Final = 64
MAX_DESCRIPTION_CHARACTERS: Final = 16_384
MAX_SCHEMA_CHARACTERS: Final = 1 << 18
MAX_KEY_CHARACTERS: Final = 256
MAX_METADATA: Final = 16
MAX_METADATA_NAME_CHARACTERS: Final = 64
MAX_METADATA_VALUE_CHARACTERS: Final = 512
MAX_INPUTS: Final = 256
MAX_SEED: Final = (1 << 64) - 1
MAX_INT32: Final = (1 << 31) - 1
