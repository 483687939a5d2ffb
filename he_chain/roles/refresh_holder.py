"""The key holder of protocol `refresh`: it encrypts inputs, and again what it decrypts."""

from __future__ import annotations

from typing import Final

from he_chain.backends.base import Holder, Values
from he_chain.errors import HeChainError, ProtocolError
from he_chain.refresh import RefreshHolder
from he_chain.refresh_setup import Setup
from he_chain.transport import Channel, ClosedError
from he_chain.wire import Message

HELLO: Final = "hello"
INPUT: Final = "input"
REFRESH: Final = "refresh"


class RefreshKeyHolder:
    """The key holder's process: inputs of tokens, and refreshes."""

    def __init__(self, holder: Holder, setup: Setup, inputs: Values) -> None:
        """Serve one layer.

        Args:
            holder: has the secret key.
            setup: of the run.
            inputs: float64[tokens, width], what the layer gets.
        """
        self._holder = holder
        self._setup = setup
        self._inputs = inputs
        self._refresh = RefreshHolder(holder, setup.plan.blind_bits)
        self._levels = {r.to_level for r in setup.plan.refreshes}

    def serve(self, channel: Channel) -> None:
        """Answer until the evaluator leaves.

        Raises:
            HeChainError: something was refused, after the evaluator was told.
        """
        while True:
            try:
                message = channel.receive()
            except ClosedError:
                return
            try:
                answer = self._handle(message)
            except HeChainError as error:
                channel.send(message.refusal(error))
                raise
            channel.send(answer)

    def _handle(self, message: Message) -> Message:
        plan = self._setup.plan
        if message.kind == HELLO and message.fields == {"plan": plan.digest()}:
            return message.answer(HELLO, (), {"tokens": len(self._inputs)})
        if message.kind == INPUT and not message.blobs and message.position < len(self._inputs):
            x = self._inputs[message.position] * self._setup.design.norm1.factor
            slots = self._setup.design.grid.spread(x)
            return message.answer(INPUT, (self._holder.encrypt(slots, plan.entry_level),))
        level = message.fields.get("level")
        if message.kind == REFRESH and len(message.blobs) == 1 and level in self._levels:
            fresh = self._refresh.answer(message.blobs[0], int(level))
            return message.answer(REFRESH, (fresh,))
        raise ProtocolError(f"a message {message.kind} is not due")
