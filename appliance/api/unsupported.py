"""Fields of the interface that change nothing here: refused unless neutral, or ignored."""

from __future__ import annotations

from typing import Final

from appliance.api.fields import Fields
from appliance.api.json_body import Number, Value, is_text
from appliance.api.limits import (
    MAX_KEY_CHARACTERS,
    MAX_METADATA,
    MAX_METADATA_NAME_CHARACTERS,
    MAX_METADATA_VALUE_CHARACTERS,
)
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH
from appliance.api.request_error import RequestError

_ONE: Final = Number("1")

NEUTRAL: Final[dict[str, dict[str, tuple[Value, ...]]]] = {
    CHAT_PATH: {
        "n": (_ONE,),
        "audio": (),
        "function_call": ("none",),
        "functions": ([],),
        "modalities": (["text"],),
        "moderation": (),
        "prediction": (),
        "prompt_cache_options": ({},),
        "prompt_cache_retention": ("in_memory",),
        "reasoning_effort": ("none",),
        "service_tier": ("auto", "default"),
        "store": (False,),
        "verbosity": ("medium",),
        "web_search_options": (),
    },
    COMPLETIONS_PATH: {
        "n": (_ONE,),
        "best_of": (_ONE,),
        "echo": (False,),
        "suffix": ("",),
    },
    EMBEDDINGS_PATH: {"dimensions": ()},
}
"""Fields that are refused by name, with the values beside null that pass since they ask nothing."""

IGNORED_TEXTS: Final = {
    CHAT_PATH: ("user", "safety_identifier"),
    COMPLETIONS_PATH: ("user",),
    EMBEDDINGS_PATH: ("user",),
}
"""Names that a client gives its own users: read, checked, not kept."""


def refuse_meaningful(fields: Fields, path: str) -> None:
    """Take every field that is not supported.

    Raises:
        RequestError: one of them asks for something.
    """
    for name, neutral in NEUTRAL[path].items():
        fields.refuse_unless(name, neutral)
    for name in IGNORED_TEXTS[path]:
        fields.optional_text(name, MAX_KEY_CHARACTERS)
    if path == CHAT_PATH:
        _check_metadata(fields.take("metadata"))


def _check_metadata(value: Value) -> None:
    """Refuse what is no object of a few short texts."""
    if value is None:
        return
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise RequestError("metadata", f"must be an object of at most {MAX_METADATA} members")
    for name, text in value.items():
        if len(name) > MAX_METADATA_NAME_CHARACTERS:
            message = f"a name is longer than {MAX_METADATA_NAME_CHARACTERS} characters"
            raise RequestError("metadata", message)
        if not isinstance(text, str) or not is_text(text):
            raise RequestError("metadata", "every member must be a string")
        if len(text) > MAX_METADATA_VALUE_CHARACTERS:
            message = f"a value is longer than {MAX_METADATA_VALUE_CHARACTERS} characters"
            raise RequestError("metadata", message)
