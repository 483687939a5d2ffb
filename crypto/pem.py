"""Text files that hold one key: lines of explanation, then one PEM block.

What stands before the block is for people, and OpenSSL ignores it; here one such line names the
key's role. Everything else is read strictly: one block, canonical base64, nothing behind it.

Source: RFC 7468 (textual encodings), section 2.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from crypto.errors import KeyFileError

ROLE_FIELD: Final = "Windhover-Key-Role"

_BEGIN: Final = "-----BEGIN "
_END: Final = "-----END "
_DASHES: Final = "-----"
_LINE_CHARACTERS: Final = 64
_MAX_LINE_CHARACTERS: Final = 76


class PemKey(NamedTuple):
    """What a file holds: the block's label and content, and the role that a line names, if any."""

    label: str
    content: bytes
    role: str | None


def encode_pem(label: str, content: bytes, role: str) -> bytes:
    """Return the file of one block under a line with the key's role."""
    text = base64.b64encode(content).decode("ascii")
    lines = [text[i : i + _LINE_CHARACTERS] for i in range(0, len(text), _LINE_CHARACTERS)]
    edges = (f"{_BEGIN}{label}{_DASHES}", f"{_END}{label}{_DASHES}")
    return "\n".join((f"{ROLE_FIELD}: {role}", edges[0], *lines, edges[1], "")).encode("ascii")


def decode_pem(data: bytes) -> PemKey:
    """Return the one block of a file.

    Raises:
        KeyFileError: `format`: the file is not as said above, or holds more than one block.
    """
    lines = _lines(data)
    begins = [i for i, line in enumerate(lines) if line.startswith(_BEGIN)]
    if not begins:
        raise KeyFileError("format", "no PEM block in it (a line -----BEGIN ...-----)")
    labels = [_label(lines[i], _BEGIN) for i in begins]
    if len(begins) > 1:
        raise KeyFileError("format", f"several PEM blocks ({', '.join(labels)}); one key to a file")
    before, after = lines[: begins[0]], lines[begins[0] + 1 :]
    end = next((i for i, line in enumerate(after) if line.startswith(_DASHES)), None)
    if end is None or _label(after[end], _END) != labels[0]:
        raise KeyFileError("format", f"the block {labels[0]} has no end: the file is cut off")
    if any(after[end + 1 :]):
        raise KeyFileError("format", f"something stands behind the block {labels[0]}")
    return PemKey(labels[0], _content(after[:end]), _role(before))


def _lines(data: bytes) -> list[str]:
    """Return the lines of a file of ASCII text, with either kind of line ends."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise KeyFileError(
            "format", "not a text file; `openssl pkey -inform DER` makes PEM out of DER"
        ) from None
    return [line.removesuffix("\r") for line in text.split("\n")]


def _label(line: str, prefix: str) -> str:
    """Return the label of a line that begins or ends a block."""
    label = line.removeprefix(prefix).removesuffix(_DASHES)
    if line != f"{prefix}{label}{_DASHES}" or not label.replace(" ", "").isalnum():
        raise KeyFileError("format", "a line that begins or ends a PEM block is malformed")
    return label


def _content(lines: list[str]) -> bytes:
    """Return what the lines of base64 say, if they are the way to say it."""
    if any(":" in line for line in lines):
        raise KeyFileError(
            "format", "encrypted in the old way (Proc-Type); `openssl pkcs8 -topk8` writes the new"
        )
    if not all(1 <= len(line) <= _MAX_LINE_CHARACTERS for line in lines):
        raise KeyFileError("format", "the PEM block has a line that is empty or too long")
    text = "".join(lines).encode("ascii")
    try:
        content = base64.b64decode(text, validate=True)
    except binascii.Error:
        content = b""
    if not content or base64.b64encode(content) != text:
        raise KeyFileError("format", "the PEM block is not base64")
    return content


def _role(lines: list[str]) -> str | None:
    """Return the role that the lines before the block name."""
    roles = [line for line in lines if line.lower().startswith(ROLE_FIELD.lower())]
    if not roles:
        return None
    prefix = f"{ROLE_FIELD}: "
    if len(roles) > 1 or not roles[0].startswith(prefix):
        raise KeyFileError("format", f"not one line `{prefix}...`")
    return roles[0].removeprefix(prefix)
