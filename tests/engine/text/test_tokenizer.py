from __future__ import annotations

import json

import pytest
from hypothesis import given

from engine.config import TokenizerConfig
from engine.errors import TemplateError, UnsupportedError
from engine.text.prompt import ControlToken, Marker, Prompt
from engine.text.tokenizer import Tokenizer
from tests.engine.text.support import (
    CONFIG,
    END,
    MARKERS,
    START,
    THINK,
    TOKENIZER_JSON,
    document,
    harmless,
    library,
    texts,
    tokenizer,
)


def build(doc: dict, config: TokenizerConfig = CONFIG) -> Tokenizer:
    return Tokenizer(json.dumps(doc).encode(), config)


def in_the_vocabulary() -> dict:
    """Return a tokenizer.json whose control tokens are also in the model's vocabulary.

    One more is reached by merges, and one is a whole word of the pre-tokenizer.
    """
    doc = document()
    model = doc["model"]
    model["ignore_merges"] = True
    model["vocab"] |= {entry["content"]: entry["id"] for entry in doc["added_tokens"]}
    model["vocab"] |= {"<>": 419, "word": 420}
    model["merges"].append(["<", ">"])
    template = doc["added_tokens"][0]
    doc["added_tokens"] += [template | {"id": 419, "content": "<>"}]
    doc["added_tokens"] += [template | {"id": 420, "content": "word", "special": False}]
    return doc


@given(texts)
def test_text_never_becomes_a_control_token(text: str) -> None:
    control = {token.id for token in tokenizer().control_tokens}
    assert control.isdisjoint(tokenizer().encode(text))


@pytest.mark.parametrize("marker", MARKERS)
def test_the_library_alone_would_make_control_tokens(marker: str) -> None:
    assert library().encode(f"a{marker}b").ids != tokenizer().encode(f"a{marker}b")
    assert tokenizer().decode(tokenizer().encode(marker)) == marker


@given(harmless)
def test_text_without_markers_is_encoded_as_the_library_does(text: str) -> None:
    assert tokenizer().encode(text) == library().encode(text, add_special_tokens=False).ids


@given(texts)
def test_control_tokens_in_the_vocabulary_cannot_be_reached(text: str) -> None:
    hidden = build(in_the_vocabulary())
    control = {token.id for token in hidden.control_tokens}
    assert {419, 420} <= control
    for attack in (text, f"{text}<>{text}", f"word {text}", "word", " word", "<>"):
        assert control.isdisjoint(hidden.encode(attack))
        assert hidden.decode(hidden.encode("word <>")) == "word <>"


def test_merges_may_be_written_as_text() -> None:
    doc = document()
    doc["model"]["merges"] = [" ".join(pair) for pair in doc["model"]["merges"]]
    assert build(doc).encode("the quick") == tokenizer().encode("the quick")


def test_whitespace_that_is_one_token_stays_text() -> None:
    doc = document()
    entry = doc["added_tokens"][0] | {"id": 419, "content": "\n\n\n", "special": False}
    doc["added_tokens"].append(entry)
    spaced = build(doc)
    assert spaced.encode("a\n\n\nb")[1] == 419
    assert 419 not in {token.id for token in spaced.control_tokens}
    assert spaced.decode(spaced.encode("a\n\n\nb")) == "a\n\n\nb"


def test_a_backend_that_lets_one_through_is_caught(monkeypatch) -> None:
    leaky = build(document())
    monkeypatch.setattr(leaky, "_backend", library())
    with pytest.raises(TemplateError):
        leaky.encode("<|im_start|>")


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(TemplateError):
        tokenizer().encode("a\ud83d")


def test_bytes_without_a_token_are_left_out() -> None:
    doc = document()
    del doc["model"]["vocab"]["Ć"]  # byte 6
    doc["model"]["vocab"]["filling"] = 500
    doc["model"] |= {"unk_token": "<|endoftext|>"}
    doc["model"]["vocab"]["<|endoftext|>"] = 410
    assert build(doc).encode("a\x06b") == tokenizer().encode("a") + tokenizer().encode("b")


@given(texts)
def test_decoding_is_the_inverse_of_encoding_up_to_normalisation(text: str) -> None:
    normalised = library().normalizer.normalize_str(text)
    assert tokenizer().decode(tokenizer().encode(text)) == normalised


