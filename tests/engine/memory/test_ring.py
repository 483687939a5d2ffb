"""The ring of slots, with a reader that reads when the test says so."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, WeightsError, WeightsUncheckedError
from engine.memory.ring import WindowRing
from engine.memory.windows import Window

WINDOWS = [Window(number, 1, number * 10, number * 10 + 10) for number in range(6)]
LONG_S = 20


class Reader:
    """Begins a read when the ring asks, and ends it when the test says how."""

    def __init__(self) -> None:
        self.begun: queue.Queue[Window] = queue.Queue()
        self._answers: queue.Queue[BaseException | None] = queue.Queue()

    def __call__(self, window: Window, out: memoryview) -> int:
        out[0] = 255
        self.begun.put(window)
        failure = self._answers.get(timeout=LONG_S)
        if failure is not None:
            raise failure
        out[0] = window.number
        return 0

    def end(self, window: Window, failure: BaseException | None = None) -> None:
        """Let the read of a window end, which must be the one that the ring has begun."""
        assert self.begun.get(timeout=LONG_S) == window
        self._answers.put(failure)


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def ring(reader: Reader) -> Iterator[WindowRing]:
    """A ring that reads one window at a time."""
    made = WindowRing(reader, slot_bytes=8, num_loaders=1)
    yield made
    made.close()


class Readers:
    """Begins reads of several windows at a time, and ends each when the test says how."""

    def __init__(self) -> None:
        self.begun: queue.Queue[Window] = queue.Queue()
        self._answers: dict[Window, queue.Queue[BaseException | None]] = {
            window: queue.Queue() for window in WINDOWS
        }

    def __call__(self, window: Window, out: memoryview) -> int:
        self.begun.put(window)
        failure = self._answers[window].get(timeout=LONG_S)
        if failure is not None:
            raise failure
        out[0] = window.number
        return 0

    def wait_for(self, *windows: Window) -> None:
        """Wait until these, in any order, were begun, and nothing else was."""
        assert {self.begun.get(timeout=LONG_S) for _ in windows} == set(windows)
        assert self.begun.empty()

    def end(self, window: Window, failure: BaseException | None = None) -> None:
        self._answers[window].put(failure)


@pytest.fixture
def readers() -> Readers:
    return Readers()


@pytest.fixture
def wide(readers: Readers) -> Iterator[WindowRing]:
    """A ring that reads two windows at a time."""
    made = WindowRing(readers, slot_bytes=8)
    yield made
    made.close()


def byte_at(ring: WindowRing, address: int) -> int:
    """What stands at an address that the ring returned."""
    (slot,) = (each for each in ring.slots if each.ctypes.data == address)
    return int(slot[0])


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Call something beside the test; what it returns or raises is in the list when it is done."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except EngineError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_windows_come_in_order_and_no_more_are_read_than_there_are_slots(
    ring: WindowRing, reader: Reader
):
    ring.begin(WINDOWS[:4])
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1])
    assert byte_at(ring, ring.enter(WINDOWS[0])) == 0
    assert reader.begun.empty()  # both slots are taken
    assert byte_at(ring, ring.enter(WINDOWS[1])) == 1
    reader.end(WINDOWS[2])
    assert byte_at(ring, ring.enter(WINDOWS[2])) == 2
    reader.end(WINDOWS[3])
    assert byte_at(ring, ring.enter(WINDOWS[3])) == 3
    ring.leave()
    ring.leave()


def test_a_window_that_is_not_next_is_refused_rather_than_waited_for(
    ring: WindowRing, reader: Reader
):
    ring.begin(WINDOWS[:3])
    for wrong in (WINDOWS[1], WINDOWS[5], Window(0, 2, 0, 10)):
        with pytest.raises(EngineError, match="not the next"):
            ring.enter(wrong)
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1])
    ring.enter(WINDOWS[0])


def test_what_was_read_ahead_stays_where_it_comes_first_again(ring: WindowRing, reader: Reader):
    ring.begin(WINDOWS[:2])
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1])
    ring.begin(WINDOWS[:3])
    ring.enter(WINDOWS[0])
    ring.enter(WINDOWS[1])
    reader.end(WINDOWS[2])  # and nothing was read twice
    ring.enter(WINDOWS[2])


def test_windows_of_one_number_are_not_taken_for_each_other(ring: WindowRing, reader: Reader):
    other = Window(0, 3, 50, 60)
    ring.begin([WINDOWS[0]])
    reader.end(WINDOWS[0])
    ring.begin([other])
    reader.end(other)
    ring.enter(other)


def test_another_order_while_something_is_read(ring: WindowRing, reader: Reader):
    ring.begin(WINDOWS[:2])
    assert reader.begun.get(timeout=LONG_S) == WINDOWS[0]
    ring.begin([WINDOWS[3]])
    ring.begin(WINDOWS[:1])  # it is wanted again before it is there
    reader._answers.put(None)
    assert byte_at(ring, ring.enter(WINDOWS[0])) == 0
    ring.begin(WINDOWS[4:])
    assert reader.begun.get(timeout=LONG_S) == WINDOWS[4]
    ring.begin([WINDOWS[2]])
    reader._answers.put(None)  # nobody wants it
    reader.end(WINDOWS[2])
    assert byte_at(ring, ring.enter(WINDOWS[2])) == 2


def test_a_failure_comes_where_its_window_is_entered_and_goes_with_the_next_step(
    ring: WindowRing, reader: Reader
):
    ring.begin(WINDOWS[:3])
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1], WeightsError("no", "V6"))
    ring.enter(WINDOWS[0])
    for _ in range(2):
        with pytest.raises(WeightsError):
            ring.enter(WINDOWS[1])
    assert reader.begun.empty()  # nothing is read behind it
    ring.begin(WINDOWS[:2])
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1])
    ring.enter(WINDOWS[0])
    assert byte_at(ring, ring.enter(WINDOWS[1])) == 1


def test_a_failure_of_what_nobody_wants_any_more_is_forgotten(ring: WindowRing, reader: Reader):
    ring.begin(WINDOWS[:1])
    assert reader.begun.get(timeout=LONG_S) == WINDOWS[0]
    ring.begin(WINDOWS[1:2])
    reader._answers.put(WeightsError("no", "V6"))
    reader.end(WINDOWS[1])
    ring.enter(WINDOWS[1])


def test_a_failure_of_what_was_read_ahead_is_tried_again_in_the_step(
    ring: WindowRing, reader: Reader
):
    ring.begin(WINDOWS[:2])
    reader.end(WINDOWS[0])
    reader.end(WINDOWS[1], WeightsUncheckedError("no"))
    with ring._changed:  # a read that has not failed yet would be the step's
        assert ring._changed.wait_for(lambda: ring._failures, LONG_S)
    ring.begin(WINDOWS[:3])
    reader.end(WINDOWS[1])
    ring.enter(WINDOWS[0])
    ring.enter(WINDOWS[1])
    reader.end(WINDOWS[2])
    ring.enter(WINDOWS[2])


def test_it_is_closed_while_somebody_waits_and_something_is_read(ring: WindowRing, reader: Reader):
    ring.begin(WINDOWS[:2])
    assert reader.begun.get(timeout=LONG_S) == WINDOWS[0]
    waiting, found = in_thread(lambda: ring.enter(WINDOWS[0]))
    closing, _ = in_thread(ring.close)
    waiting.join(LONG_S)
    (error,) = found
    assert isinstance(error, EngineError)
    assert "closed" in str(error)
    assert closing.is_alive()  # until the read has ended: it writes to a slot
    reader._answers.put(None)
    closing.join(LONG_S)
    assert ring.slots == []
    ring.begin(WINDOWS)
    with pytest.raises(EngineError, match="closed"):
        ring.enter(WINDOWS[0])
    ring.close()
    assert reader.begun.empty()


def test_what_is_held_outlives_the_close(ring: WindowRing, reader: Reader):
    ring.begin(WINDOWS[:1])
    reader.end(WINDOWS[0])
    address = ring.enter(WINDOWS[0])
    ring.close()
    assert byte_at(ring, address) == 0
    ring.leave()
    assert ring.slots == []


def test_two_are_read_at_a_time_and_entered_in_order(wide: WindowRing, readers: Readers):
    wide.begin(WINDOWS[:4])
    readers.wait_for(WINDOWS[0], WINDOWS[1])
    readers.end(WINDOWS[1])  # the later one is there first
    readers.wait_for(WINDOWS[2])
    waiting, found = in_thread(lambda: wide.enter(WINDOWS[0]))
    readers.end(WINDOWS[0])
    waiting.join(LONG_S)
    assert byte_at(wide, found[0]) == 0
    assert readers.begun.empty()  # all three slots are taken
    assert byte_at(wide, wide.enter(WINDOWS[1])) == 1
    readers.wait_for(WINDOWS[3])
    for window in WINDOWS[2:4]:
        readers.end(window)
        assert byte_at(wide, wide.enter(window)) == window.number


def test_a_failure_does_not_keep_back_what_comes_before_it(wide: WindowRing, readers: Readers):
    wide.begin(WINDOWS[:4])
    readers.wait_for(WINDOWS[0], WINDOWS[1])
    readers.end(WINDOWS[1], WeightsError("no", "V6"))
    with wide._changed:
        assert wide._changed.wait_for(lambda: wide._failures, LONG_S)
    readers.end(WINDOWS[0])
    assert byte_at(wide, wide.enter(WINDOWS[0])) == 0
    for _ in range(2):
        with pytest.raises(WeightsError):
            wide.enter(WINDOWS[1])
    assert readers.begun.empty()


def test_what_is_read_for_nobody_is_not_read_twice_at_a_time(wide: WindowRing, readers: Readers):
    wide.begin(WINDOWS[:2])
    readers.wait_for(WINDOWS[0], WINDOWS[1])
    wide.begin([WINDOWS[3], WINDOWS[1]])  # neither is the first of these
    readers.end(WINDOWS[0])
    readers.wait_for(WINDOWS[3])
    readers.end(WINDOWS[3])
    assert byte_at(wide, wide.enter(WINDOWS[3])) == 3
    assert readers.begun.empty()
    readers.end(WINDOWS[1])
    readers.wait_for(WINDOWS[1])
    readers.end(WINDOWS[1])
    assert byte_at(wide, wide.enter(WINDOWS[1])) == 1


class Watched:
    """Fills slots, fails for some windows, and knows whether one was written that was held."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.held: int | None = None
        self.has_clashed = False

    def __call__(self, window: Window, out: memoryview) -> int:
        address = memoryview_address(out)
        self.has_clashed |= address == self.held
        out[:] = bytes([window.number]) * len(out)
        self.has_clashed |= address == self.held
        if window.number in self.bad:
            raise WeightsError("no", "V6")
        return 1


def memoryview_address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2), st.booleans()),
        max_size=12,
    ),
    st.sets(st.integers(0, 5), max_size=2),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=100)
def test_no_slot_has_two_holders(steps, bad: set[int], num_loaders: int):
    """Steps of so many windows, of which so many are entered; some are read ahead, some leave."""
    reader = Watched(bad)
    ring = WindowRing(reader, slot_bytes=64, num_loaders=num_loaders)
    try:
        for length, entered, ahead, leaves in steps:
            order = WINDOWS[:length]
            ring.begin(order)
            for window in order[:entered]:
                reader.held = None
                if window.number in bad:
                    with pytest.raises(WeightsError):
                        ring.enter(window)
                    break
                address = ring.enter(window)
                reader.held = address - 1
                slot = next(s for s in ring.slots if s.ctypes.data == address - 1)
                assert slot.tolist() == [window.number] * 64
            if leaves:
                reader.held = None
                ring.leave()
                ring.begin(order[:ahead])
    finally:
        reader.held = None
        ring.close()
    assert not reader.has_clashed
