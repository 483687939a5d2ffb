"""`windhover serve`: the service, from its configuration to its last answer.

Whatever imports numba or libcrypto is imported after the process was prepared for it.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.options import json_option
from appliance.cli.output import note, write_json
from appliance.service.settings import Settings
from engine.errors import CancelledError

if TYPE_CHECKING:
    from appliance.service.server import Server
    from appliance.service.start import Start

_MODES: Final = {"production": "production", "dev": "mode dev: not for use"}


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="The configuration, one TOML file; appliance/service/CONFIGURATION.md has every field.",
)  # fmt: skip
@click.option(
    "--check", "only_check", is_flag=True,
    help="Say whether it could start, and end: the weights are opened, not read whole.",
)  # fmt: skip
@json_option
def command(config: Path, only_check: bool, as_json: bool) -> int:
    """Answer requests in OpenAI's shapes, each with an attestation, until SIGTERM.

    Nothing is answered before the weights are verified, the kernels compared with known answers,
    and the process locked. One line on stdout says when that is, and where to ask.
    """
    from appliance.service.start import prepare_process  # noqa: PLC0415  (prepares for the rest)

    settings = Settings.read(config)
    kernels, notes = prepare_process(settings.model.kernel_cache, is_dev=settings.mode == "dev")
    for line in notes:
        note(line)
    if only_check:
        return _check(settings, as_json=as_json)
    return _serve(settings, kernels, notes, as_json=as_json)


def _check(settings: Settings, *, as_json: bool) -> int:
    """Look at everything that the configuration points to.

    Raises:
        Exception: what is wrong; the command line has a line for each.
    """
    from appliance.service.preflight import check_all  # noqa: PLC0415

    found = check_all(settings)
    if as_json:
        write_json(found)
        return 0
    click.echo(f"{settings.path}: {_MODES[settings.mode]}; nothing stands in the way of a start")
    for name, value in found.items():
        click.echo(f"  {name.replace('_', ' '):<13} {value}")
    return 0


def _serve(settings: Settings, kernels: str, notes: tuple[str, ...], *, as_json: bool) -> int:
    """Serve until a signal.

    Raises:
        Exception: what the start failed with.
    """
    from appliance.service.app import create_app  # noqa: PLC0415
    from appliance.service.connect import connect  # noqa: PLC0415
    from appliance.service.server import Server  # noqa: PLC0415
    from appliance.service.service import Service  # noqa: PLC0415
    from appliance.service.start import Start  # noqa: PLC0415

    service = Service.new(settings)
    connect(service)
    start = Start(service, kernels=kernels, notes=notes)
    try:
        server = Server(service, create_app(service))
        start.begin()
        watch = threading.Thread(
            target=_watch, args=(start, server, as_json), name="windhover-watch", daemon=True
        )
        watch.start()
        exit_code = server.run()
    finally:
        start.close()
        service.stop()
    if start.failure is not None and not isinstance(start.failure, CancelledError):
        raise start.failure
    return exit_code


def _watch(start: Start, server: Server, as_json: bool) -> None:
    """Say when the service is ready, or end it when it cannot be."""
    start.wait()
    if start.failure is not None:
        server.stop()
        return
    host, port = server.address
    where = f"http://{f'[{host}]' if ':' in host else host}:{port}" if port else f"unix:{host}"
    report = start.report
    start.service.access_log.event("ready", where=where, seconds=round(report.seconds, 3))
    if as_json:
        write_json({"ready": where} | report.as_json())
    else:
        steps = ", ".join(f"{step.name} {step.seconds:.1f}" for step in report.steps)
        click.echo(f"ready on {where} after {report.seconds:.1f} s ({steps})")
        _say_memory(start)
    sys.stdout.flush()


def _say_memory(start: Start) -> None:
    """Say what is not as it should be, though it does not stand in the way."""
    from appliance.service.release_check import say_release  # noqa: PLC0415

    memory, lock = start.report.memory, start.report.lock
    if memory is not None and not memory.is_locked:
        note("the weights are not locked in memory and may be swapped; raise LimitMEMLOCK")
    if lock is not None and not lock.is_locked:
        note(f"the process is open to new executable memory: {lock.reason}")
    release = start.report.release
    if release is not None and not release.is_same:
        note(f"mode dev: these are {say_release(release)}")
    if start.report.lost:
        note(f"{start.report.lost} requests of an earlier process are closed as lost")
