"""From an exception to one clear line and an exit code that a script can trust.

exit 0      done
exit 1      the thing that was checked is bad: FormatError, WeightsError, ConversionError,
            NonFiniteError, InvalidProofError, InvalidSignatureError, InvalidTagError, PolicyError;
            RangeError, ProtocolError, CheckpointError, PrecisionError
exit 2      usage, or an input that cannot be read or served: usage errors, OSError,
            UnsupportedError, ConfigError, ContextLengthError, TemplateError, SamplingError,
            UnsupportedCpuError, KeyFileError, a WriteError whose target may not be replaced, a
            package that is not installed; SecurityError, PlanError
exit 3      incomplete, neither good nor bad: WeightsUncheckedError, CancelledError,
            UnavailableError, a full disk or a limit on file sizes, too little memory;
            BackendError
exit 70     a defect: SelfTestError, WrongAnswerError, ScaleError, and every other exception
exit 130    interrupted from the keyboard
exit 141    whoever read the output went away

"Did not verify" (1) and "could not be checked" (3) are kept apart. An error class that the table
below does not name is a defect (70), so that a new one gets its row on purpose. Where the operating
system is the cause of a WriteError, its code is that of the OSError.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from crypto import errors as crypto_errors
from engine import errors as engine_errors
from he_chain import errors as he_chain_errors
from simd import errors as simd_errors

EXIT_BAD = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

EXITS: dict[type[Exception], int] = {
    crypto_errors.FormatError: EXIT_BAD,
    crypto_errors.InvalidProofError: EXIT_BAD,
    crypto_errors.InvalidSignatureError: EXIT_BAD,
    crypto_errors.InvalidTagError: EXIT_BAD,
    crypto_errors.PolicyError: EXIT_BAD,
    crypto_errors.KeyFileError: EXIT_USAGE,
    crypto_errors.WriteError: EXIT_USAGE,
    crypto_errors.UnavailableError: EXIT_INCOMPLETE,
    crypto_errors.SelfTestError: EXIT_DEFECT,
    engine_errors.FormatError: EXIT_BAD,
    engine_errors.WeightsError: EXIT_BAD,
    engine_errors.ConversionError: EXIT_BAD,
    engine_errors.NonFiniteError: EXIT_BAD,
    engine_errors.SpillError: EXIT_INCOMPLETE,
    engine_errors.UnsupportedError: EXIT_USAGE,
    engine_errors.ConfigError: EXIT_USAGE,
    engine_errors.ContextLengthError: EXIT_USAGE,
    engine_errors.TemplateError: EXIT_USAGE,
    engine_errors.SamplingError: EXIT_USAGE,
    simd_errors.ConfigError: EXIT_USAGE,
    simd_errors.UnsupportedCpuError: EXIT_USAGE,
    engine_errors.WeightsUncheckedError: EXIT_INCOMPLETE,
    engine_errors.WrongAnswerError: EXIT_DEFECT,
    engine_errors.CancelledError: EXIT_INCOMPLETE,
    he_chain_errors.SecurityError: EXIT_USAGE,
    he_chain_errors.PlanError: EXIT_USAGE,
    he_chain_errors.RangeError: EXIT_BAD,
    he_chain_errors.ScaleError: EXIT_DEFECT,
    he_chain_errors.BackendError: EXIT_INCOMPLETE,
    he_chain_errors.ProtocolError: EXIT_BAD,
    he_chain_errors.CheckpointError: EXIT_BAD,
    he_chain_errors.PrecisionError: EXIT_BAD,
}

OPTIONAL_PACKAGES = {"matplotlib": "plots"}
"""Packages that an extra of pyproject.toml brings, and the name of that extra."""

_SILENT: dict[type[Exception], str] = {
    crypto_errors.InvalidProofError: "a Merkle proof does not verify",
    crypto_errors.InvalidSignatureError: "a signature does not verify",
    crypto_errors.InvalidTagError: "the tag does not verify: altered, or the wrong key",
}
"""What to print for errors that carry no detail."""

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Failure(NamedTuple):
    """How a run failed: the exit code, the kind of error and one line for a person.

    `rule` and `offset` say which rule of a format was broken and at which byte; a WeightsError has
    a rule and no offset: the comparison that failed. `reason` is the stable code of a PolicyError
    or a KeyFileError.
    """

    exit_code: int
    kind: str
    message: str
    rule: str | None = None
    offset: int | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints in place of a result."""
        value: dict[str, object] = {
            "error": self.message,
            "kind": self.kind,
            "exit_code": self.exit_code,
        }
        if self.rule is not None:
            value["rule"] = self.rule
        if self.offset is not None:
            value["offset"] = self.offset
        if self.reason is not None:
            value["reason"] = self.reason
        return value


def describe(error: BaseException) -> Failure:
    """Map an exception to its exit code and its line (the table above).

    Args:
        error: What ended the command.

    Returns:
        The failure; its message is a single line.
    """
    kind = type(error).__name__
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Failure(EXIT_INTERRUPTED, "Interrupted", "interrupted")
    if isinstance(error, click.ClickException):
        return Failure(EXIT_USAGE, "UsageError", _describe_click_error(error))
    if isinstance(error, engine_errors.FormatError | crypto_errors.FormatError):
        return Failure(EXIT_BAD, kind, _line(error, kind), error.rule, error.offset)
    if isinstance(error, crypto_errors.WriteError) and isinstance(error.__cause__, OSError):
        return Failure(_os_exit(error.__cause__), kind, _line(error, kind))
    for error_class, exit_code in EXITS.items():
        if isinstance(error, error_class):
            reason, rule = getattr(error, "reason", None), getattr(error, "check", None)
            line = _line(error, _SILENT.get(error_class, kind))
            return Failure(exit_code, kind, line, rule=rule, reason=reason)
    if isinstance(error, BrokenPipeError):
        return Failure(EXIT_BROKEN_PIPE, kind, "the reader of the output went away")
    if isinstance(error, OSError):
        return Failure(_os_exit(error), kind, _describe_os_error(error))
    if isinstance(error, MemoryError):
        return Failure(EXIT_INCOMPLETE, kind, "not enough memory")
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL_PACKAGES:
        extra = OPTIONAL_PACKAGES[error.name]
        message = f"this needs the package {error.name}: install windhover[{extra}]"
        return Failure(EXIT_USAGE, "MissingPackage", message)
    hint = "run `windhover --debug ...` for the traceback"
    return Failure(EXIT_DEFECT, kind, _one_line(f"internal error: {kind}: {error} ({hint})"))


@contextmanager
def about(
    subject: object, *, errors: type[Exception] = crypto_errors.CryptoError
) -> Iterator[None]:
    """Let an error of this class that arises inside be reported with what it is about before it."""
    try:
        yield
    except errors as error:
        error.add_note(str(subject))
        raise


def _line(error: BaseException, otherwise: str) -> str:
    """Return the line of an error, with the subjects that `about` gave it."""
    subjects = reversed(getattr(error, "__notes__", []))
    return _one_line(": ".join([*subjects, str(error) or otherwise]))


def _os_exit(error: OSError) -> int:
    return EXIT_INCOMPLETE if error.errno in _NO_ROOM else EXIT_USAGE


def _describe_click_error(error: click.ClickException) -> str:
    message = _one_line(error.format_message()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message} (see `{context.command_path} --help`)"


def _describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    named = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return _one_line(": ".join([" -> ".join(named), reason] if named else [reason]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
