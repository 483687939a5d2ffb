"""The driver's own benchmark: single operations, and matrix products against TenSEAL's."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from he_chain.bench.operations import OperationTime, time_operations
from he_chain.bench.products import BASELINE, ProductTime, time_products
from he_chain.parameters import Parameters

BAR: Final = 10.0
"""How many times faster than `ckks_vector.matmul` our products have to be."""
SETS: Final = (Parameters(8192, 2), Parameters(16384, 7))
"""What is measured by default: 128 bits of security, as many levels as there are."""


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    machine: str
    operations: tuple[OperationTime, ...]
    products: tuple[ProductTime, ...]

    @property
    def reaches_bar(self) -> bool:
        """Whether the chain's product, at its level, is fast enough for every ring and size."""
        ratios = [p.ratio for p in self.products if (p.way, p.level) == ("copies", 1)]
        return bool(ratios) and min(ratios) >= BAR

    def as_json(self) -> dict[str, Any]:
        """Return everything as what a JSON text holds."""
        return {**asdict(self), "bar": BAR, "reaches_bar": self.reaches_bar}

    def as_markdown(self) -> str:
        """Return two tables: operations in milliseconds, products with their ratios."""
        return "\n".join(
            [
                f"Seconds of one core, medians; {self.machine}",
                "",
                *_operation_table(self.operations),
                "",
                *_product_table(self.products),
                "",
                f"`copies` at level 1 at least {BAR:g} times as fast as `{BASELINE}`: "
                f"{'yes' if self.reaches_bar else 'no'}",
            ]
        )


def run_bench(
    parameter_sets: Iterable[Parameters] = SETS,
    *,
    sizes: tuple[int, ...] = (64, 128, 256, 576),
    rounds: int = 3,
) -> Iterator[OperationTime | ProductTime]:
    """Yield every figure as soon as there is one; `collect` makes a whole of them.

    Raises:
        SecurityError, BackendError: the parameters cannot be used, or the library is absent.
        PrecisionError: a product is wrong.
    """
    for parameters in parameter_sets:
        yield from time_operations(parameters)
        yield from time_products(parameters, sizes, rounds=rounds)


def collect(figures: Iterable[OperationTime | ProductTime]) -> Bench:
    """Return what `run_bench` yielded as one value."""
    found = list(figures)
    return Bench(
        machine=f"{platform.machine()}, Python {platform.python_version()}",
        operations=tuple(figure for figure in found if isinstance(figure, OperationTime)),
        products=tuple(figure for figure in found if isinstance(figure, ProductTime)),
    )


def _operation_table(operations: Sequence[OperationTime]) -> list[str]:
    names = list(dict.fromkeys(operation.operation for operation in operations))
    places = list(dict.fromkeys((o.ring_degree, o.level) for o in operations))
    found = {(o.ring_degree, o.level, o.operation): f"{o.cpu_s * 1e3:.2f}" for o in operations}
    rows = [
        [str(degree), str(level), *(found.get((degree, level, name), "") for name in names)]
        for degree, level in places
    ]
    return _table(["N", "level", *(f"{name} ms" for name in names)], rows)


def _product_table(products: Sequence[ProductTime]) -> list[str]:
    rows = [
        [
            str(p.ring_degree),
            str(p.size),
            p.way,
            str(p.level),
            f"{p.cpu_s:.3f}",
            f"{p.ratio:.1f}",
            f"{p.error:.1e}",
        ]
        for p in products
    ]
    return _table(["N", "d", "way", "level", "s", "times faster", "largest error"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        f"|{' --- |' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
