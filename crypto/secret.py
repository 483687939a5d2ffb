"""Passphrases and other short secrets: where they come from and how they go away.

A secret comes from a private file, from standard input or from a systemd credential. It never comes
from an argument or from the environment, where other processes can read it.
"""

from __future__ import annotations

import getpass
import hmac
import os
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn

from crypto.errors import KeyFileError
from crypto.private_file import read_private_file, read_until_end, wipe

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MAX_SECRET_BYTES: Final = 1024
STANDARD_INPUT: Final = "-"
CREDENTIAL_PREFIX: Final = "credential:"
FORBIDDEN_VARIABLES: Final = ("WINDHOVER_PASSPHRASE", "WINDHOVER_KEY", "WINDHOVER_SECRET")

_MAX_READ_BYTES: Final = MAX_SECRET_BYTES + len(b"\r\n")
_STDIN: Final = 0


class _Buffer(bytearray):
    """Bytes that are overwritten when nothing refers to them any more, a view included."""

    __slots__ = ()

    def __del__(self) -> None:
        """Overwrite what was forgotten."""
        wipe(self)


class Secret:
    """Bytes that are not printed, not copied by accident, and overwritten when they are done."""

    __slots__ = ("_buffer", "_wiped")

    _buffer: _Buffer
    _wiped: bool

    def __init__(self, value: ReadableBuffer) -> None:
        """Copy `value`, 1..1024 bytes; ValueError for other lengths."""
        self._wiped = False
        self._buffer = _Buffer(memoryview(value))
        if not 1 <= len(self._buffer) <= MAX_SECRET_BYTES:
            raise ValueError(f"a secret has 1..{MAX_SECRET_BYTES} bytes")

    @property
    def value(self) -> memoryview:
        """The bytes without a copy, read-only; a view that is kept turns to zeros with `wipe`.

        Raises:
            ValueError: the secret was wiped.
        """
        if self._wiped:
            raise ValueError("the secret was wiped")
        return memoryview(self._buffer).toreadonly()

    def wipe(self) -> None:
        """Overwrite the bytes; a second call does nothing."""
        self._wiped = True
        wipe(self._buffer)

    def __enter__(self) -> Secret:
        """Return the secret, which ends with the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wipe."""
        self.wipe()

    def __repr__(self) -> str:
        """Say neither the bytes nor how many there are."""
        return "Secret(...)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or written out by way of serialisation."""
        raise TypeError("a secret is not serialised")


def read_secret(source: str, *, prompt: str = "Passphrase: ", confirm: bool = False) -> Secret:
    r"""Return the secret that `source` names, without one newline (`\n` or `\r\n`) at its end.

    Args:
        source: the path of a private file; `-` for standard input, up to its end, or, when that is
            a terminal, a line that is not shown; `credential:NAME` for a file of
            $CREDENTIALS_DIRECTORY.
        prompt: what to ask at a terminal.
        confirm: whether to ask twice at a terminal.

    Raises:
        KeyFileError: codes of `crypto.private_file.read_private_file`, and `credential` (no
            directory, or a name with more than one component), `terminal` (it would show what is
            typed), `mismatch` (the second line differs).
    """
    if source == STANDARD_INPUT:
        if os.isatty(_STDIN):
            return _from_terminal(prompt, confirm=confirm)
        content = read_until_end(_STDIN, "standard input", max_bytes=_MAX_READ_BYTES)
    elif source.startswith(CREDENTIAL_PREFIX):
        content = _read_credential(source.removeprefix(CREDENTIAL_PREFIX))
    else:
        content = read_private_file(source, max_bytes=_MAX_READ_BYTES)
    return _without_newline(content, source)


def refuse_environment() -> None:
    """Remove secrets from the environment of this process and of its children, and refuse to go on.

    Raises:
        KeyFileError: `environment`: one of `FORBIDDEN_VARIABLES` was set, even to nothing.

    Security: whoever could read /proc/PID/environ until now has read it, and the kernel goes on
    showing the first environment there; so the secret has to be changed, not only removed.
    """
    found = [name for name in FORBIDDEN_VARIABLES if os.environ.pop(name, None) is not None]
    if found:
        raise KeyFileError(
            "environment",
            f"{', '.join(found)}: no secret is taken from the environment, where other processes "
            "can read it; give a file, standard input or a systemd credential, and change it",
        )


def _from_terminal(prompt: str, *, confirm: bool) -> Secret:
    """Ask for a line without showing it."""
    with warnings.catch_warnings():
        # The library's way out when it cannot hide the line is a warning and a line that is shown.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            line = getpass.getpass(prompt).encode("utf-8", "surrogateescape")
            again = line
            if confirm:
                again = getpass.getpass("Once more: ").encode("utf-8", "surrogateescape")
        except (getpass.GetPassWarning, EOFError):
            raise KeyFileError("terminal", "the terminal cannot ask without showing") from None
    if not hmac.compare_digest(line, again):
        raise KeyFileError("mismatch", "the two lines differ")
    return _without_newline(bytearray(line), STANDARD_INPUT)


def _read_credential(name: str) -> bytearray:
    """Return the content of a file of systemd's credentials directory."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise KeyFileError("credential", f"{name!r} is not the name of a credential")
    directory = os.environ.get("CREDENTIALS_DIRECTORY", "")
    if not directory.startswith("/"):
        raise KeyFileError("credential", "systemd has given no credentials to this process")
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise KeyFileError("credential", f"{directory}: {error.strerror}") from None
    try:
        return read_private_file(
            name, max_bytes=_MAX_READ_BYTES, dir_fd=descriptor, group_may_read=True
        )
    finally:
        os.close(descriptor)


def _without_newline(content: bytearray, source: str) -> Secret:
    """Return the secret in `content`, which is overwritten."""
    try:
        length = len(content)
        if content.endswith(b"\n"):
            length -= 2 if content.endswith(b"\r\n") else 1
        if not 1 <= length <= MAX_SECRET_BYTES:
            raise KeyFileError("size", f"{source}: must have 1..{MAX_SECRET_BYTES} bytes")
        return Secret(memoryview(content)[:length])
    finally:
        wipe(content)
