from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from crypto.errors import WriteError
from he_chain.errors import CheckpointError
from he_chain.records.record import Record
from he_chain.records.run_folder import Run, read_whole
from tests.he_chain.report_runs import begin, make_run


def one_more(run, **changes):
    fields = {"kind": "lay", "number": run.next_number, "position": 2, "layer": 0, "inputs": ()}
    return Record(**{**fields, "outputs": (), "previous": run.head, **changes})


def test_a_run_reads_as_it_was_written(tmp_path):
    run = make_run(tmp_path / "run")
    again = Run.open(tmp_path / "run")
    assert again.begin == run.begin
    assert again.records == run.records
    assert again.head == run.head == run.records[-1].digest()
    assert again.next_number == 8


def test_a_begun_run_is_not_begun_again(tmp_path):
    Run.create(tmp_path, begin())
    with pytest.raises(WriteError):
        Run.create(tmp_path, begin(gate_bits=3))
    assert Run.open(tmp_path).begin.gate_bits == 15


def test_what_a_kill_leaves_is_whole_hops(tmp_path):
    run = Run.create(tmp_path, begin())
    run.write_blob("00000.x", b"half a hop", 1, 2.0**40)
    (tmp_path / "cts" / ".00000.y.ct.00ff.partial").write_bytes(b"cut off")
    (tmp_path / "records" / ".00000.rec.00ff.partial").write_bytes(b"cut off")
    again = Run.open(tmp_path)
    assert again.next_number == 0
    blob = again.write_blob("00000.x", b"the hop again", 1, 2.0**40)
    again.append(one_more(again, position=0, outputs=(blob,)))
    assert Run.open(tmp_path).read_blob(blob) == b"the hop again"


def test_kill_9_between_ciphertext_and_record_loses_that_hop_only(tmp_path):
    make_run(tmp_path / "run")
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from he_chain.records.run_folder import Run\n"
        "run = Run.open(Path(sys.argv[1]))\n"
        "run.write_blob('00008.x', b'x' * 100000, 1, 2.0**40)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "run"], check=False)
    assert done.returncode == -9
    again = Run.open(tmp_path / "run")
    assert again.next_number == 8
    blob = again.write_blob("00008.x", b"y", 1, 2.0**40)
    again.append(one_more(again, outputs=(blob,)))
    assert Run.open(tmp_path / "run").next_number == 9


def test_a_finished_hop_is_not_overwritten(tmp_path):
    run = make_run(tmp_path)
    with pytest.raises(CheckpointError, match="finished"):
        run.write_blob("00000.x", b"another", 1, 2.0**40)


def test_records_are_appended_in_order_only(tmp_path):
    run = make_run(tmp_path)
    with pytest.raises(CheckpointError, match="follow"):
        run.append(one_more(run, number=9))
    with pytest.raises(CheckpointError, match="follow"):
        run.append(one_more(run, previous=bytes(32)))
    assert Run.open(tmp_path).next_number == 8


def records_of(folder):
    return folder / "records"


def swap(folder):
    first, second = records_of(folder) / "00001.rec", records_of(folder) / "00002.rec"
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def remove(folder):
    (records_of(folder) / "00003.rec").unlink()


def renumber_over_a_removed_one(folder):
    for number in range(3, 7):
        shutil.move(
            records_of(folder) / f"{number + 1:05}.rec", records_of(folder) / f"{number:05}.rec"
        )


def of_another_run(folder):
    other = make_run(folder.parent / "other", run_id=b"another run, yes")
    name = "00004.rec"
    shutil.copy(records_of(other.folder) / name, records_of(folder) / name)


def begin_of_another_run(folder):
    (folder / "begin.rec").write_bytes(begin(gate_bits=1).encode())


def flip(folder):
    path = records_of(folder) / "00002.rec"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def enlarge(folder):
    (records_of(folder) / "00002.rec").write_bytes(bytes(1 << 17))


def link(folder):
    path = records_of(folder) / "00002.rec"
    path.rename(folder / "elsewhere")
    path.symlink_to(folder / "elsewhere")


def pipe(folder):
    (folder / "begin.rec").unlink()
    os.mkfifo(folder / "begin.rec")


def stranger(folder):
    (records_of(folder) / "note.txt").write_text("hello")


@pytest.mark.parametrize(
    "harm",
    [
        swap,
        remove,
        renumber_over_a_removed_one,
        of_another_run,
        begin_of_another_run,
        flip,
        enlarge,
        link,
        pipe,
        stranger,
    ],
)
def test_a_harmed_run_is_refused(tmp_path, harm):
    make_run(tmp_path / "run")
    harm(tmp_path / "run")
    with pytest.raises(CheckpointError):
        Run.open(tmp_path / "run")


def test_a_flipped_byte_of_a_ciphertext_is_found(tmp_path):
    run = make_run(tmp_path)
    blob = run.records[2].outputs[0]
    path = tmp_path / "cts" / f"{blob.name}.ct"
    data = bytearray(path.read_bytes())
    data[20] ^= 4
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="not the one"):
        run.read_blob(blob)
    path.write_bytes(data + b"1")
    with pytest.raises(CheckpointError, match="more than"):
        run.read_blob(blob)
    path.unlink()
    with pytest.raises(CheckpointError, match="No such file"):
        run.read_blob(blob)


def test_no_file_is_read_that_is_longer_than_any_of_a_run(tmp_path):
    with pytest.raises(CheckpointError, match="longer"):
        read_whole(tmp_path / "x", 1 << 40)
