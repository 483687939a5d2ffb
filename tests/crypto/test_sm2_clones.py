"""What a cloned process signs: libcrypto's generator gives both copies the same nonce.

Fork is made to look like a clone that cannot be noticed (a restored virtual machine): a library
loaded before all others answers getpid, getentropy and getrandom with constants.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crypto.libcrypto import load
from crypto.sm2_curve import N

CHECKOUT = Path(__file__).parents[2]
SECRET = 0x3945208F7B2144B13F36E38AC6D39F95889393692860B51A42FB81EF4DF7C5B8

SHIM = """
#include <string.h>
#include <sys/types.h>
pid_t getpid(void) { return 4242; }
int getentropy(void *buffer, size_t length) { memset(buffer, 0x5a, length); return 0; }
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{ memset(buffer, 0x5a, length); return (ssize_t)length; }
"""

PROGRAM = """
import os, sys
from crypto.sm2_system import SystemProvider
from crypto.sm2 import private_key, sign

hedged, used_before, secret = sys.argv[1] == "hedged", sys.argv[2] == "used", sys.argv[3]
provider = SystemProvider()
if not hedged:
    call = provider.library.call
    provider.library.call = lambda name, *rest: None if name == "RAND_add" else call(name, *rest)
key = private_key(bytes.fromhex(secret), use=provider)
if used_before:
    sign(key, b"before", use=provider)
for job in sys.argv[4:]:
    message, identifier = (bytes.fromhex(part) for part in job.split(":"))
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, sign(key, message, identifier=identifier, use=provider))
        os._exit(0)
    os.wait()
    print(os.getpid(), os.read(reader, 64).hex())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """Compile the library that makes clones alike."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to build the library with that makes clones alike")
    folder = tmp_path_factory.mktemp("shim")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def signatures_of_clones(shim, mode, used, jobs):
    """Return what one copy of a process signs for each (message, identity)."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            mode,
            used,
            f"{SECRET:064x}",
            *(f"{message.hex()}:{identifier.hex()}" for message, identifier in jobs),
        ],
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in run.stdout.splitlines()]
    assert {pid for pid, _ in lines} == {"4242"}
    return [bytes.fromhex(signature) for _, signature in lines]


def numbers(signature):
    return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")


def nonce(signature):
    """Return the k of a signature, which the holder of the key can tell."""
    r, s = numbers(signature)
    return (s * (1 + SECRET) + r * SECRET) % N


def key_from_repeated_nonce(first, second):
    """Return what the formula gives that takes the key from two signatures with one nonce."""
    (r1, s1), (r2, s2) = numbers(first), numbers(second)
    return (s2 - s1) * pow(s1 - s2 + r1 - r2, -1, N) % N


TWO_MESSAGES = [(b"one", b"1234567812345678"), (b"two", b"1234567812345678")]
TWO_IDENTITIES = [(b"one", b"1234567812345678"), (b"one", b"another")]


@pytest.mark.parametrize("used", ["used", "fresh"])
@pytest.mark.parametrize("jobs", [TWO_MESSAGES, TWO_IDENTITIES], ids=["messages", "identities"])
def test_hedged_clones_use_different_nonces(shim, used, jobs):
    first, second = signatures_of_clones(shim, "hedged", used, jobs)
    assert first[:32] != second[:32]
    assert nonce(first) != nonce(second)
    assert key_from_repeated_nonce(first, second) != SECRET


def test_clones_alike_in_everything_sign_alike(shim):
    first, second = signatures_of_clones(shim, "hedged", "used", TWO_MESSAGES[:1] * 2)
    assert first == second


@pytest.mark.parametrize("used", ["used", "fresh"])
def test_without_the_hedge_the_key_is_lost(shim, used):
    first, second = signatures_of_clones(shim, "plain", used, TWO_MESSAGES)
    if nonce(first) != nonce(second):
        version = ".".join(map(str, load().version))
        pytest.skip(f"libcrypto {version} tells these clones apart, or hedges its nonces itself")
    assert key_from_repeated_nonce(first, second) == SECRET
