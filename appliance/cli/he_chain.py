"""`windhover he-chain`: layers on encrypted values; a subcommand is imported when it is called."""

from __future__ import annotations

import importlib
from typing import Final

import click

_COMMANDS: Final = {
    "doctor": ("appliance.cli.he_chain_doctor", "Say which backends work here and why."),
    "calibrate": ("appliance.cli.he_chain_keys", "Measure a model's ranges on public text."),
    "plan": ("appliance.cli.he_chain_plan", "Say what a run will take, or why it cannot be."),
    "keys": ("appliance.cli.he_chain_keys", "Make keys: a holder's folder and an evaluator's."),
    "refresh": ("appliance.cli.he_chain_holder", "Answer evaluators as the key holder."),
    "lay": ("appliance.cli.he_chain_hops", "Compute the next hop, which has to be a layer."),
    "fin": ("appliance.cli.he_chain_hops", "Compute the next hop, which has to be the logits."),
    "resume": ("appliance.cli.he_chain_hops", "Compute all hops that a run still lacks."),
    "run": ("appliance.cli.he_chain_run", "Run a prompt: key holder and evaluator, two processes."),
    "strict": (
        "appliance.cli.he_chain_strict",
        "Run a layer by polynomials; the holder refreshes.",
    ),
    "boot": ("appliance.cli.he_chain_boot", "Run layers on one token, with bootstraps."),
    "report": ("appliance.cli.he_chain_report", "Measure a run and sign a report of it."),
    "verify": ("appliance.cli.he_chain_verify", "Check a report against its run."),
    "bench": ("appliance.cli.he_chain_bench", "Time operations, and products against TenSEAL's."),
}


class _Commands(click.Group):
    """The subcommands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one subcommand, or None when there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Commands)
def command() -> None:
    """Run transformer layers on CKKS ciphertexts, and say what that proves.

    The key holder has the secret key and the prompt; the evaluator has the weights, evaluation keys
    and ciphertexts. PASS is made of measured numbers only; that a run finished is another word.
    """
