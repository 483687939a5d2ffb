"""The alphabet of byte-level BPE: 256 printable characters that stand for the 256 bytes.

Source: A. Radford et al., "Language models are unsupervised multitask learners", 2019, and the
table that the published vocabularies of GPT-2 and its successors share: printable characters of
ISO 8859-1 stand for themselves, the other bytes for the characters from U+0100 on, in ascending
order.
"""

from __future__ import annotations

from typing import Final


def _characters() -> list[str]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


CHARACTERS: Final = _characters()
_BYTES: Final = {character: byte for byte, character in enumerate(CHARACTERS)}


def token_to_bytes(token: str) -> bytes | None:
    """Return the bytes that a token stands for, or None if it is not of the alphabet."""
    try:
        return bytes([_BYTES[character] for character in token])
    except KeyError:
        return None
