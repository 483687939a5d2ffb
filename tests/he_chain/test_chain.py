"""Checkpoints: going on after a kill, and everything that must end a run loudly."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress

import numpy as np
import pytest

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.calib import calibrate
from he_chain.chain import Chain, begin_run
from he_chain.errors import BackendError, CheckpointError, PlanError, ProtocolError, RangeError
from he_chain.plaintext import PlainModel
from he_chain.records.hops import next_hop
from he_chain.records.run_folder import Run
from he_chain.roles.exchanges import Task
from he_chain.roles.serve import serve_folder
from he_chain.roles.setup import read_ranges, write_keys, write_ranges, write_session
from he_chain.transport import FolderChannel
from he_chain.wire import Message
from tests.he_chain.assist_run import (
    SMALL_RING,
    Served,
    agreed_of,
    carry_on,
    open_holder,
    prepare,
)
from tests.he_chain.models import write_model

IDS = [3, 77]


class KilledError(Exception):
    """Stands for SIGKILL in one process."""


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template")
    model = PlainModel(write_model(folder, num_layers=2))
    prepare(folder, model, IDS, max_positions=2)
    return folder, model


@pytest.fixture
def started(template, tmp_path):
    """A run with the first position behind it."""
    source, model = template
    folder = tmp_path / "run"
    shutil.copytree(source, folder)
    return folder, model


def final_x(folder):
    run = Run.open(folder / "RUN")
    outputs = [blob for record in run.records for blob in record.outputs]
    blob = next(blob for blob in reversed(outputs) if blob.name.endswith(".x"))
    return MockHolder.open(folder / "HOLDER").decrypt(run.read_blob(blob))[:64]


def test_the_order_of_hops():
    task = Task(2, 3, 2)
    hops = []

    class Done:
        def __init__(self, due):
            self.kind, self.position, self.layer = due.kind, due.position, due.layer

    while (due := next_hop(hops, task)) is not None:
        hops.append(Done(due))
    assert [(h.position, h.layer) for h in hops] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (1, None),
        (2, 0),
        (2, 1),
        (2, None),
    ]


def test_a_run_goes_on_where_it_was_killed(started, monkeypatch):
    """Killed within the second hop, behind its last exchange, and between two hops."""
    folder, model = started
    carry_on(folder, model, max_hops=1)
    hop_write = Run.append

    def die(self, record):
        raise KilledError

    monkeypatch.setattr(Run, "append", die)
    with pytest.raises(KilledError):
        carry_on(folder, model)
    monkeypatch.setattr(Run, "append", hop_write)
    assert len(Run.open(folder / "RUN").records) == 1
    carry_on(folder, model, max_hops=2)
    run = carry_on(folder, model)
    assert [(r.position, r.layer) for r in run.records] == [
        (0, 0),
        (0, 1),
        (0, None),
        (1, 0),
        (1, 1),
        (1, None),
    ]
    exact = model.exact_forward(IDS).residuals[2, 1]
    assert np.abs(final_x(folder) - exact).max() < 1e-4


def test_another_machine_needs_the_run_and_the_evaluation_keys_only(started, tmp_path):
    folder, model = started
    carry_on(folder, model, max_hops=3)
    other = tmp_path / "other"
    for name in ("RUN", "EVALUATOR"):
        shutil.copytree(folder / name, other / name)
    served = Served(open_holder(folder))
    try:
        evaluator = MockEvaluator.open(other / "EVALUATOR")
        run = Run.open(other / "RUN")
        chain = Chain(run, evaluator, model, served.channel, agreed_of(other, model))
        chain.go()
    finally:
        served.close()
    shutil.copytree(other / "RUN", folder / "RUN", dirs_exist_ok=True)
    exact = model.exact_forward(IDS).residuals[2, 1]
    assert np.abs(final_x(folder) - exact).max() < 1e-4


@pytest.mark.parametrize("name", ["p00000.l001.x", "p00000.l000.k0", "p00000.l000.v0"])
def test_a_flipped_byte_of_a_checkpoint(started, name):
    folder, model = started
    carry_on(folder, model, max_hops=2 if name.endswith("x") else 3)
    path = folder / "RUN" / "cts" / f"{name}.ct"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=name):
        carry_on(folder, model)


def test_a_checkpoint_of_another_level(started, monkeypatch):
    folder, model = started
    carry_on(folder, model, max_hops=1)
    fresh = MockHolder.open(folder / "HOLDER").encrypt(np.zeros(256), 1)
    monkeypatch.setattr(Run, "read_blob", lambda self, blob: fresh)
    with pytest.raises(CheckpointError, match="another level"):
        carry_on(folder, model)
    monkeypatch.setattr(Run, "read_blob", lambda self, blob: b"no ciphertext")
    with pytest.raises(CheckpointError, match="mock"):
        carry_on(folder, model)


def test_swapped_layers(started):
    folder, model = started
    carry_on(folder, model, max_hops=2)
    cts = folder / "RUN" / "cts"
    first, second = (cts / f"p00000.l00{layer}.x.ct" for layer in (0, 1))
    second.write_bytes(first.read_bytes())
    with pytest.raises(CheckpointError, match=r"l001\.x"):
        carry_on(folder, model)


def test_a_model_with_swapped_layers_is_another_model(started, tmp_path):
    folder, _ = started
    with (
        PlainModel(write_model(tmp_path, seed=2, num_layers=2)) as other,
        pytest.raises(CheckpointError, match="another protocol or model"),
    ):
        carry_on(folder, other)


@pytest.mark.parametrize("kind", ["k0", "v0"])
def test_a_stale_cache_file(started, kind):
    folder, model = started
    carry_on(folder, model, max_hops=3)
    cts = folder / "RUN" / "cts"
    path = cts / f"p00000.l000.{kind}.ct"
    path.write_bytes((cts / f"p00000.l001.{kind}.ct").read_bytes())
    with pytest.raises(CheckpointError, match=rf"l000\.{kind}"):
        carry_on(folder, model)


def test_stale_keys_are_seen_by_the_holder(started, monkeypatch):
    """An evaluator that takes another layer's keys: the canaries of the positions are not right."""
    folder, model = started
    carry_on(folder, model, max_hops=3)
    load = Chain._load

    def stale(self, blob):
        if blob.name == "p00000.l000.k0":
            return load(self, self._made["p00000.l001.k0"])
        return load(self, blob)

    monkeypatch.setattr(Chain, "_load", stale)
    with pytest.raises(RangeError, match="canary of scores"):
        carry_on(folder, model)


