"""Hops of a run in protocol `assist`: `lay` and `fin`, each with a checkpoint, and resuming.

A hop reads its ciphertexts from the run's folder, checked against the records that name them, and
leaves new ones and a record behind. Nothing else is kept between hops, so that a killed evaluator
loses the hop that it was in, and another machine with the folder and the evaluation keys goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from he_chain.backends.base import Ciphertext, Evaluator
from he_chain.calib import Ranges
from he_chain.errors import CheckpointError, ProtocolError
from he_chain.parameters import Parameters
from he_chain.records.claims import CLAIMS, LIMITS, security_line
from he_chain.records.hops import Due, next_hop
from he_chain.records.ledger import seen_by_evaluator, seen_by_holder
from he_chain.records.process_memory import peak_rss_bytes
from he_chain.records.record import RUN_ID_BYTES, Begin, Blob, Record
from he_chain.records.run_folder import Run
from he_chain.records.watched import Watched
from he_chain.roles.assist import AssistEvaluator, CacheBlock
from he_chain.roles.exchanges import Exchanges
from he_chain.transport import Channel
from he_chain.weights import ModelWeights


def begin_run(
    weights: ModelWeights,
    parameters: Parameters,
    ranges: Ranges,
    *,
    backend: str,
    plan_digest: bytes,
    gate_bits: int,
    libraries: Mapping[str, str],
) -> Begin:
    """Return the begin record of a new run, under a random name.

    Raises:
        SecurityError: the parameters do not have 128 bits.
    """
    return Begin(
        run_id=os.urandom(RUN_ID_BYTES),
        protocol="assist",
        model_digest=weights.model_digest,
        plan_digest=plan_digest,
        calibration_digest=ranges.digest(),
        backend=backend,
        parameters=parameters,
        num_layers=weights.config.num_layers,
        width=weights.config.hidden_size,
        gate_bits=gate_bits,
        libraries=libraries,
        security=security_line(parameters, backend, "assist"),
        claims=(*CLAIMS["assist"], *LIMITS),
    )


class Chain:
    """A run that is carried on from its last whole hop."""

    def __init__(
        self,
        run: Run,
        evaluator: Evaluator,
        weights: ModelWeights,
        channel: Channel,
        agreed: Mapping[str, bytes],
        *,
        logits_of_all: bool = False,
    ) -> None:
        """Greet the holder.

        Args:
            run: as far as it has come.
            evaluator: computes.
            weights: the model that the run names.
            channel: to the holder.
            agreed: `calibration`, `key` and `model`, which the holder must have as well.
            logits_of_all: whether positions inside the prompt get logits as well.

        Raises:
            CheckpointError: the run is of another model, ring or calibration.
            ProtocolError: the holder has other things, or answers nonsense.
            PlanError: the model does not fit the ring.
        """
        begin = run.begin
        if begin.protocol != "assist" or begin.model_digest != weights.model_digest:
            raise CheckpointError("the run is of another protocol or model")
        if begin.parameters != evaluator.parameters:
            raise CheckpointError("the run is of another ring")
        if begin.calibration_digest != agreed["calibration"]:
            raise CheckpointError("the run stands on other ranges")
        self.run = run
        self._logits_of_all = logits_of_all
        self._ev = Watched(evaluator)
        ring = evaluator.parameters
        limit = 2 * ring.ring_degree * 8 * (ring.num_levels + 1) + (1 << 16)
        self._exchanges = Exchanges(channel, begin.run_id, limit)
        self._assist = AssistEvaluator(self._ev, weights, self._exchanges, begin.run_id)
        self._made = {blob.name: blob for record in run.records for blob in record.outputs}
        self.task = self._exchanges.hello(agreed)
        if {self.task.num_layers, begin.num_layers} != {weights.config.num_layers}:
            raise ProtocolError("the holder has another number of layers")

    def due(self) -> Due | None:
        """Return the hop that is to come, None at the end."""
        return next_hop(self.run.records, self.task, logits_of_all=self._logits_of_all)

    def go(
        self,
        progress: Callable[[Record], None] = lambda record: None,
        *,
        max_hops: int | None = None,
    ) -> None:
        """Run hop after hop to the end.

        Args:
            progress: sees every finished hop.
            max_hops: stop after so many.

        Raises:
            HeChainError: a hop could not be computed; those before it stay.
            WriteError: the file system refused.
        """
        done = 0
        while (due := self.due()) is not None and (max_hops is None or done < max_hops):
            progress(self.hop(due))
            done += 1

    def hop(self, due: Due) -> Record:
        """Run one hop, write its ciphertexts and its record, and return that.

        Raises:
            CheckpointError: a ciphertext that it needs is not the one that its record names.
            HeChainError: it could not be computed.
        """
        self._exchanges.take_traffic()
        self._ev.take()
        counts = self._ev.counts.copy()
        cpu, wall = time.process_time(), time.perf_counter()
        inputs, outputs = self._lay(due) if due.layer is not None else self._fin(due)
        traffic = self._exchanges.take_traffic()
        seconds, levels = self._ev.take()
        record = Record(
            kind=due.kind,
            number=self.run.next_number,
            position=due.position,
            layer=due.layer,
            inputs=inputs,
            outputs=outputs,
            counts={name: int(n) for name, n in (self._ev.counts - counts).items()},
            exchanges=traffic.exchanges,
            bytes_up=traffic.bytes_up,
            bytes_down=traffic.bytes_down,
            cpu_s=time.process_time() - cpu,
            wall_s=time.perf_counter() - wall,
            peak_rss_bytes=peak_rss_bytes(),
            op_seconds=seconds,
            levels=levels,
            seen_by_holder=seen_by_holder(self._assist.packing, due.position, due.layer),
            seen_by_evaluator=seen_by_evaluator(self._assist.packing, due.position, due.layer),
            previous=self.run.head,
        )
        self.run.append(record)
        self._made.update((blob.name, blob) for blob in outputs)
        return record

    def _lay(self, due: Due) -> tuple[tuple[Blob, ...], tuple[Blob, ...]]:
        position, layer = due.position, due.layer or 0
        packing = self._assist.packing
        x_blob = self._blob(f"{_place(position, layer - 1)}.x") if layer else None
        cached = []
        for block in range(packing.num_blocks(position)):
            last = min((block + 1) * packing.block_positions, position) - 1
            place = _place(last, layer)
            cached.append((self._blob(f"{place}.k{block}"), self._blob(f"{place}.v{block}")))
        hop = self._assist.lay(
            position,
            layer,
            None if x_blob is None else self._load(x_blob),
            [CacheBlock(self._load(k), self._load(v)) for k, v in cached],
        )
        place, block = _place(position, layer), packing.block(position)
        outputs = (
            self._write(f"{place}.x", hop.x, packing.config.hidden_size),
            self._write(f"{place}.k{block}", hop.block.keys),
            self._write(f"{place}.v{block}", hop.block.values),
        )
        inputs = [blob for pair in cached for blob in pair]
        return (*([] if x_blob is None else [x_blob]), *inputs), outputs

    def _fin(self, due: Due) -> tuple[tuple[Blob, ...], tuple[Blob, ...]]:
        packing = self._assist.packing
        x_blob = self._blob(f"{_place(due.position, self.task.num_layers - 1)}.x")
        rows, outputs = packing.head.rows, []
        for number, block in enumerate(self._assist.fin(due.position, self._load(x_blob))):
            values = min(packing.head.block_rows, rows - number * packing.head.block_rows)
            outputs.append(self._write(f"p{due.position:05}.logits{number}", block, values))
        return (x_blob,), tuple(outputs)

    def _blob(self, name: str) -> Blob:
        """Return what an earlier hop made; CheckpointError where none did."""
        if name not in self._made:
            raise CheckpointError(f"no hop made {name}")
        return self._made[name]

    def _load(self, blob: Blob) -> Ciphertext:
        """Read a ciphertext; CheckpointError where it is not the one of the record."""
        data = self.run.read_blob(blob)
        try:
            x = self._ev.load(data)
        except ProtocolError as error:
            raise CheckpointError(f"{blob.name}.ct: {error}") from None
        if x.level != blob.level or x.scale.hex() != blob.scale:
            raise CheckpointError(f"{blob.name}.ct has another level or scale than its record")
        return x

    def _write(self, name: str, x: Ciphertext, values: int = 0) -> Blob:
        return self.run.write_blob(name, self._ev.dump(x), x.level, x.scale, values=values)


def _place(position: int, layer: int) -> str:
    return f"p{position:05}.l{layer:03}"
