"""The key holder of protocol `assist`: a process that answers an evaluator, message by message."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from crypto.errors import WriteError
from he_chain.backends.base import Holder
from he_chain.calib import Ranges, refuse_prompt
from he_chain.errors import HeChainError, ProtocolError
from he_chain.packing import Packing
from he_chain.roles.assist_steps import (
    EMBED,
    LOGITS,
    AssistSteps,
    Cipherslots,
    Place,
    exchanges,
)
from he_chain.roles.holder_model import HolderModel
from he_chain.roles.session import load_session
from he_chain.transport import Channel, ClosedError
from he_chain.wire import Message

HELLO: Final = "hello"
OK: Final = "ok"
HELLO_FIELDS: Final = ("calibration", "key", "model")
"""What both sides must agree on: digests of 32 bytes, the key's of 16."""


class KeyHolder:
    """Answers messages; every refusal is final for its connection."""

    def __init__(self, folder: Path, holder: Holder, ranges: Ranges, key_id: bytes) -> None:
        """Open a holder's folder.

        Args:
            folder: with the model's part and the session of a prompt.
            holder: has the secret key.
            ranges: what decrypted values are held to.
            key_id: 16 bytes that name the keys.

        Raises:
            ProtocolError: a file is missing or damaged.
            PlanError: the ranges were measured on the prompt, or the model does not fit.
            RangeError: the ranges do not fit the parameters.
        """
        self._folder = folder
        self._holder = holder
        self._model = HolderModel(folder)
        self._packing = Packing(self._model.config, holder.parameters.num_slots)
        self._session = load_session(folder)
        refuse_prompt(ranges, self._session.ids[: self._session.num_prompt])
        ranges.check_fit(holder.parameters)
        if ranges.model_digest != self._model.model_digest:
            raise ProtocolError("the ranges are of another model")
        self._steps = AssistSteps(self._model, self._packing, ranges)
        self._agreed = {
            "calibration": ranges.digest(),
            "key": key_id,
            "model": self._model.model_digest,
        }
        self._max_bytes = _max_ciphertext_bytes(holder)
        self._due: tuple[str, ...] = ()
        self._greeted = False
        self._step = 0
        self.watch: Callable[[str, Place, Sequence[Cipherslots]], None] | None = None
        """Sees what is encrypted: for tests and measurements on the holder's own side."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The prompt and what has been generated so far: a secret."""
        return self._session.ids

    def serve(self, channel: Channel) -> None:
        """Answer until the evaluator leaves.

        Raises:
            HeChainError: something was refused; the evaluator has been told why.
        """
        self._begin_conversation()
        while True:
            try:
                message = channel.receive()
            except ClosedError:
                return
            try:
                answer = self.handle(message)
            except (HeChainError, WriteError) as error:
                told = error if isinstance(error, HeChainError) else ProtocolError("cannot write")
                channel.send(message.refusal(told))
                raise
            channel.send(answer)

    def handle(self, message: Message) -> Message:
        """Return the answer to one message.

        Raises:
            ProtocolError: it is not due, of another run, model or key, or damaged.
            RangeError: what it holds is outside its range.
        """
        if message.kind == HELLO and message.step == 0:
            self._begin_conversation()  # in a folder nobody says when an evaluator was killed
        if message.step != self._step:
            raise ProtocolError(f"step {message.step} is not due: a stale message, or a lost one")
        self._step += 1
        if any(len(blob) > self._max_bytes for blob in message.blobs):
            raise ProtocolError("a ciphertext is longer than the parameters allow")
        if message.kind == HELLO:
            return self._hello(message)
        if not self._greeted or message.run != self._session.run:
            raise ProtocolError("a message of another run")
        self._expect(message)
        return self._answer(message)

    def _begin_conversation(self) -> None:
        self._due, self._greeted, self._step = (), False, 0

    def _hello(self, message: Message) -> Message:
        """Agree with an evaluator on run, model, keys and ranges."""
        if self._greeted or message.fields.keys() != set(HELLO_FIELDS):
            raise ProtocolError("no greeting is due")
        for name, own in self._agreed.items():
            found = message.fields[name]
            if not isinstance(found, bytes) or not hmac.compare_digest(found, own):
                raise ProtocolError(f"the other side has another {name}")
        if self._session.run and self._session.run != message.run:
            raise ProtocolError("this prompt belongs to another run")
        if not self._session.run:
            self._session = replace(self._session, run=message.run)
            self._session.save(self._folder)
        self._greeted = True
        session = self._session
        numbers = {
            "prompt": session.num_prompt,
            "positions": session.max_positions,
            "layers": session.num_layers,
        }
        return message.answer(OK, (), numbers)

    def _expect(self, message: Message) -> None:
        """Check that a message is the one that is due in its hop, or begins one that is."""
        order = exchanges(message.layer)
        if message.kind == order[0]:
            session = self._session.begin(message.position, message.layer)
            if session is not self._session:
                session.save(self._folder)
            self._session, self._due = session, order
        here = (self._session.position, self._session.layer)
        if not self._due or (message.position, message.layer) != here:
            raise ProtocolError(f"hop {message.position}/{message.layer} is not the current one")
        if message.kind != self._due[0]:
            raise ProtocolError(f"{message.kind} is not due, {self._due[0]} is")
        wanted = self._steps.num_inputs(message.kind, message.position)
        if len(message.blobs) != wanted or message.fields:
            raise ProtocolError(f"{message.kind} takes {wanted} ciphertexts and no fields")
        self._due = self._due[1:]

    def _answer(self, message: Message) -> Message:
        slots = [self._holder.decrypt(blob) for blob in message.blobs]
        place = Place(message.run, message.position, message.layer)
        session = self._session if self._due else self._session.finish()
        found: list[Cipherslots] = []
        if message.kind == EMBED:
            found = self._steps.embed(session.ids[message.position])
        elif message.kind == LOGITS:
            session = session.with_token(int(self._steps.logits(place, slots).argmax()))
        else:
            found = self._steps.step(message.kind, place, slots)
        if self.watch is not None:
            self.watch(message.kind, place, found)
        blobs = tuple(self._holder.encrypt(one.values, one.level) for one in found)
        if session is not self._session:
            session.save(self._folder)
            self._session = session
        return message.answer(message.kind if blobs else OK, blobs)


def _max_ciphertext_bytes(holder: Holder) -> int:
    """Return what a ciphertext of the highest level may have, packed however badly."""
    parameters = holder.parameters
    return 2 * parameters.ring_degree * 8 * (parameters.num_levels + 1) + (1 << 16)