def test_a_cache_that_lost_a_position_is_seen_by_the_holder(started, monkeypatch):
    folder, model = started
    carry_on(folder, model, max_hops=3)
    empty = MockHolder.open(folder / "HOLDER").encrypt(np.zeros(256), 1)
    read = Run.read_blob

    def lose(self, blob):
        return empty if blob.name == "p00000.l000.k0" else read(self, blob)

    monkeypatch.setattr(Run, "read_blob", lose)
    with pytest.raises(RangeError, match="canary of scores"):
        carry_on(folder, model)


def test_another_key(started, tmp_path):
    folder, model = started
    holder, keys = MockHolder.create(SMALL_RING), tmp_path / "keys"
    write_keys(holder, keys / "HOLDER", keys / "EVALUATOR", {1})
    wrong = open_holder(folder)
    wrong._agreed["key"] = (keys / "HOLDER" / "key.id").read_bytes()
    with pytest.raises(ProtocolError, match="another key"):
        carry_on(folder, model, wrong)
    wrong = open_holder(folder)
    wrong._holder = holder
    with pytest.raises((RangeError, ProtocolError)):
        carry_on(folder, model, wrong)


def test_a_missing_rotation_key(started):
    folder, model = started
    evaluator = MockEvaluator.open(folder / "EVALUATOR")
    rotate = evaluator.rotate

    def without_one(x, steps):
        if steps == 8:
            raise BackendError("rotate: there is no key for 8 steps to the left")
        return rotate(x, steps)

    evaluator.rotate = without_one
    with pytest.raises(BackendError, match="no key"):
        carry_on(folder, model, evaluator=evaluator)


def test_ranges_of_another_run(started, template):
    folder, model = started
    agreed = agreed_of(folder, model) | {"calibration": bytes(32)}
    served = Served(open_holder(folder))
    try:
        evaluator = MockEvaluator.open(folder / "EVALUATOR")
        with pytest.raises(CheckpointError, match="other ranges"):
            Chain(Run.open(folder / "RUN"), evaluator, model, served.channel, agreed)
    finally:
        served.close()


def test_ranges_made_from_the_prompt(started):
    folder, model = started
    with pytest.raises(PlanError, match="on the prompt"):
        write_ranges([folder / "HOLDER"], calibrate(model, IDS), IDS)


def test_a_prompt_that_another_run_has_begun(started):
    folder, model = started
    carry_on(folder, model, max_hops=1)
    shutil.rmtree(folder / "RUN")
    begin = begin_run(
        model,
        SMALL_RING,
        read_ranges(folder / "HOLDER"),
        backend="mock",
        plan_digest=bytes(32),
        gate_bits=15,
        libraries={"numpy": np.__version__},
    )
    Run.create(folder / "RUN", begin)
    with pytest.raises(ProtocolError, match="another run"):
        carry_on(folder, model)


