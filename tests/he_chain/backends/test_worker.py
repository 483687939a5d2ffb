from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.backends import memory
from he_chain.backends.memory import available_bytes, check_memory
from he_chain.backends.messages import MAX_BLOBS, Message, frame_parts, read_frame
from he_chain.backends.worker import Limits, Worker, ending
from he_chain.errors import BackendError, ProtocolError, RangeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = str(Path(__file__).parents[1] / "fake_worker.py")


def start(**limits: object) -> Worker:
    settings = {"call_s": 20.0, "frame_bytes": 1 << 20, **limits}
    return Worker([PROGRAM], name="fake", limits=Limits(**settings))  # type: ignore[arg-type]


@pytest.fixture
def fake() -> Iterator[Worker]:
    with start() as worker:
        yield worker


def reader(data: bytes) -> Callable[[int], bytes]:
    rest = bytearray(data)

    def read(size: int) -> bytes:
        if size > len(rest):
            raise EOFError
        taken = bytes(rest[:size])
        del rest[:size]
        return taken

    return read


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=9), st.dictionaries(st.text(max_size=4), JSON), st.lists(st.binary()))
def test_a_message_comes_back_as_it_was(
    name: str, fields: dict[str, object], blobs: list[bytes]
) -> None:
    data = b"".join(frame_parts(Message(name, fields, blobs)))
    assert read_frame(reader(data)) == Message(name, fields, blobs)


def prefix(magic: bytes = b"WHW1", header: int = 2, total: int = 0) -> bytes:
    return struct.pack(">4sIQ", magic, header, total)


def framed(header: bytes, total: int = 0) -> bytes:
    return prefix(header=len(header), total=total) + header


@pytest.mark.parametrize(
    "data",
    [
        prefix(b"GET ") + b"{}",
        prefix(header=(1 << 20) + 1),
        prefix(total=1 << 60),
        framed(b"{}"),
        framed(b"[1]"),
        framed(b"not JSON at all"),
        framed(b"[" * 100_000),
        framed(b'{"name":"a","fields":{"x":NaN},"blobs":[]}'),
        framed(b'{"name":"a","fields":{},"blobs":[],"more":1}'),
        framed(b'{"name":1,"fields":{},"blobs":[]}'),
        framed(b'{"name":"a","fields":[],"blobs":[]}'),
        framed(b'{"name":"a","fields":{},"blobs":[4]}', 3) + b"abc",
        framed(b'{"name":"a","fields":{},"blobs":[-1,4]}', 3) + b"abc",
        framed(b'{"name":"a","fields":{},"blobs":[true]}', 1) + b"a",
        framed(b'{"name":"a","fields":{},"blobs":[%s]}' % b",".join([b"0"] * (MAX_BLOBS + 1))),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_frame(reader(data))


def test_nothing_is_read_for_a_frame_that_is_too_large() -> None:
    sizes: list[int] = []

    def read(size: int) -> bytes:
        sizes.append(size)
        return prefix(total=101)

    with pytest.raises(ProtocolError, match="too many"):
        read_frame(read, max_bytes=100)
    assert sizes == [16]


@pytest.mark.parametrize("blobs", [[b"x" * 101], [b""] * (MAX_BLOBS + 1)])
def test_too_large_a_message_is_not_sent(blobs: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="too large"):
        frame_parts(Message("a", {}, blobs), max_bytes=100)


def test_answers_come_back_whatever_the_library_prints(fake: Worker) -> None:
    blobs = [os.urandom(700_000), b"", b"x"]
    for number in range(3):
        answer = fake.call(Message("echo", {"number": number}, blobs))
        assert answer == Message("echo", {"number": number}, blobs)


def test_errors_cross_as_their_kind_and_the_worker_goes_on(fake: Worker) -> None:
    with pytest.raises(RangeError, match="fake: too large"):
        fake.call(Message("refuse", {"known": True}))
    with pytest.raises(BackendError, match="KeyError: 'what'"):
        fake.call(Message("refuse", {"known": False}))
    with pytest.raises(ProtocolError, match="knows no request 'nothing'"):
        fake.call(Message("nothing"))
    assert fake.call(Message("echo")).name == "echo"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"code": 3, "say": "no such thing\n"}, "exit code 3; it said: no such thing"),
        ({"code": 0}, "exit code 0"),
        ({"signal": "SIGKILL"}, "SIGKILL .*out of memory"),
        ({"signal": "SIGABRT", "say": "a\nb\nc\nd\n"}, "SIGABRT; it said: b . c . d"),
    ],
)
def test_a_dead_worker_says_how_it_ended(
    fake: Worker, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(BackendError, match=words):
        fake.call(Message("end", fields))
    with pytest.raises(BackendError, match=words):  # and is never asked again
        fake.call(Message("echo"))


def test_of_a_panic_its_first_line_is_kept(fake: Worker) -> None:
    said = "panic: invalid level\n\n" + "goroutine 1 [running]:\n\tmain.Bootstrap(0x1)\n" * 10_000
    with pytest.raises(BackendError, match=r"it said: panic: invalid level$"):
        fake.call(Message("end", {"code": 2, "say": said[:900_000]}))


def test_a_hanging_worker_is_killed(fake: Worker) -> None:
    started = time.monotonic()
    with pytest.raises(BackendError, match="no answer to hang in time"):
        fake.call(Message("hang"), timeout_s=0.3)
    assert time.monotonic() - started < 10
    assert not Path(f"/proc/{fake.pid}/exe").exists()


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (b"this is not a frame at all", "no frame"),
        (prefix(total=1 << 40), "too many"),
        (prefix(total=(1 << 20) + 1), "too many"),
        (framed(b'{"name":"a"}'), "damaged"),
    ],
)
def test_a_worker_that_sends_something_else_is_stopped(
    fake: Worker, blob: bytes, words: str
) -> None:
    with pytest.raises(ProtocolError, match=words):
        fake.call(Message("raw", {}, [blob]))
    assert not Path(f"/proc/{fake.pid}/exe").exists()
    with pytest.raises(BackendError, match=words):
        fake.call(Message("echo"))


