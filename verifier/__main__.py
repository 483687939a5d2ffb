"""The command line: `python -m verifier BUNDLE --trust trust.toml`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

from verifier import toml, transcript
from verifier.errors import DIGITS, HEX, Any, UsageError, spelt
from verifier.expectations import RUNGS, Expectations, Head
from verifier.objects import (
    MAX_BUNDLE_BYTES,
    MAX_NUMBER,
    MAX_OBJECT_BYTES,
    MAX_RELEASE_BYTES,
    MAX_REQUEST_BYTES,
)
from verifier.report import EXIT_USAGE, as_json, escaped
from verifier.trust import seconds_of
from verifier.verify import read_trust, verify

HELP = """\
usage: verifier BUNDLE --trust FILE [OPTION ...]

Checks an attested answer against a trust file. Nothing is fetched.

  BUNDLE                  a bundle, or a folder with *.bundle files of one log
  --trust FILE            whom you rely on (trust.toml)
  --need RUNGS            default: A0,A1,A2,A3
  --request FILE          the request: its body, or path, zero byte and body
  --response FILE         transcript, JSON body or SSE stream
  --response-prefix FILE  a stream that was cut off
  --nonce HEX             the nonce that was sent
  --model HEX             the model's digest
  --signer HEX            the key id of the signer
  --after TIME            the answer began no earlier
  --before TIME           the answer ended no later
  --log-head HEAD         a head of the log that you hold: SIZE:ROOT or a file
  --software FILE         a signed manifest of the software; repeatable
  --at TIME               the time of this verification; default: the clock
  --json                  the report as JSON
  --help                  these lines

A TIME is YYYY-MM-DDThh:mm:ssZ, or milliseconds since 1970."""
FLAGS = ("--json", "--help")
OPTIONS = {line.split()[0] for line in HELP.splitlines() if line.startswith("  ")}


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0 PASS, 1 FAIL, 3 INCOMPLETE, 2 usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        text, code = _run(*_options(arguments))
    except UsageError as error:
        text, code = f"usage: {escaped(str(error))}", EXIT_USAGE
        if "--json" not in arguments:
            sys.stderr.write(text + "\n")
            return code
        text = as_json({"verdict": None, "reason": "usage", "message": text})
    sys.stdout.write(text + "\n")
    return code


def _options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return what is given for each option and BUNDLE, and all for --software (UsageError)."""
    # argparse takes a tenth of the time to start
    given: dict[str, str] = {}
    manifests: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument == "-h":
            name = "--help"
        elif not argument.startswith("-"):
            name, equals, value = "BUNDLE", "=", argument
        if name not in OPTIONS or name in given or (name in FLAGS and equals):
            raise UsageError(f"not understood, see --help: {argument}")
        given[name] = value if equals or name in FLAGS else next(rest, "")
        if name == "--software":
            manifests.append(given.pop(name))
    if "--help" not in given and not {"BUNDLE", "--trust"} <= given.keys():
        raise UsageError("BUNDLE and --trust FILE are needed, see --help")
    if {"--response", "--response-prefix"} <= given.keys():
        raise UsageError("either --response or --response-prefix")
    return given, manifests


def _run(given: dict[str, str], manifests: list[str]) -> tuple[str, int]:
    if "--help" in given:
        return HELP, 0
    trust = read_trust(_read(given["--trust"], toml.MAX_BYTES))
    response = "--response-prefix" if "--response-prefix" in given else "--response"
    expected = Expectations(
        at=_find(given, "--at", _time),
        need=_find(given, "--need", lambda text: tuple(text.split(","))) or RUNGS,
        signer=_find(given, "--signer", _hex, 32, 32),
        model=_find(given, "--model", _hex, 32, 32),
        nonce=_find(given, "--nonce", _hex, 16, 64),
        after=_find(given, "--after", _time),
        before=_find(given, "--before", _time),
        request=_find(given, "--request", _read, MAX_REQUEST_BYTES),
        response=_find(given, response, _read, transcript.MAX_BYTES),
        prefix="--response-prefix" in given,
        head=_find(given, "--log-head", _head),
        # what is too long is a finding, too
        software=tuple(_read(path, MAX_RELEASE_BYTES, cut=True) for path in manifests),
    )
    if os.path.isdir(given["BUNDLE"]):  # noqa: PTH112  pathlib takes a third of the time to start
        from verifier.batch import verify_all  # noqa: PLC0415  a single bundle does without

        if manifests:
            raise UsageError("--software goes with a single bundle")
        batch = verify_all(_folder(given["BUNDLE"]), trust, expected)
        if not batch.outcomes:
            raise UsageError("the folder has no *.bundle")
        return as_json(batch.as_dict()) if "--json" in given else batch.as_text(), batch.exit_code
    # one byte more than allowed: what is too long is a finding of step 1
    report = verify(_read(given["BUNDLE"], MAX_BUNDLE_BYTES, cut=True), trust, expected)
    return report.as_json() if "--json" in given else report.as_text(), report.exit_code


def _find(given: dict[str, str], name: str, read: Callable[..., Any], *limits: int) -> Any:
    return read(given[name], *limits) if name in given else None


def _folder(path: str) -> Iterator[tuple[str, bytes]]:
    for name in sorted(map(os.fsencode, os.listdir(path))):  # noqa: PTH208  as above
        if name.endswith(b".bundle"):
            whole = os.fsdecode(os.path.join(os.fsencode(path), name))  # noqa: PTH118  as above
            shown = escaped(name.decode("utf-8", "backslashreplace"))
            yield shown, _read(whole, MAX_BUNDLE_BYTES, cut=True)


def _read(path: str, most: int, *, cut: bool = False) -> bytes:
    """Return a file's bytes; of a longer one, one byte more than `most` if cut (UsageError)."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  as above
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    if len(data) > most and not cut:
        raise UsageError(f"{path}: longer than {most} bytes")
    return data


def _hex(text: str, low: int, high: int) -> bytes:
    if not spelt(text.lower(), HEX, 2 * high) or len(text) % 2 or len(text) < 2 * low:
        raise UsageError(f"not {low} .. {high} bytes in hexadecimal: {text}")
    return bytes.fromhex(text)


def _time(text: str) -> int:
    if spelt(text, DIGITS, 16) and str(int(text)) == text and int(text) <= MAX_NUMBER:
        return int(text)
    seconds = seconds_of(text)
    if seconds is None:
        raise UsageError(f"no time: {text}")
    return 1000 * seconds


def _head(text: str) -> Head:
    size, _, root = text.partition(":")
    if spelt(size, DIGITS, len(text)) and spelt(root, HEX, len(text)):
        return Head.parse(text)
    return Head.of_checkpoint(_read(text, MAX_OBJECT_BYTES))


if __name__ == "__main__":
    sys.exit(main())
