from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.text.detokenizer import Detokenizer
from tests.engine.text.support import END, START, tokenizer

ids_of_bytes = {tokenizer().token_bytes(i): i for i in range(tokenizer().vocab_size)}
any_ids = st.lists(st.integers(0, tokenizer().vocab_size + 3), max_size=60)
broken_utf8 = st.lists(
    st.sampled_from([b"a", b"\xf0\x9f\x99\x82", b"\xf0", b"\x9f", b"\xe4\xbd", b"\xc3", b"\xff"]),
    max_size=12,
).map(b"".join)


def push_all(token_ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer())
    return [*(detokenizer.push(i) for i in token_ids), detokenizer.finish()]


def ids_of(data: bytes) -> list[int]:
    return [ids_of_bytes[bytes([byte])] for byte in data]


@given(any_ids)
def test_increments_join_to_the_decoded_whole(token_ids: list[int]) -> None:
    assert "".join(push_all(token_ids)) == tokenizer().decode(token_ids)


@given(broken_utf8)
def test_broken_bytes_become_what_python_makes_of_the_whole(data: bytes) -> None:
    assert "".join(push_all(ids_of(data))) == data.decode("utf-8", errors="replace")


@given(st.text())
def test_no_increment_holds_part_of_a_character(text: str) -> None:
    increments = push_all(ids_of(text.encode()))
    assert "".join(increments) == text
    assert all(len(increment) <= 1 for increment in increments)
    assert "\ufffd" in text or "\ufffd" not in "".join(increments)


def test_a_character_waits_for_its_last_byte() -> None:
    assert push_all(ids_of("🙂".encode())) == ["", "", "", "🙂", ""]
    assert push_all(ids_of("🙂".encode()[:3])) == ["", "", "", "\ufffd"]
    assert push_all(ids_of(b"\xf0\x9fa")) == ["", "", "\ufffda", ""]


def test_special_tokens_are_silent_even_inside_a_character() -> None:
    first, *rest = ids_of("é".encode())
    assert push_all([START, first, END, *rest, END]) == ["", "", "", "é", "", ""]


def test_no_space_is_added_or_removed() -> None:
    for text in (" the", "the ", "  the", "\nthe"):
        assert "".join(push_all(tokenizer().encode(text))) == text
