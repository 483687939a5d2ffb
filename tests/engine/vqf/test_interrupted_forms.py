"""`sign`, `seal`, `rewrap` killed at any call of the system, or without room: old file or new."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import engine.vqf
from engine.vqf import open_vqf
from engine.vqf.verify import verify_all
from tests.engine.vqf import vectors
from tests.engine.vqf.vectors import DATA, FOR_KEYS, PLAIN

CHECKOUT = Path(engine.vqf.__file__).parents[2]

# Forks a child for every call of the system that writes, and lets it die before or after that call.
PROGRAM = """
import json, os, resource, signal, sys
from pathlib import Path
from crypto.atomic import AtomicFile
from crypto.errors import WriteError
from crypto.release import Release
from engine.vqf import open_vqf
from engine.vqf.rewrap import rewrap_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.wrap import SealFor
from tests.engine.vqf import vectors

CALLS = ("pwrite", "copy_file_range", "posix_fallocate", "fsync", "fchmod", "link", "replace")
operation, path, base, named = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
if named == "named":
    AtomicFile._without_name = lambda self: -1
old = base.read_bytes()
signer, bob = vectors.signer("stranger"), vectors.key("bob").public_key
unlock = vectors.unlock()

def work():
    with open_vqf(path, unlock) as file:
        if operation == "sign":
            sign_vqf(file, [signer], Release(file.model_digest, "second", 1, 0, None, (0, 1, 0)))
        elif operation == "seal":
            seal_vqf(file, path, SealFor((vectors.key("alice").public_key,)), force=True)
        else:
            rewrap_vqf(file, remove=[bob.key_id])

def die_at(count, before):
    left = [count]
    def hooked(name, real):
        def call(*arguments, **options):
            left[0] -= 1
            if before and not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if not before and not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    for name in CALLS:
        setattr(os, name, hooked(name, getattr(os, name)))

def in_child(body):
    path.write_bytes(old)
    path.chmod(0o640)
    pid = os.fork()
    if not pid:
        try:
            body()
            os._exit(0)
        except WriteError as error:
            os._exit(3 if "cannot be written" in str(error) and "\\n" not in str(error) else 4)
        except BaseException:
            os._exit(5)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left = sorted(entry.name for entry in path.parent.iterdir() if entry != path)
    for name in left:
        (path.parent / name).unlink()
    now = path.read_bytes()
    if now == old:
        state = "old"
    else:
        with open_vqf(path, unlock) as file:
            for extent in file.manifest.extents:
                file.read_bytes(extent.name)
            state = "new"
    return status, state, len(left)

results = []
if named == "no room":
    for limit in (0, 100, 18_000, 32_800, 49_151):
        def body():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            work()
        results.append(in_child(body))
else:
    for before in (True, False):
        for count in range(1, 40):
            def body():
                die_at(count, before)
                work()
            results.append(in_child(body))
            if results[-1][0] == 0:
                break
print(json.dumps(results))
"""


def run(tmp_path: Path, operation: str, base: str, mode: str) -> list[tuple[int, str, int]]:
    """Return exit status, whose content the file has, and how many others are left, by child."""
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, operation, folder / "model.vqf", DATA / base, mode],
        capture_output=True,
        text=True,
        check=True,
        cwd=CHECKOUT,
    )
    with open_vqf(folder / "model.vqf", vectors.unlock()) as file:
        verify_all(file)
    return [(status, state, left) for status, state, left in json.loads(done.stdout)]


FILES = [("sign", PLAIN), ("sign", FOR_KEYS), ("seal", FOR_KEYS), ("rewrap", FOR_KEYS)]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("mode", ["unnamed", "named"])
@pytest.mark.parametrize(("operation", "base"), FILES)
def test_killed_at_every_call(tmp_path: Path, operation: str, base: str, mode: str) -> None:
    results = run(tmp_path, operation, base, mode)
    ended = [index for index, (status, _, _) in enumerate(results) if status == 0]
    assert len(ended) == 2
    assert ended[1] == len(results) - 1
    for status, state, left in results:
        assert status in (0, -9)
        assert status == -9 or (state, left) == ("new", 0)
        assert left <= 1
    # before the last calls there is the old file, then the new one, and never anything else
    for part in (results[: ended[0] + 1], results[ended[0] + 1 :]):
        states = [state for _, state, _ in part]
        assert states == sorted(states, reverse=True)
        assert states.count("old") >= 4
        assert states.count("new") >= 1


@pytest.mark.parametrize(("operation", "base"), FILES)
def test_no_room(tmp_path: Path, operation: str, base: str) -> None:
    """A file that may not grow as far as needed is a full disk to the one who writes it."""
    results = run(tmp_path, operation, base, "no room")
    if base == PLAIN:  # the signed form of it is shorter than the last limit
        assert results.pop() == (0, "new", 0)
    assert results == [(3, "old", 0)] * len(results)
