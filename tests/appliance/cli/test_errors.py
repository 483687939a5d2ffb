"""Every exception has its exit code and one line."""

from __future__ import annotations

import errno

import click
import pytest

from appliance.cli.errors import EXITS, Failure, about, describe
from crypto import errors as crypto_errors
from engine import errors
from he_chain import errors as he_chain_errors
from simd import errors as simd_errors


def test_every_error_class_has_a_row() -> None:
    engine_classes = set(errors.EngineError.__subclasses__())
    crypto_classes = set(crypto_errors.CryptoError.__subclasses__())
    simd_classes = set(simd_errors.SimdError.__subclasses__())
    he_chain_classes = set(he_chain_errors.HeChainError.__subclasses__())
    assert set(EXITS) == engine_classes | crypto_classes | simd_classes | he_chain_classes


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(errno.ENOSPC, 3), (errno.EDQUOT, 3), (errno.EFBIG, 3), (errno.EROFS, 2)],
)
def test_a_full_disk_is_no_usage_error(number: int, exit_code: int) -> None:
    error = crypto_errors.WriteError("out.vqf cannot be written: reason")
    error.__cause__ = OSError(number, "reason")
    assert describe(error).exit_code == exit_code


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (
            errors.FormatError("R7", 96, "chunk count is wrong"),
            1,
            "chunk count is wrong (rule R7, offset 96)",
        ),
        (errors.WeightsError("extent layers.0"), 1, "extent layers.0"),
        (errors.ConversionError("tensor\nblk.0 is cut off"), 1, "tensor blk.0 is cut off"),
        (errors.NonFiniteError("layer 3"), 1, "layer 3"),
        (errors.UnsupportedError("architecture mamba"), 2, "architecture mamba"),
        (errors.ConfigError("threads"), 2, "threads"),
        (
            errors.ContextLengthError(2000, 100, 2048),
            2,
            "the prompt has 2000 tokens and 100 were asked for; the context holds 2048",
        ),
        (simd_errors.UnsupportedCpuError("no AVX2"), 2, "no AVX2"),
        (errors.WeightsUncheckedError("changed while read"), 3, "changed while read"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.vqf"),
            2,
            "a.vqf: No such file or directory",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a", None, "b"),
            2,
            "a -> b: Permission denied",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "out.vqf"),
            3,
            "out.vqf: No space left on device",
        ),
        (OSError("short read"), 2, "short read"),
        (MemoryError(), 3, "not enough memory"),
        (BrokenPipeError(), 141, "the reader of the output went away"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.BadParameter("must be positive."), 2, "Invalid value: must be positive"),
        (
            ModuleNotFoundError("No module", name="matplotlib"),
            2,
            "this needs the package matplotlib: install windhover[plots]",
        ),
    ],
)
def test_exit_code_and_line(error: BaseException, exit_code: int, message: str) -> None:
    failure = describe(error)
    assert (failure.exit_code, failure.message) == (exit_code, message)


@pytest.mark.parametrize(
    "error", [TypeError("x"), errors.EngineError("x"), ModuleNotFoundError("x", name="y")]
)
def test_what_is_not_in_the_table_is_a_defect(error: Exception) -> None:
    failure = describe(error)
    assert failure.exit_code == 70
    assert failure.message.startswith(f"internal error: {type(error).__name__}: ")
    assert "--debug" in failure.message


def test_an_error_says_what_it_is_about() -> None:
    error = crypto_errors.FormatError(7, "key-order")
    with pytest.raises(crypto_errors.FormatError), about("outer"), about("inner"):
        raise error
    failure = describe(error)
    assert failure.message == "outer: inner: malformed at offset 7: key-order"
    assert (failure.rule, failure.offset) == ("key-order", 7)


def test_json_has_the_reason_and_the_comparison() -> None:
    value = describe(crypto_errors.PolicyError("expired", "the release has expired")).as_json()
    assert (value["reason"], value["exit_code"]) == ("expired", 1)
    value = describe(errors.WeightsError("extent final", "V6")).as_json()
    assert value["rule"] == "V6"
    assert "offset" not in value


def test_json_names_the_broken_rule() -> None:
    failure = describe(errors.FormatError("R7", 96, "bad"))
    assert failure.as_json() == {
        "error": "bad (rule R7, offset 96)",
        "kind": "FormatError",
        "exit_code": 1,
        "rule": "R7",
        "offset": 96,
    }
    assert Failure(2, "OSError", "m").as_json() == {"error": "m", "kind": "OSError", "exit_code": 2}