def talk(folder, messages):
    """Send messages to a holder and return its last answer."""
    holder = open_holder(folder)
    answer = None
    for message in messages:
        answer = holder.handle(message)
    return answer


def greeting(folder, model):
    run = Run.open(folder / "RUN").begin.run_id
    return run, Message("hello", run, 0, 0, -1, (), agreed_of(folder, model))


def test_messages_that_are_not_due(started):
    folder, model = started
    run, hello = greeting(folder, model)
    embed = Message("embed", run, 1, 0, 0)
    assert len(talk(folder, [hello, embed]).blobs) == 1
    for refused, text in [
        ([embed], "step 1 is not due"),
        ([Message("embed", run, 0, 0, 0)], "another run"),
        ([hello, Message("embed", run, 0, 0, 0)], "step 0 is not due"),
        ([hello, Message("embed", run, 2, 0, 0)], "step 2 is not due"),
        ([hello, Message("embed", bytes(16), 1, 0, 0)], "another run"),
        ([hello, Message("embed", run, 1, 1, 0)], "not due"),
        ([hello, Message("norm", run, 1, 0, 1, (b"x",))], "not due"),
        ([hello, Message("norm", run, 1, 0, 0, (b"x",))], "not the current one"),
        ([hello, embed, Message("norm", run, 2, 0, 1, (b"x",))], "not due"),
        ([hello, embed, Message("qkv", run, 2, 0, 0, (b"x",))], "norm is"),
        ([hello, embed, Message("norm", run, 2, 0, 0)], "takes 1 ciphertexts"),
        ([hello, Message("embed", run, 1, 0, 0, (b"x",))], "takes 0 ciphertexts"),
        ([hello, embed, Message("norm", run, 2, 0, 0, (bytes(1 << 20),))], "longer than"),
        ([hello, embed, Message("norm", run, 2, 0, 0, (b"junk",))], "mock"),
        ([hello, Message("hello", run, 1, 0, -1, (), hello.fields)], "no greeting"),
        ([Message("hello", run, 0, 0, -1, (), {})], "no greeting"),
    ]:
        with pytest.raises(ProtocolError, match=text):
            talk(folder, refused)


def test_a_greeting_begins_a_new_conversation(started):
    folder, model = started
    run, hello = greeting(folder, model)
    assert talk(folder, [hello, Message("embed", run, 1, 0, 0), hello]).fields == {
        "prompt": 2,
        "positions": 2,
        "layers": 2,
    }


def test_a_run_through_a_folder(started, tmp_path):
    """Two evaluators, the second where the first stopped, and one holder that saw neither leave."""
    folder, model = started
    mail = tmp_path / "mail"
    holder = open_holder(folder)

    def serve():
        with suppress(ProtocolError):  # what is sent at the end
            serve_folder(holder, mail, timeout_s=60)

    thread = threading.Thread(target=serve)
    thread.start()
    for hops in (2, None):
        evaluator = MockEvaluator.open(folder / "EVALUATOR")
        channel = FolderChannel(mail, holder=False, timeout_s=60)
        run = Run.open(folder / "RUN")
        chain = Chain(run, evaluator, model, channel, agreed_of(folder, model))
        chain.go(max_hops=hops)
    channel.send(Message("norm", run.begin.run_id, 0, 0, 0))
    thread.join(60)
    assert not thread.is_alive()
    assert len(Run.open(folder / "RUN").records) == 5


def test_a_hop_may_be_begun_again_but_not_skipped(started):
    folder, model = started
    run, hello = greeting(folder, model)
    talk(folder, [hello, Message("embed", run, 1, 0, 0)])
    talk(folder, [hello, Message("embed", run, 1, 0, 0), Message("embed", run, 2, 0, 0)])


def test_a_token_outside_the_vocabulary(template, tmp_path):
    _, model = template
    with pytest.raises(ProtocolError, match="vocabulary"):
        write_session(tmp_path, model, [512], max_positions=2)


def test_a_folder_of_another_model(started, tmp_path):
    folder, _ = started
    with (
        PlainModel(write_model(tmp_path, seed=2, num_layers=2)) as other,
        pytest.raises(ProtocolError, match="another model"),
    ):
        write_session(folder / "HOLDER", other, IDS, max_positions=2)


def test_one_folder_for_both_sides_is_refused(tmp_path):
    with pytest.raises(PlanError, match="two folders"):
        write_keys(MockHolder.create(SMALL_RING), tmp_path / "a", tmp_path / "a", {1})