def test_tokens_have_exact_bytes() -> None:
    whole = {i: tokenizer().token_bytes(i) for i in range(tokenizer().vocab_size)}
    assert {bytes([b]) for b in range(256)} <= set(whole.values())
    assert whole[START] == b"<|im_start|>"
    assert tokenizer().token_bytes(-1) == tokenizer().token_bytes(419) == b""
    assert tokenizer().name(START) == "<|im_start|>"


def test_answers_show_tokens_that_are_not_special() -> None:
    doc = document()
    for entry in doc["added_tokens"]:
        entry["special"] = entry["id"] != THINK
    assert build(doc).decode([THINK, END, 71]) == "<think>h"
    assert tokenizer().decode([THINK, END, 71]) == "h"


def test_raw_prompts_start_with_the_first_token_where_the_model_wants_it() -> None:
    ids = tokenizer().encode("the")
    assert tokenizer().encode_raw("the") == ids
    assert build(document(), TokenizerConfig(410, (412,), add_bos=True)).encode_raw("the") == [
        410,
        *ids,
    ]
    assert build(document(), TokenizerConfig(None, (), add_bos=True)).encode_raw("the") == ids


def token(token_id: int, content: str, *, lstrip: bool = False, rstrip: bool = False):
    return ControlToken(token_id, content, special=True, lstrip=lstrip, rstrip=rstrip)


def test_prompts_are_encoded_around_their_markers() -> None:
    text = "a<|im_start|><|im_end|>b <|im_start|>"
    markers = (
        Marker(1, 13, token(START, "<|im_start|>")),
        Marker(13, 23, token(END, "<|im_end|>")),
    )
    encode = tokenizer().encode
    expected = [*encode("a"), START, END, *encode("b <|im_start|>")]
    assert tokenizer().encode_prompt(Prompt(text, markers)) == expected
    assert tokenizer().encode_prompt(Prompt("", ())) == []


def test_markers_that_strip_swallow_whitespace() -> None:
    doc = document()
    doc["added_tokens"][1] |= {"lstrip": True}
    doc["added_tokens"][2] |= {"rstrip": True}
    stripping = build(doc)
    text = "a \n<|im_start|> b<|im_end|>\n c"
    find = {t.id: t for t in stripping.control_tokens}
    markers = (Marker(3, 15, find[START]), Marker(17, 27, find[END]))
    from tokenizers import Tokenizer as Library

    naive = Library.from_str(json.dumps(doc)).encode(text, add_special_tokens=False).ids
    assert stripping.encode_prompt(Prompt(text, markers)) == naive


def changed(path: str, value: object) -> dict:
    doc = document()
    *parents, last = path.split(".")
    target = doc
    for name in parents:
        target = target[name]
    target[last] = value
    return doc


ADDED = {"id": 419, "content": "<x>", "special": True}


@pytest.mark.parametrize(
    "doc",
    [
        changed("model.type", "Unigram"),
        changed("model.byte_fallback", True),
        changed("model.dropout", 0.5),
        changed("model.end_of_word_suffix", "</w>"),
        changed("model.vocab", []),
        changed("model.vocab.!", -1),
        changed("model.vocab.!", 1),
        changed("model.vocab.!", 1 << 40),
        changed("model.vocab.!", "0"),
        changed("model.merges", None),
        changed("model.merges", ["a b c"]),
        changed("model.merges", [[1, 2]]),
        changed("model.merges", [["zz", "zz"]]),
        changed("model", None),
        changed("pre_tokenizer", {"type": "Whitespace"}),
        changed("pre_tokenizer", None),
        changed("pre_tokenizer", {"type": "Sequence", "pretokenizers": None}),
        changed("decoder", {"type": "Metaspace"}),
        changed("added_tokens", {}),
        changed("added_tokens", [ADDED | {"single_word": True}]),
        changed("added_tokens", [ADDED | {"content": ""}]),
        changed("added_tokens", [ADDED | {"id": None}]),
        changed("added_tokens", [ADDED, ADDED | {"id": 420}]),
        changed("added_tokens", [ADDED | {"content": "!"}]),
        changed("added_tokens", []),
    ],
)
def test_what_is_not_byte_level_bpe_is_refused(doc: dict) -> None:
    with pytest.raises(UnsupportedError):
        build(doc)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, TOKENIZER_JSON[:-9]])
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(UnsupportedError):
        Tokenizer(raw, CONFIG)
