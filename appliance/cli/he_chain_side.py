"""The key holder's side of a finished run, whatever its protocol: what decrypts, and the plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.cli.he_chain_boot import boot_plan, boot_ranges
from appliance.cli.he_chain_common import open_holder

if TYPE_CHECKING:
    from he_chain.plaintext import PlainModel
    from he_chain.records.record import Begin
    from he_chain.reports.measure import Decrypts


@contextmanager
def decrypting(begin: Begin, folder: Path, model: PlainModel) -> Iterator[Decrypts]:
    """Give what decrypts the checkpoints of a run.

    Raises:
        SecurityError, ProtocolError, BackendError, CheckpointError: the keys cannot be read.
    """
    if begin.protocol == "refresh":
        from he_chain.refresh_setup import RefreshMeasure, setup_of  # noqa: PLC0415

        yield RefreshMeasure(open_holder(folder), setup_of(begin, model))
        return
    if begin.protocol != "boot":
        yield open_holder(folder)
        return
    from he_chain.backends.lattigo import LattigoHolder, read_parameters  # noqa: PLC0415
    from he_chain.boot.run import BootMeasure  # noqa: PLC0415

    with LattigoHolder(read_parameters(folder)[0], folder) as holder:
        yield BootMeasure(holder, boot_ranges(model))


def plan_digests(begin: Begin, folder: Path, model: PlainModel) -> tuple[bytes, bytes]:
    """Return the digests of plan and calibration that a run ought to stand on.

    Raises:
        HeChainError: there can be no such plan.
    """
    if begin.protocol == "boot":
        from he_chain.backends.lattigo import read_parameters  # noqa: PLC0415  (takes NumPy)

        planned = boot_plan(model, read_parameters(folder)[0], begin.num_layers)
        return planned.digest(), planned.ranges.digest()
    if begin.protocol == "refresh":
        from he_chain.refresh_setup import setup_of  # noqa: PLC0415  (takes NumPy)

        setup = setup_of(begin, model)
        return setup.plan.digest(), setup.ranges_digest
    from he_chain.planning.assist_plan import plan_assist  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.setup import read_ranges  # noqa: PLC0415

    ranges = read_ranges(folder)
    plan = plan_assist(model.config, begin.parameters, ranges, backend=begin.backend)
    return plan.digest(), ranges.digest()
