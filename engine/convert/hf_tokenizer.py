"""The tokenizer, special ids and chat template of a checkpoint folder.

tokenizer.json goes into the VQF file byte for byte, unless it truncates or pads: that would change
prompts silently, so both are taken out.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from engine.config import TokenizerConfig
from engine.convert.checkpoint import Text
from engine.convert.jsonfile import parse_json, read_file, read_json
from engine.convert.settings import Settings
from engine.convert.tokenizer import check_text, check_vocabulary, guarded, load_tokenizer
from engine.errors import ConversionError
from engine.vqf.format import MAX_RAW_BYTES

_MAX_ENDS: Final = 64


def read_text(folder: Path, config: Settings, vocab_size: int, *, embeds: bool = False) -> Text:
    """Read what turns text into ids and back.

    Args:
        folder: The checkpoint.
        config: The object in config.json.
        vocab_size: Rows of the embedding.
        embeds: Whether the model makes vectors of texts, whose end the tokenizer may mark.

    Raises:
        ConversionError: Something is missing, damaged, or does not fit the embedding.
        OSError: A file cannot be read.
    """
    tokenizer_json = _plain(read_file(folder / "tokenizer.json", MAX_RAW_BYTES["tokenizer"]))
    tokenizer = load_tokenizer(tokenizer_json)
    check_vocabulary(tokenizer, vocab_size)
    settings = _optional(folder, "tokenizer_config.json")
    generation = _optional(folder, "generation_config.json")
    bos = _bos_id(settings, config, tokenizer)
    ends = _ids(generation, "eos_token_id") | _ids(config, "eos_token_id")
    end = _token_id(settings, "eos_token", tokenizer)
    if end is not None:
        ends.add(end)
    if bos is not None:
        _check_ids({bos}, vocab_size)
    _check_ids(ends, vocab_size)
    special = TokenizerConfig(
        bos_id=bos,
        eos_ids=tuple(sorted(ends)),
        add_bos=_adds_bos(settings, tokenizer, bos),
        embedding_end_id=_end_id(tokenizer) if embeds else None,
    )
    return check_text(Text(special, tokenizer_json, _read_template(folder, settings)))


def _plain(tokenizer_json: bytes) -> bytes:
    """Return a tokenizer.json that neither truncates nor pads."""
    document = parse_json(tokenizer_json, "tokenizer.json")
    if document.get("truncation") is None and document.get("padding") is None:
        return tokenizer_json
    document |= {"truncation": None, "padding": None}
    text = json.dumps(
        document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_number
    )
    return text.encode("utf-8")


def _number(value: object) -> float:
    """Write a `Decimal` of a tokenizer.json (scores, dropout) as the float it will be read as."""
    if not isinstance(value, Decimal):
        raise TypeError(f"{type(value).__name__} in JSON")
    return float(value)


def _optional(folder: Path, name: str) -> Settings:
    path = folder / name
    return Settings(read_json(path) if path.exists() else {}, name)


def _token_id(settings: Settings, key: str, tokenizer: Tokenizer) -> int | None:
    """The id of a token that tokenizer_config.json names, as a string or as an object."""
    token = settings.raw(key)
    if isinstance(token, dict):
        token = token.get("content")
    if token is None:
        return None
    found = tokenizer.token_to_id(token) if isinstance(token, str) else None
    if found is None:
        raise settings.fail(key, "is not a token of tokenizer.json")
    return int(found)


def _bos_id(settings: Settings, config: Settings, tokenizer: Tokenizer) -> int | None:
    """What tokenizer_config.json says, even that there is none; else what config.json says."""
    if settings.has("bos_token"):
        return _token_id(settings, "bos_token", tokenizer)
    ids = _ids(config, "bos_token_id")
    return min(ids) if ids else None


def _ids(settings: Settings, key: str) -> set[int]:
    value = settings.raw(key)
    values = value if isinstance(value, list) else [] if value is None else [value]
    if len(values) > _MAX_ENDS or not all(type(item) is int for item in values):
        raise settings.fail(key, "is neither an id nor a short list of ids")
    return set(values)


def _check_ids(ids: set[int], vocab_size: int) -> None:
    if len(ids) > _MAX_ENDS:
        raise ConversionError(f"more than {_MAX_ENDS} ids end an answer")
    for i in ids:
        if not 0 <= i < vocab_size:
            raise ConversionError(
                f"the special id {i} is outside the embedding's {vocab_size} rows"
            )


def _adds_bos(settings: Settings, tokenizer: Tokenizer, bos: int | None) -> bool:
    """Whether a raw prompt starts with bos: by the setting, else by what the tokenizer does."""
    if bos is None:
        return False
    said = settings.optional_boolean("add_bos_token")
    if said is not None:
        return said

    def first_id(*, special: bool) -> int | None:
        ids = guarded(lambda: tokenizer.encode("a", add_special_tokens=special).ids)
        return ids[0] if ids else None

    return first_id(special=True) == bos != first_id(special=False)


def _end_id(tokenizer: Tokenizer) -> int | None:
    """The id that the tokenizer puts behind a text, None where it puts none."""
    plain = guarded(lambda: tokenizer.encode("a", add_special_tokens=False).ids)
    whole = guarded(lambda: tokenizer.encode("a", add_special_tokens=True).ids)
    return int(whole[-1]) if whole and whole[-1:] != plain[-1:] else None


def _read_template(folder: Path, settings: Settings) -> bytes | None:
    """The file of its own if there is one, else the (default) entry of tokenizer_config.json."""
    path = folder / "chat_template.jinja"
    if path.exists():
        data = read_file(path, MAX_RAW_BYTES["template"])
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            raise ConversionError(f"{path}: not UTF-8") from None
        return data or None
    template = settings.raw("chat_template")
    if isinstance(template, list):
        named = [entry for entry in template if isinstance(entry, dict)]
        template = next((e.get("template") for e in named if e.get("name") == "default"), None)
    if template is None or template == "":
        return None
    if not isinstance(template, str):
        raise settings.fail("chat_template", "is not a string")
    return template.encode("utf-8")
