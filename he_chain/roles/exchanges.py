"""The evaluator's half of a conversation: questions in order, answers checked and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from he_chain.errors import ProtocolError
from he_chain.roles.holder import HELLO, OK
from he_chain.transport import Channel
from he_chain.wire import NO_LAYER, Message, raise_refusal

MAX_POSITIONS: Final = 1 << 16


@dataclass(frozen=True)
class Task:
    """What the holder says about the run: numbers only."""

    num_prompt: int
    max_positions: int
    num_layers: int


@dataclass
class Traffic:
    """What went over the wire."""

    exchanges: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class Exchanges:
    """Asks a key holder."""

    def __init__(self, channel: Channel, run: bytes, max_ciphertext_bytes: int) -> None:
        """Use a channel on which nothing has been said.

        Args:
            channel: to the holder.
            run: 16 bytes.
            max_ciphertext_bytes: how long an answer's ciphertext may be.
        """
        self._channel = channel
        self._run = run
        self._max_bytes = max_ciphertext_bytes
        self._step = 0
        self.traffic = Traffic()

    def hello(self, agreed: Mapping[str, bytes]) -> Task:
        """Begin, or go on with, a run.

        Args:
            agreed: digests that both sides must have, by the names of `HELLO_FIELDS`.

        Raises:
            ProtocolError: the holder has others, or answers nonsense.
        """
        answer = self._ask(HELLO, 0, NO_LAYER, (), agreed)
        if answer.kind != OK or answer.fields.keys() != {"prompt", "positions", "layers"}:
            raise ProtocolError("the holder greets in another way")
        numbers = []
        for name in ("prompt", "positions", "layers"):
            value = answer.fields[name]
            if not isinstance(value, int) or not 0 < value <= MAX_POSITIONS:
                raise ProtocolError("a number of the holder's is out of range")
            numbers.append(value)
        return Task(*numbers)

    def ask(
        self, kind: str, position: int, layer: int, blobs: Sequence[bytes], num_answers: int
    ) -> tuple[bytes, ...]:
        """Send ciphertexts and return those of the answer.

        Raises:
            ProtocolError: the answer is not the one that is due.
            HeChainError: the holder refused, for the reason that it names.
        """
        answer = self._ask(kind, position, layer, tuple(blobs), {})
        if answer.kind != (kind if num_answers else OK) or len(answer.blobs) != num_answers:
            raise ProtocolError(f"the answer to {kind} is another one")
        if any(len(blob) > self._max_bytes for blob in answer.blobs):
            raise ProtocolError("a ciphertext is longer than the parameters allow")
        return answer.blobs

    def take_traffic(self) -> Traffic:
        """Return what has been counted since the last call."""
        taken, self.traffic = self.traffic, Traffic()
        return taken

    def _ask(
        self,
        kind: str,
        position: int,
        layer: int,
        blobs: tuple[bytes, ...],
        fields: Mapping[str, bytes],
    ) -> Message:
        question = Message(kind, self._run, self._step, position, layer, blobs, fields)
        self.traffic.bytes_up += self._channel.send(question)
        answer = self._channel.receive()
        self.traffic.exchanges += 1
        self.traffic.bytes_down += answer.size_bytes
        where = (question.run, question.step, question.position, question.layer)
        if (answer.run, answer.step, answer.position, answer.layer) != where:
            raise ProtocolError("an answer to another question: stale, or out of order")
        raise_refusal(answer)
        self._step += 1
        return answer
