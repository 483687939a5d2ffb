"""Hops of a run in protocol `refresh`: one layer, token after token, and resuming.

The key holder gives the layer's input of each token, encrypted, and refreshes what the plan names.
The layer's output is refreshed as well, as the next layer would want it: the checkpoint is the
refreshed one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from he_chain.backends.base import Ciphertext, Evaluator
from he_chain.errors import CheckpointError, ProtocolError
from he_chain.plaintext import PlainModel
from he_chain.polynomial.layer import PolynomialLayer
from he_chain.polynomial.steps import block_of
from he_chain.records.process_memory import peak_rss_bytes
from he_chain.records.record import Blob, Record, Seen
from he_chain.records.run_folder import Run
from he_chain.records.watched import Watched
from he_chain.refresh import Refresher
from he_chain.refresh_setup import Setup
from he_chain.roles.exchanges import Traffic
from he_chain.roles.refresh_holder import HELLO, INPUT, REFRESH
from he_chain.transport import Channel
from he_chain.wire import Message, raise_refusal

_CACHED: Final = ("keys", "values")


class RefreshChain:
    """The evaluator's process: one token after the other, a checkpoint behind each."""

    def __init__(
        self, run: Run, evaluator: Evaluator, model: PlainModel, setup: Setup, channel: Channel
    ) -> None:
        """Greet the key holder, and go on behind the last whole hop.

        Raises:
            CheckpointError: the run is of another plan or model, or a ciphertext of its cache is
                not the one that its record names.
            ProtocolError: the key holder has another plan.
        """
        stands_on = (run.begin.plan_digest, run.begin.model_digest, run.begin.calibration_digest)
        if stands_on != (setup.plan.digest(), model.model_digest, setup.ranges_digest):
            raise CheckpointError("the run is of another plan or model")
        self.run = run
        self._setup = setup
        self._channel = channel
        self._step = 0
        self._traffic = Traffic()
        self._ev = Watched(evaluator)
        self._refresher = Refresher(self._ev, self._ask_refresh, setup.plan.blind_bits)
        weights = model.layer(setup.layer)
        steps, refresher = setup.plan.steps, self._refresher
        self._layer = PolynomialLayer(self._ev, setup.design, weights, steps, refresher)
        answer = self._ask(HELLO, 0, (), {"plan": setup.plan.digest()})
        tokens = answer.fields.get("tokens")
        if answer.kind != HELLO or not isinstance(tokens, int):
            raise ProtocolError("the key holder greets in another way")
        self.num_tokens = tokens
        if run.records:
            blobs = {b.name.rpartition(".")[2]: b for b in run.records[-1].outputs}
            loaded = {name: self._ev.load(run.read_blob(blobs[name])) for name in _CACHED}
            self._layer.restore(loaded, len(run.records))

    def go(self, progress: Callable[[Record], None] = lambda record: None) -> None:
        """Run the tokens that are left.

        Raises:
            HeChainError: a token could not be computed; those before it stay.
            WriteError: the file system refused.
        """
        while self.run.next_number < self.num_tokens:
            progress(self._hop(self.run.next_number))

    def _hop(self, position: int) -> Record:
        self._traffic, self._refresher.entries = Traffic(), []
        self._ev.take()
        counts = self._ev.counts.copy()
        cpu, wall = time.process_time(), time.perf_counter()
        answer = self._ask(INPUT, position, (), {})
        if answer.kind != INPUT or len(answer.blobs) != 1:
            raise ProtocolError("the answer to input is another one")
        x = self._ev.load(answer.blobs[0])
        found, output = self._layer.run(x), self._setup.plan.output
        bound = block_of(self._setup.design).bounds[output.value]
        found = self._refresher.refresh(
            self._ev.to_level(found, output.at_level),
            name=output.value,
            bound=bound,
            level=output.to_level,
        )
        place = f"p{position:05}.l{self._setup.layer:03}"
        given = self.run.write_blob(f"{place}.in", answer.blobs[0], x.level, x.scale)
        cached = self.run.records[-1].outputs[1:] if self.run.records else ()
        outputs = [self._write(f"{place}.x", found, self.run.begin.width)]
        cache = self._layer.cache
        outputs += [self._write(f"{place}.{name}", cache[name]) for name in _CACHED]
        seconds, levels = self._ev.take()
        record = Record(
            kind="lay",
            number=self.run.next_number,
            position=position,
            layer=self._setup.layer,
            inputs=(given, *cached),
            outputs=tuple(outputs),
            counts={name: int(n) for name, n in (self._ev.counts - counts).items()},
            exchanges=self._traffic.exchanges,
            bytes_up=self._traffic.bytes_up,
            bytes_down=self._traffic.bytes_down,
            cpu_s=time.process_time() - cpu,
            wall_s=time.perf_counter() - wall,
            peak_rss_bytes=peak_rss_bytes(),
            op_seconds=seconds,
            levels=levels,
            seen_by_holder=self._seen_by_holder(),
            seen_by_evaluator=(
                Seen("input", self.run.begin.width, 0),
                Seen("refreshed", len(self._refresher.entries) * self._ev.parameters.num_slots, 0),
                Seen("position", 1, 53),
            ),
            previous=self.run.head,
        )
        self.run.append(record)
        return record

    def _seen_by_holder(self) -> tuple[Seen, ...]:
        """Return what was blinded: a value tells 53 bits times the statistical distance at most."""
        return tuple(
            Seen(
                f"{entry.name} + r, blinded by {entry.blinding.bits} bits",
                entry.blinding.num_slots,
                math.ceil(53 * entry.blinding.distance),
            )
            for entry in self._refresher.entries
        )

    def _write(self, name: str, x: Ciphertext, values: int = 0) -> Blob:
        return self.run.write_blob(name, self._ev.dump(x), x.level, x.scale, values=values)

    def _ask_refresh(self, data: bytes, level: int) -> bytes:
        answer = self._ask(REFRESH, self.run.next_number, (data,), {"level": level})
        if answer.kind != REFRESH or len(answer.blobs) != 1:
            raise ProtocolError("the answer to refresh is another one")
        return answer.blobs[0]

    def _ask(
        self, kind: str, position: int, blobs: tuple[bytes, ...], fields: Mapping[str, int | bytes]
    ) -> Message:
        run, layer = self.run.begin.run_id, self._setup.layer
        question = Message(kind, run, self._step, position, layer, blobs, fields)
        self._traffic.bytes_up += self._channel.send(question)
        answer = self._channel.receive()
        raise_refusal(answer)
        if (answer.run, answer.step, answer.position) != (run, self._step, position):
            raise ProtocolError("an answer to another question")
        self._traffic.exchanges += 1
        self._traffic.bytes_down += answer.size_bytes
        self._step += 1
        return answer
