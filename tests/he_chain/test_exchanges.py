"""The evaluator takes only the answer to its question."""

from __future__ import annotations

from dataclasses import replace

import pytest

from he_chain.errors import ProtocolError, RangeError
from he_chain.roles.exchanges import Exchanges
from he_chain.wire import Message

RUN = bytes(16)
NUMBERS = {"prompt": 2, "positions": 3, "layers": 4}


class Answers:
    """A channel whose other side answers by a function."""

    def __init__(self, answer):
        self._answer = answer
        self.asked: list[Message] = []

    def send(self, message):
        self.asked.append(message)
        return 100

    def receive(self):
        return self._answer(self.asked[-1])

    def close(self):
        pass


def exchanges(answer):
    return Exchanges(Answers(answer), RUN, 50)


def test_questions_are_counted():
    talk = exchanges(lambda m: m.answer(m.kind, (b"abc",)))
    assert talk.ask("norm", 1, 2, [b"x"], 1) == (b"abc",)
    assert talk.ask("norm", 1, 2, [b"x"], 1) == (b"abc",)
    assert [m.step for m in talk._channel.asked] == [0, 1]
    traffic = talk.take_traffic()
    assert (traffic.exchanges, traffic.bytes_up, traffic.bytes_down) == (2, 200, 6)
    assert talk.take_traffic().exchanges == 0


@pytest.mark.parametrize(
    "changes", [{"step": 7}, {"position": 0}, {"layer": 0}, {"run": b"another run's it"}]
)
def test_an_answer_to_another_question(changes):
    talk = exchanges(lambda m: replace(m.answer(m.kind, (b"abc",)), **changes))
    with pytest.raises(ProtocolError, match="another question"):
        talk.ask("norm", 1, 2, [], 1)


@pytest.mark.parametrize(
    ("kind", "blobs"),
    [("qkv", (b"a",)), ("norm", ()), ("norm", (b"a", b"b")), ("norm", (bytes(51),))],
)
def test_an_answer_of_another_form(kind, blobs):
    with pytest.raises(ProtocolError):
        exchanges(lambda m: m.answer(kind, blobs)).ask("norm", 1, 2, [], 1)


def test_a_refusal():
    with pytest.raises(RangeError, match="too large"):
        exchanges(lambda m: m.refusal(RangeError("too large"))).ask("norm", 1, 2, [], 1)


def test_greetings():
    task = exchanges(lambda m: m.answer("ok", (), NUMBERS)).hello({})
    assert (task.num_prompt, task.max_positions, task.num_layers) == (2, 3, 4)
    for kind, fields in [
        ("hello", NUMBERS),
        ("ok", {}),
        ("ok", {**NUMBERS, "layers": 0}),
        ("ok", {**NUMBERS, "prompt": "2"}),
        ("ok", {**NUMBERS, "positions": 1 << 17}),
    ]:
        with pytest.raises(ProtocolError):
            exchanges(lambda m, k=kind, f=fields: m.answer(k, (), f)).hello({})
