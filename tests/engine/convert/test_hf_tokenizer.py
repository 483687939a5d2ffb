"""The tokenizer of a checkpoint folder: taken byte for byte, special ids from three files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, models, processors

from engine.config import TokenizerConfig
from engine.convert.checkpoint import Text
from engine.convert.hf_tokenizer import read_text
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError
from tests.engine.convert.support import edit_json, tiny_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model", "qwen3_tiny")


def read(folder: Path, vocab_size: int = 512, **config: Any) -> Text:
    return read_text(folder, Settings(config, "config.json"), vocab_size)


def test_the_file_is_taken_byte_for_byte(folder: Path):
    text = read(folder)
    assert text.tokenizer_json == (folder / "tokenizer.json").read_bytes()
    assert text.config == TokenizerConfig(bos_id=None, eos_ids=(412,), add_bos=False)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert text.template == settings["chat_template"].encode()


def test_ends_come_from_three_files(folder: Path):
    edit_json(folder / "generation_config.json", eos_token_id=[410, 412])
    assert read(folder).config.eos_ids == (410, 412)
    assert read(folder, eos_token_id=3).config.eos_ids == (3, 410, 412)
    edit_json(folder / "tokenizer_config.json", eos_token={"content": "<|im_start|>"})
    assert read(folder).config.eos_ids == (410, 411, 412)
    edit_json(folder / "tokenizer_config.json", eos_token=None)
    assert read(folder).config.eos_ids == (410, 412)


def test_only_tokenizer_json_has_to_be_there(folder: Path):
    (folder / "tokenizer_config.json").unlink()
    (folder / "generation_config.json").unlink()
    text = read(folder, eos_token_id=7)
    assert text.config == TokenizerConfig(bos_id=None, eos_ids=(7,), add_bos=False)
    assert text.template is None


def test_where_bos_comes_from(folder: Path):
    assert read(folder, bos_token_id=5).config.bos_id == 5
    edit_json(folder / "tokenizer_config.json", bos_token=None)
    assert read(folder, bos_token_id=5).config.bos_id is None
    edit_json(folder / "tokenizer_config.json", bos_token="<|im_start|>")
    assert read(folder, bos_token_id=5).config.bos_id == 411


def test_whether_a_prompt_starts_with_bos(folder: Path):
    edit_json(folder / "tokenizer_config.json", bos_token="<|im_start|>")
    assert not read(folder).config.add_bos
    edit_json(folder / "tokenizer_config.json", add_bos_token=True)
    assert read(folder).config.add_bos
    edit_json(folder / "tokenizer_config.json", add_bos_token=...)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", 411)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    assert read(folder).config.add_bos
    edit_json(folder / "tokenizer_config.json", add_bos_token=False)
    assert not read(folder).config.add_bos


def test_the_template_of_its_own_file_wins(folder: Path):
    (folder / "chat_template.jinja").write_text("{{ own }}")
    assert read(folder).template == b"{{ own }}"


def test_the_default_of_several_templates(folder: Path):
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    edit_json(folder / "tokenizer_config.json", chat_template=several)
    assert read(folder).template == b"d"
    edit_json(folder / "tokenizer_config.json", chat_template=several[:1])
    assert read(folder).template is None
    edit_json(folder / "tokenizer_config.json", chat_template="")
    assert read(folder).template is None


def test_truncation_and_padding_are_taken_out(folder: Path):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding()
    tokenizer.save(str(folder / "tokenizer.json"))
    string = "The capital of France is"
    assert len(tokenizer.encode(string).ids) == 4
    plain = Tokenizer.from_buffer(read(folder).tokenizer_json)
    assert plain.truncation is None
    assert plain.padding is None
    assert plain.encode(string).ids == [295, 409, 376, 393, 348]
    assert read(folder) == read(folder)


def test_an_embedding_with_rows_to_spare_is_fine(folder: Path):
    assert read(folder, vocab_size=419).tokenizer_json == read(folder, 838).tokenizer_json


def test_an_id_without_a_row_is_refused(folder: Path):
    with pytest.raises(ConversionError, match="id 418, but the embedding only 418 rows"):
        read(folder, vocab_size=418)


def test_an_embedding_mostly_without_tokens_is_refused(folder: Path):
    with pytest.raises(ConversionError, match="419 tokens, too few for an embedding of 839"):
        read(folder, vocab_size=839)


def test_a_missing_tokenizer_is_named(folder: Path):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConversionError, match=r"tokenizer\.json: the file is missing"):
        read(folder)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b'{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}',
        b'{"version": "1.0", "model": {"type": "Magic"}}',
        b'{"version": "2.0"}',
        b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
    ],
)
def test_a_damaged_tokenizer_is_refused(folder: Path, data: bytes):
    (folder / "tokenizer.json").write_bytes(data)
    with pytest.raises(ConversionError) as caught:
        read(folder)
    assert "\n" not in str(caught.value)


def test_another_kind_of_tokenizer_is_refused(folder: Path):
    tokenizer = Tokenizer(models.WordLevel({f"word{i}": i for i in range(500)}))
    tokenizer.save(str(folder / "tokenizer.json"))
    edit_json(folder / "tokenizer_config.json", eos_token=...)
    with pytest.raises(UnsupportedError, match=r"tokenizer\.json"):
        read(folder)


def test_a_huge_tokenizer_is_refused(folder: Path):
    with (folder / "tokenizer.json").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(ConversionError, match="larger than"):
        read(folder)


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({}, {"eos_token_id": 512}),
        ({}, {"eos_token_id": -1}),
        ({}, {"eos_token_id": "412"}),
        ({}, {"eos_token_id": [1, True]}),
        ({}, {"eos_token_id": list(range(65))}),
        ({}, {"bos_token_id": 512}),
        ({"eos_token": "<|nothing|>"}, {}),
        ({"eos_token": 5}, {}),
        ({"bos_token": "<|nothing|>"}, {}),
        ({"bos_token": "<|im_end|>", "add_bos_token": 1}, {}),
        ({"chat_template": 5}, {}),
    ],
)
def test_special_ids_that_do_not_fit(folder: Path, changes: dict, config: dict):
    edit_json(folder / "tokenizer_config.json", **changes)
    with pytest.raises(ConversionError):
        read(folder, **config)


def test_a_template_that_is_not_text(folder: Path):
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(ConversionError, match="UTF-8"):
        read(folder)


def test_an_added_token_beyond_the_embedding_is_refused(folder: Path):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(f"<extra{i}>") for i in range(100)])
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(ConversionError, match="id 518"):
        read(folder)