def test_an_answer_that_is_cut_short_is_a_dead_worker(fake: Worker) -> None:
    with pytest.raises(BackendError, match="exit code 0"):
        fake.call(Message("raw", {"cut": True}))


def test_a_request_that_its_worker_refuses_to_read_ends_it(fake: Worker) -> None:
    with pytest.raises(ProtocolError, match="too large to send"):
        fake.call(Message("echo", {}, [bytes((1 << 20) + 1)]))
    with (
        start(frame_bytes=1 << 23) as generous,
        pytest.raises(BackendError, match=r"exit code 3; it said: .*too many"),
    ):
        generous.call(Message("echo", {}, [bytes((1 << 22) + 1)]))


def test_the_address_space_is_limited() -> None:
    with start(address_bytes=1 << 30) as worker:
        assert worker.call(Message("limit")).fields == {"limit": 1 << 30}
        assert worker.call(Message("allocate", {"size": 1000})).fields == {"size": 1000}
        with pytest.raises(BackendError, match="MemoryError"):
            worker.call(Message("allocate", {"size": 2 << 30}))


def test_without_memory_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (available_bytes() or 0) > 1 << 20
    monkeypatch.setattr(memory, "available_bytes", lambda: 5 << 20)
    check_memory(5 << 20, "fake")
    with pytest.raises(BackendError, match=r"fake: needs 6 MiB of memory, 5 MiB available"):
        start(needed_bytes=6 << 20)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    check_memory(0, "fake")
    with pytest.raises(BackendError, match="unknown"):
        start(needed_bytes=1)


def test_a_closed_worker_is_gone_and_not_asked(fake: Worker) -> None:
    fake.call(Message("echo"))
    fake.close()
    fake.close()
    assert not Path(f"/proc/{fake.pid}/exe").exists()
    with pytest.raises(BackendError, match="closed"):
        fake.call(Message("echo"))


def test_an_interrupted_call_stops_the_worker(
    fake: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fake, "_read", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fake.call(Message("echo"))
    with pytest.raises(BackendError, match="interrupted"):
        fake.call(Message("echo"))


def test_no_descriptor_is_left_behind() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for request in (Message("echo"), Message("end", {"code": 1})):
        with start() as worker, suppress(BackendError):
            worker.call(request)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (7, "exit code 7"), (-11, "SIGSEGV"), (-99, "99")]
)
def test_endings_have_words(code: int, words: str) -> None:
    assert words in ending(code)
