"""The real model, signed and sealed: 500 places of the file, each refused."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np
import pytest

from crypto.errors import KeyFileError
from crypto.kernels.load import load_bulk
from engine.convert.convert import convert
from engine.errors import FormatError, WeightsError
from engine.vqf import VqfFile, open_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.verify import verify_all
from engine.vqf.wrap import SealFor
from tests.engine.golden.smollm2 import find_gguf
from tests.engine.vqf import vectors
from tests.engine.vqf.conftest import signed_copy

ALICE = vectors.unlock("alice")
NUM_IN_HEAD, NUM_IN_DATA = 100, 400


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct from its GGUF file, signed, then sealed."""
    folder = tmp_path_factory.mktemp("real")
    convert(find_gguf(), folder / "plain.vqf")
    signed = signed_copy(folder / "plain.vqf", folder / "signed.vqf", "signer_1")
    with open_vqf(signed, bulk=load_bulk()) as file:
        recipients = SealFor((vectors.key("alice").public_key,))
        seal_vqf(file, folder / "sealed.vqf", recipients, num_threads=2)
    for name in ("plain.vqf", "signed.vqf"):
        (folder / name).unlink()
    return folder / "sealed.vqf"


def refused_in_data(file: VqfFile, at: int, memory: memoryview) -> None:
    """Read the extent that has the byte at `at` of the data area."""
    (extent,) = [
        extent
        for extent in file.manifest.extents
        if extent.offset_bytes <= at < extent.offset_bytes + extent.size_bytes
    ]
    out = memory[: extent.size_bytes]
    out[:4096] = b"\x5a" * 4096
    with pytest.raises(WeightsError) as caught:
        file.read_extents([(extent.name, out)], num_threads=2)
    assert caught.value.check == "V5"
    assert not np.frombuffer(out, np.uint8).any()


def refused_in_head(path: Path) -> None:
    """Open the file, and read all of it if its tag table is all that is damaged."""
    try:
        file = open_vqf(path, ALICE, bulk=load_bulk())
    except (FormatError, WeightsError, KeyFileError):
        return
    with file, pytest.raises(WeightsError) as caught:
        verify_all(file, num_threads=2)
    assert caught.value.check == "V5"


@pytest.mark.slow
@pytest.mark.ci
def test_random_places(sealed: Path) -> None:
    descriptor = os.open(sealed, os.O_RDWR)
    try:
        with open_vqf(sealed, ALICE, bulk=load_bulk()) as file:
            verify_all(file, num_threads=2)
            largest = max(extent.size_bytes for extent in file.manifest.extents)
            memory = memoryview(bytearray(largest))
            start, length = file.preamble.data_offset, file.preamble.file_length
            places = [secrets.randbelow(start) for _ in range(NUM_IN_HEAD)]
            places += [start + secrets.randbelow(length - start) for _ in range(NUM_IN_DATA)]
            for place in places:
                mask = 1 << secrets.randbelow(8)
                print("byte", place, "mask", mask)
                old = os.pread(descriptor, 1, place)
                os.pwrite(descriptor, bytes([old[0] ^ mask]), place)
                if place < start:
                    refused_in_head(sealed)
                else:
                    refused_in_data(file, place - start, memory)
                os.pwrite(descriptor, old, place)
            verify_all(file, num_threads=2)
    finally:
        os.close(descriptor)
