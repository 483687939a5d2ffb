from __future__ import annotations

from engine.text.alphabet import CHARACTERS, token_to_bytes


def test_the_alphabet_is_the_published_one() -> None:
    assert len(set(CHARACTERS)) == 256
    assert CHARACTERS[0x20] == "Ġ"
    assert CHARACTERS[0x0A] == "Ċ"
    assert CHARACTERS[0x00] == "Ā"
    assert CHARACTERS[0x7F] == "ġ"
    assert CHARACTERS[0xA0] == "ł"
    assert CHARACTERS[0xAD] == "Ń"
    assert "".join(CHARACTERS[0x21:0x7F]) == bytes(range(0x21, 0x7F)).decode()


def test_tokens_are_bytes() -> None:
    assert token_to_bytes("".join(CHARACTERS)) == bytes(range(256))
    assert token_to_bytes("ĠhÃ©") == " hé".encode()
    assert token_to_bytes("") == b""
    assert token_to_bytes("a b") is None
    assert token_to_bytes("你") is None
