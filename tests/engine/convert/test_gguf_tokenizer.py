"""Tokenizers out of GGUF metadata: ids, special tokens, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from engine.config import TokenizerConfig
from engine.convert.checkpoint import Text
from engine.convert.gguf import GgufFile
from engine.convert.gguf_tokenizer import read_text
from engine.convert.pretokenizers import PRE_TOKENIZERS
from engine.convert.settings import Settings
from engine.errors import ConversionError, UnsupportedError
from tests.engine.convert.support import CONVERT, MERGES, TINY, small_gguf, tokens


def read(**changes: tuple[str, Any] | None) -> Text:
    """The text part of the small model, with `tokenizer.ggml.` keys changed."""
    names, types = tokens()
    metadata: dict[str, object] = {key: value for key, (_, value) in small_gguf().metadata.items()}
    metadata |= {"tokenizer.ggml.tokens": tuple(names), "tokenizer.ggml.token_type": tuple(types)}
    metadata["tokenizer.ggml.merges"] = tuple(MERGES)
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return read_text(Settings(metadata, "GGUF"), 264)


def encode(text: Text, string: str) -> list[int]:
    tokenizer = Tokenizer.from_buffer(text.tokenizer_json)
    return tokenizer.encode(string, add_special_tokens=False).ids


@pytest.mark.parametrize("name", ["qwen2_tiny", "qwen3_tiny"])
def test_ids_are_those_of_the_checkpoint_that_the_file_was_made_from(name: str):
    original = Tokenizer.from_file(str(CONVERT / "tokenizer.json"))
    with GgufFile(CONVERT / f"{name}-f32.gguf") as file:
        text = read_text(Settings(file.metadata, "GGUF"), 512)
    tokenizer = Tokenizer.from_buffer(text.tokenizer_json)
    assert tokenizer.get_vocab() == original.get_vocab()
    for case in json.loads((CONVERT / "tokenizer_golden.json").read_text()):
        ids = tokenizer.encode(case["text"], add_special_tokens=False).ids
        assert ids == case["ids"]
        assert tokenizer.decode(ids, skip_special_tokens=False) == case["text"]
    for string in ("don't DON'T I'll", "a  b\n\n c\t", "e\u0301 ﬁ", "12345", "x=1;<|im_end|>"):
        assert tokenizer.encode(string).ids == original.encode(string).ids


@pytest.mark.parametrize("name", TINY)
def test_special_ids_of_the_files_of_llama_cpp(name: str):
    with GgufFile(CONVERT / f"{name}-f32.gguf") as file:
        text = read_text(Settings(file.metadata, "GGUF"), 512)
    # <|im_end|> is named by the file, <|endoftext|> ends every answer
    assert text.config == TokenizerConfig(bos_id=None, eos_ids=(410, 412), add_bos=False)
    assert text.template is not None
    assert b"add_generation_prompt" in text.template


@pytest.mark.parametrize(
    ("pre", "string", "pieces"),
    [
        ("gpt-2", "I'LL say 1234 a  b", "I|'|LL|Ġsay|Ġ1234|Ġa|Ġ|Ġb"),
        ("smollm", "I'll say 1234 a  b", "I|'ll|Ġsay|Ġ|1|2|3|4|Ġa|Ġ|Ġb"),
        ("qwen2", "I'LL say 1234 a  b\n\n", "I|'LL|Ġsay|Ġ|1|2|3|4|Ġa|Ġ|Ġb|ĊĊ"),
        ("llama-bpe", "I'LL say 1234 a  b\n\n", "I|'LL|Ġsay|Ġ|123|4|Ġa|Ġ|Ġb|ĊĊ"),
        ("default", "I'll say 1234, $x<y", "I|'|ll|Ġsay|Ġ|123|4|,|Ġ|$|x|<|y"),
        ("llama-bpe", "(don't).\n", "(don|'t|).Ċ"),
        ("qwen2", "=naïve 你好!", "=naÃ¯ve|Ġä½łå¥½|!"),
    ],
)
def test_text_is_split_as_the_family_does(pre: str, string: str, pieces: str):
    tokenizer = Tokenizer.from_buffer(read(pre=pre).tokenizer_json)
    split = tokenizer.pre_tokenizer.pre_tokenize_str(string)
    assert "|".join(piece for piece, _ in split) == pieces


def test_merges_are_applied():
    assert encode(read(), "hello w") == [260, 258]
    assert encode(read(), "hell") == [259]


def test_control_tokens_are_special_and_outside_the_model():
    document = json.loads(read().tokenizer_json)
    assert [(t["id"], t["special"]) for t in document["added_tokens"]] == [(261, True), (262, True)]
    assert not {"<|end|>", "<|im_end|>", "[PAD263]"} & document["model"]["vocab"].keys()
    assert encode(read(), "h<|im_end|>") == [0x68, 262]


def test_control_tokens_in_front_keep_their_ids():
    names, types = tokens()
    names, types = ["<|end|>", *names[:261], *names[262:]], [3, *types[:261], *types[262:]]
    text = read(tokens=tuple(names), token_type=tuple(types))
    assert encode(text, "<|end|>h") == [0, 0x69]


def test_user_defined_tokens_are_matched_but_not_special():
    names, types = tokens()
    types[261] = 4
    text = read(tokens=tuple(names), token_type=tuple(types))
    document = json.loads(text.tokenizer_json)
    assert [t["special"] for t in document["added_tokens"]] == [False, True]
    assert encode(text, "<|end|>") == [261]


@pytest.mark.parametrize("kind", [4, 5])
def test_filling_behind_the_vocabulary_is_left_out(kind: int):
    names, types = tokens()
    types[263] = kind
    text = read(tokens=tuple(names), token_type=tuple(types))
    assert 263 not in Tokenizer.from_buffer(text.tokenizer_json).get_vocab().values()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (None, (261, 262), False)),
        ({"eos_token_id": None}, (None, (262,), False)),
        ({"eot_token_id": 5, "eom_token_id": 6}, (None, (5, 6, 261, 262), False)),
        ({"bos_token_id": 261}, (261, (261, 262), False)),
        ({"bos_token_id": 261, "add_bos_token": True}, (261, (261, 262), True)),
        ({"bos_token_id": 261, "pre": "llama-bpe"}, (261, (261, 262), True)),
        (
            {"bos_token_id": 261, "pre": "llama-bpe", "add_bos_token": False},
            (261, (261, 262), False),
        ),
        ({"add_bos_token": True}, (None, (261, 262), False)),
    ],
)
def test_special_ids(changes: dict[str, Any], expected: tuple):
    assert read(**changes).config == TokenizerConfig(*expected)


def test_the_template_may_be_missing():
    names, types = tokens()
    metadata = {key: value for key, (_, value) in small_gguf().metadata.items()}
    metadata |= {"tokenizer.ggml.tokens": tuple(names), "tokenizer.ggml.token_type": tuple(types)}
    metadata["tokenizer.ggml.merges"] = tuple(MERGES)
    del metadata["tokenizer.chat_template"]
    assert read_text(Settings(metadata, "GGUF"), 264).template is None


def test_the_bytes_are_always_the_same():
    assert read().tokenizer_json == read().tokenizer_json
    document = json.loads(read().tokenizer_json)
    assert (
        json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        == read().tokenizer_json
    )


@pytest.mark.parametrize("pre", ["falcon", "tekken", "gpt-4o", "", "QWEN2"])
def test_an_unknown_rule_is_named(pre: str):
    with pytest.raises(UnsupportedError, match=f"pre-tokenizer {pre} "):
        read(pre=pre)


def test_without_a_rule_the_default_holds():
    assert read(pre=None).tokenizer_json == read(pre="default").tokenizer_json
    assert PRE_TOKENIZERS["default"] != PRE_TOKENIZERS["gpt-2"]


@pytest.mark.parametrize("model", ["llama", "bert", "t5", "rwkv", "plamo2"])
def test_other_models_are_named(model: str):
    with pytest.raises(UnsupportedError, match=f"tokenizer model {model} "):
        read(model=model)


NAMES, TYPES = tokens()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "no tokenizer"),
        ({"tokens": None}, "no tokenizer"),
        ({"tokens": tuple(NAMES[:-1]), "token_type": tuple(TYPES[:-1])}, "263 tokens for an embed"),
        (
            {"tokens": (*NAMES, "x"), "token_type": (*TYPES, 1)},
            "265 tokens for an embedding of 264",
        ),
        ({"tokens": 5}, "not a list"),
        ({"tokens": (*NAMES[:-1], 5)}, "not a list"),
        ({"tokens": (*NAMES[:5], NAMES[4], *NAMES[6:])}, "tokens 4 and 5 are the same"),
        ({"tokens": ("", *NAMES[1:])}, "token 0 is empty"),
        ({"token_type": tuple(TYPES[:-1])}, "token_type"),
        ({"token_type": (*TYPES[:-1], 6)}, "token_type"),
        ({"token_type": (*TYPES[:-1], 99)}, "token_type"),
        ({"merges": None}, "merges"),
        ({"merges": ("he",)}, "merge 'he' is not of two"),
        ({"merges": ("h e l",)}, "not of two tokens"),
        ({"merges": ("h ",)}, "not of two tokens"),
        ({"merges": ("x y",)}, "unknown token"),
        ({"merges": ("< |end|>",)}, "makes a control token"),
        ({"token_type": (3, *TYPES[1:])}, "single character"),
        ({"eos_token_id": 264}, "eos_token_id"),
        ({"eos_token_id": -1}, "eos_token_id"),
        ({"bos_token_id": "1"}, "bos_token_id"),
        ({"add_bos_token": 1}, "add_bos_token"),
    ],
)
def test_damaged_tokenizers_are_refused(changes: dict[str, Any], words: str):
    with pytest.raises(ConversionError, match=words):
        read(**changes)


@pytest.mark.parametrize("key", ["add_eos_token", "add_space_prefix"])
def test_functions_that_are_not_implemented_are_named(key: str):
    with pytest.raises(UnsupportedError, match=key):
        read(**{key: True})
    assert read(**{key: False}) == read()


def test_a_template_beyond_the_limit_is_refused(tmp_path: Path):
    file = small_gguf()
    file.metadata["tokenizer.chat_template"] = ("str", "x" * ((1 << 20) + 1))
    with GgufFile(file.write(tmp_path / "m.gguf")) as opened:
        metadata = Settings(opened.metadata, "GGUF")
        with pytest.raises(ConversionError, match="template"):
            read_text(metadata, 264)
