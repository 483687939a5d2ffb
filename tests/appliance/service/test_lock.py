"""The lock against new executable memory: what it refuses, and what goes on behind it."""

from __future__ import annotations

import platform

import pytest

from tests.appliance.service.child import run

LOCKED = """
import ctypes, json, sys, threading
from engine import known_answer
from engine.kernels import ops
from engine.kernels.pool import Pool
from engine.sampling import kernel
from appliance.service.lock import executable_gains, lock
from simd.compilation import end_compilation
from simd.errors import ConfigError

before = known_answer.compute("llama", "Q4_0", num_threads=2)
gains_before = executable_gains()
from engine.forward import Engine
config = known_answer.config_of("llama")
engine = Engine(known_answer._Placed(config, known_answer.weights_of(config, "Q4_0")),
                num_threads=2, max_rows=96)
end_compilation()
state = lock()

def outcome(function):
    try:
        return repr(function())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
def callback(value):
    return value + 1

def answered():
    # a new pool of threads, a new program, the kernels of before
    return known_answer.compute("llama", "Q4_0", num_threads=3) == before

threads = []
for n in range(3):
    thread = threading.Thread(target=lambda: threads.append(answered()))
    thread.start()
    thread.join()
import numba
print(json.dumps({
    "state": state, "gains_before": gains_before, "gains": executable_gains(),
    "answered": answered(), "threads": threads, "callback": callback(1),
    "late_import": outcome(lambda: __import__("sqlite3").sqlite_version),
    "new_signature": outcome(lambda: kernel.greedy("x", 1, 2)),
    "helper": outcome(lambda: kernel._blocks("x")),
    "new_kernel": outcome(lambda: ops.linear_q5_k.address),
    "new_function": outcome(lambda: numba.njit(lambda x: x)(1)),
}))
"""
CHILD = """
import json, subprocess, sys
from appliance.service.lock import lock
assert lock().is_locked
from appliance.selfcheck import SelfCheck
from appliance.software import begin_software_digest
from crypto import sm2
import appliance.software as software
check = SelfCheck(sm2.generate().public_key, bytes(32))
program = "from appliance.service.lock import executable_gains; print(executable_gains())"
gains = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
class Nothing:
    def encode(self): return b"x"
    admission = None
print(json.dumps({"gains": gains.strip(), "said": check._ask(b"x", b"")["reason"]}))
"""

pytestmark = pytest.mark.skipif(
    tuple(map(int, platform.release().split(".")[:2])) < (6, 3),
    reason="memory-deny-write-execute came with Linux 6.3",
)


def test_after_the_lock_kernels_run_and_nothing_new_becomes_executable() -> None:
    said = run(LOCKED)
    assert said["state"] == ["locked", ""]
    assert len(said["gains_before"]) == 2
    assert said["gains"] == []
    assert said["answered"] is True
    assert said["threads"] == [True] * 3
    assert said["callback"] == 2
    assert said["late_import"][1].isdigit()
    assert said["new_signature"].startswith("TypeError: No matching definition")
    # compiled in this process it has a signature, loaded from the cache it has none
    assert said["helper"].startswith(("ConfigError", "TypeError"))
    for name in ("new_kernel", "new_function"):
        assert said[name].startswith("ConfigError"), said[name]
        assert "nothing is compiled or loaded any more" in said[name]


def test_programs_started_behind_the_lock_are_locked_and_verify_bundles() -> None:
    said = run(CHILD)
    assert said["gains"] == "()"
    assert said["said"]  # the verifier's own words about what is no bundle


@pytest.mark.parametrize("why", ["EINVAL", "EPERM"])
def test_a_kernel_that_refuses_leaves_it_open_and_says_so(why: str) -> None:
    program = f"""
import ctypes, errno, json
from appliance.service import lock
class Old:
    def prctl(self, *arguments):
        ctypes.set_errno(errno.{why})
        return -1
lock.ctypes.CDLL = lambda *arguments, **options: Old()
print(json.dumps(lock.lock()))
"""
    state, reason = run(program)
    assert state == "open"
    assert ("older than 6.3" if why == "EINVAL" else "EPERM") in reason


def test_a_lock_that_does_not_hold_is_none() -> None:
    program = """
import ctypes, json
from appliance.service import lock
real = ctypes.CDLL(None, use_errno=True)
class Pretends:
    def __getattr__(self, name):
        return (lambda *arguments: 0) if name == "prctl" else getattr(real, name)
lock.ctypes.CDLL = lambda *arguments, **options: Pretends()
print(json.dumps(lock.lock()))
"""
    state, reason = run(program)
    assert state == "open"
    assert "making written memory executable" in reason
