"""The command line: `python -m verifier BUNDLE --trust trust.toml`."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator

from verifier import toml, transcript
from verifier.batch import verify_all
from verifier.errors import UsageError
from verifier.expectations import RUNGS, Expectations, Head
from verifier.objects import MAX_BUNDLE_BYTES, MAX_NUMBER, MAX_OBJECT_BYTES, MAX_REQUEST_BYTES
from verifier.report import EXIT_USAGE, escaped
from verifier.trust import seconds_of
from verifier.verify import read_trust, verify


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code: 0 PASS, 1 FAIL, 3 INCOMPLETE, 2 usage."""
    options = _parser().parse_args(arguments)
    try:
        text, code = _run(options)
    except UsageError as error:
        text, code = f"usage: {escaped(str(error))}", EXIT_USAGE
        if options.json:
            text = json.dumps({"verdict": None, "reason": "usage", "message": text}, indent=1)
        elif not options.json:
            sys.stderr.write(text + "\n")
            return code
    sys.stdout.write(text + "\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="verifier",
        description="Checks an attested answer against a trust file. Nothing is fetched.",
        epilog="A TIME is YYYY-MM-DDThh:mm:ssZ, or milliseconds since 1970.",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=96),  # imports less
    )
    add = parser.add_argument
    add("bundle", metavar="BUNDLE", help="a bundle, or a folder with *.bundle files of one log")
    add("--trust", metavar="FILE", required=True, help="whom you rely on (trust.toml)")
    add("--need", metavar="RUNGS", default=",".join(RUNGS), help="default: A0,A1,A2,A3")
    add("--request", metavar="FILE", help="the request: its body, or path, zero byte and body")
    response = parser.add_mutually_exclusive_group()
    response.add_argument("--response", metavar="FILE", help="transcript, JSON body or SSE stream")
    response.add_argument("--response-prefix", metavar="FILE", help="a stream that was cut off")
    add("--nonce", metavar="HEX", help="the nonce that was sent")
    add("--model", metavar="HEX", help="the model's digest")
    add("--signer", metavar="HEX", help="the key id of the signer")
    add("--after", metavar="TIME", help="the answer began no earlier")
    add("--before", metavar="TIME", help="the answer ended no later")
    add("--log-head", metavar="HEAD", help="a head of the log that you hold: SIZE:ROOT or a file")
    add("--at", metavar="TIME", help="the time of this verification; default: the clock")
    add("--json", action="store_true", help="the report as JSON")
    return parser


def _run(options: argparse.Namespace) -> tuple[str, int]:
    trust = read_trust(_read(options.trust, toml.MAX_BYTES))
    response = options.response_prefix or options.response
    expected = Expectations(
        at=_time(options.at),
        need=tuple(options.need.split(",")),
        signer=_hex(options.signer, 32, 32),
        model=_hex(options.model, 32, 32),
        nonce=_hex(options.nonce, 16, 64),
        after=_time(options.after),
        before=_time(options.before),
        request=_read(options.request, MAX_REQUEST_BYTES) if options.request else None,
        response=_read(response, transcript.MAX_BYTES) if response else None,
        prefix=bool(options.response_prefix),
        head=_head(options.log_head),
    )
    if os.path.isdir(options.bundle):  # noqa: PTH112  pathlib takes a third of the time to start
        batch = verify_all(_folder(options.bundle), trust, expected)
        if not batch.outcomes:
            raise UsageError("the folder has no *.bundle")
        text = json.dumps(batch.as_dict(), indent=1) if options.json else batch.as_text()
        return text, batch.exit_code
    # one byte more than allowed: what is too long is a finding of step 1
    report = verify(_read(options.bundle, MAX_BUNDLE_BYTES, cut=True), trust, expected)
    return report.as_json() if options.json else report.as_text(), report.exit_code


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


def _hex(text: str | None, low: int, high: int) -> bytes | None:
    if text is None:
        return None
    if not re.fullmatch("([0-9a-fA-F]{2})+", text) or not 2 * low <= len(text) <= 2 * high:
        raise UsageError(f"not {low} .. {high} bytes in hexadecimal: {text}")
    return bytes.fromhex(text)


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch("0|[1-9][0-9]{0,15}", text) and int(text) <= MAX_NUMBER:
        return int(text)
    seconds = seconds_of(text)
    if seconds is None:
        raise UsageError(f"no time: {text}")
    return 1000 * seconds


def _head(text: str | None) -> Head | None:
    if text is None:
        return None
    if re.fullmatch("[0-9]+:[0-9a-f]+", text):
        return Head.parse(text)
    return Head.of_checkpoint(_read(text, MAX_OBJECT_BYTES))


if __name__ == "__main__":
    sys.exit(main())
