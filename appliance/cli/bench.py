"""`windhover bench`: the benchmarks, each a module that is imported when it is called."""

from __future__ import annotations

import importlib

import click

_BENCHMARKS = {
    "batch": ("appliance.cli.bench_batch", "What several streams at once gain over one."),
    "engine": (
        "appliance.cli.bench_engine",
        "Prefill, decode, memory and start, beside llama.cpp.",
    ),
    "io": (
        "appliance.cli.bench_io",
        "How fast the disk gives a model, and what that makes of a token.",
    ),
    "load": ("appliance.cli.bench_load", "Verifying and decrypting signed and sealed weights."),
    "log": ("appliance.cli.bench_log", "Appending to the log, signatures and syncs included."),
    "memory": (
        "appliance.cli.bench_memory",
        "What a model takes of memory, as a cgroup is charged for it.",
    ),
    "serve": ("appliance.cli.bench_serve", "What a running service delivers over HTTP."),
    "serve-load": (
        "appliance.cli.bench_serve_load",
        "Whether a service stands many clients, some of them rude.",
    ),
    "quality": ("appliance.cli.bench_quality", "Perplexity, and distance from a reference."),
}


class _Benchmarks(click.Group):
    """The subcommands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(_BENCHMARKS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one benchmark, or None when there is none of that name."""
        if cmd_name not in _BENCHMARKS:
            return None
        command: click.Command = importlib.import_module(_BENCHMARKS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of benchmarks, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _BENCHMARKS.items()])


@click.group(cls=_Benchmarks)
def command() -> None:
    """Measure this machine with the project's own benchmarks."""
