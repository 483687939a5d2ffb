"""Ciphertexts from the other side: damaged, cut off, too long, of other parameters, made up."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.backends.frame import OVERHEAD, frame, unframe
from he_chain.backends.seal_context import CIPHERTEXT
from he_chain.errors import ProtocolError
from tests.he_chain.backends.conftest import make_pair


@pytest.fixture(scope="session")
def written(pair) -> list[bytes]:
    """Return a fresh ciphertext, and one that an evaluator wrote."""
    fresh = pair.holder.encrypt(np.linspace(-1, 1, 4096))
    return [fresh, pair.evaluator.dump(pair.evaluator.rotate(pair.evaluator.load(fresh), 1))]


def readers(pair):
    return (pair.evaluator.load, pair.holder.decrypt)


def test_bytes_are_read_by_both_sides(pair, written) -> None:
    fresh, rotated = written
    assert pair.evaluator.dump(pair.evaluator.load(rotated)) == rotated
    assert np.allclose(pair.holder.decrypt(fresh), np.linspace(-1, 1, 4096), atol=1e-6)


def test_a_fresh_ciphertext_of_seal_is_half_a_seed(pair, written) -> None:
    fresh, rotated = written
    ratio = {"mock": 1.0, "seal": 0.5}[pair.name]
    assert len(fresh) == pytest.approx(ratio * len(rotated), rel=0.05)


def test_a_changed_bit_is_seen_everywhere(pair, written) -> None:
    for data in written:
        length = len(data)
        positions = {*range(OVERHEAD + 32), *range(length - 8, length), *range(0, length, 4999)}
        for position in sorted(positions):
            changed = bytearray(data)
            changed[position] ^= 1 << position % 8
            for read in readers(pair):
                with pytest.raises(ProtocolError):
                    read(bytes(changed))


def test_other_lengths_are_refused(pair, written) -> None:
    for data in written:
        for length in (0, 1, 7, OVERHEAD - 1, OVERHEAD, OVERHEAD + 16, len(data) - 1):
            for read in readers(pair):
                with pytest.raises(ProtocolError):
                    read(data[:length])
        for read in readers(pair):
            with pytest.raises(ProtocolError):
                read(data + b"\0")


def test_what_is_too_long_is_not_looked_at(pair) -> None:
    much = frame(CIPHERTEXT if pair.name == "seal" else b"mock", bytes(2_000_000))
    for read in readers(pair):
        with pytest.raises(ProtocolError, match="at most"):
            read(much)


def test_other_parameters_are_refused(pair, other_pair, written) -> None:
    foreign = other_pair.holder.encrypt(np.zeros(2048))
    for read in readers(pair):
        with pytest.raises(ProtocolError):
            read(foreign)
    for read in readers(other_pair):
        with pytest.raises(ProtocolError):
            read(written[0])


@pytest.mark.parametrize("kind", ["publ", "reli", "galo", "secr", "mkey"])
def test_other_kinds_are_refused(pair, kind, written) -> None:
    payload = bytes(written[0][OVERHEAD:])
    for read in readers(pair):
        with pytest.raises(ProtocolError, match="something else"):
            read(frame(kind.encode(), payload))


@pytest.fixture(scope="module")
def payloads(seal_pair) -> list[bytes]:
    """Return what is in the frames of a ciphertext with a seed, and of one without."""
    fresh = seal_pair.holder.encrypt(np.ones(2048))
    whole = seal_pair.evaluator.dump(seal_pair.evaluator.load(fresh))
    return [fresh[OVERHEAD:], whole[OVERHEAD:]]


@pytest.fixture(scope="module")
def seal_pair(tmp_path_factory):
    from tests.he_chain.backends.conftest import ONE_LEVEL

    return make_pair("seal", ONE_LEVEL, tmp_path_factory.mktemp("keys") / "evaluator")


def reframed(payload: bytes) -> bytes:
    """Return a frame whose digest is right."""
    return frame(CIPHERTEXT, payload)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_made_up_bytes_are_refused_or_read(seal_pair, payloads, data) -> None:
    """With a right digest, SEAL's own checks are what remains: no other exception leaves."""
    ev = seal_pair.evaluator
    payload = bytearray(payloads[data.draw(st.integers(0, 1))])
    for _ in range(data.draw(st.integers(1, 3))):
        # heads are short and everything hangs on them
        reach = data.draw(st.sampled_from([16, 160, 1 << 20]))
        position = data.draw(st.integers(0, 1 << 20)) % min(reach, len(payload))
        payload[position] = data.draw(st.integers(0, 255))
    try:
        found = ev.load(reframed(bytes(payload)))
    except ProtocolError:
        return
    assert 0 <= found.level <= 1
    assert 1 <= found.scale < 2.0**70
    assert ev.load(ev.dump(found)).scale == found.scale


@pytest.mark.parametrize("payload", [b"", b"\x5e\xa1", b"\x5e\xa1\x10\x04\x01\x02\0\0" + bytes(8)])
def test_made_up_heads_are_refused(seal_pair, payload) -> None:
    with pytest.raises(ProtocolError):
        seal_pair.evaluator.load(reframed(payload))


def test_a_ciphertext_of_three_polynomials_is_refused(seal_pair) -> None:
    ev = seal_pair.evaluator
    x = ev.encrypt(np.ones(2048))
    ev._raw.square(x.raw, three := ev.context.library.Ciphertext())
    with pytest.raises(ProtocolError, match="two polynomials"):
        ev.load(ev.context.dump(three))


@pytest.mark.parametrize("scale", [0.0, -1.0, 0.25, np.nan, np.inf, 2.0**70])
def test_a_made_up_scale_is_refused(seal_pair, scale) -> None:
    ev = seal_pair.evaluator
    x = ev.encrypt(np.ones(2048))
    x.raw.scale = scale
    with pytest.raises(ProtocolError):
        ev.load(ev.context.dump(x.raw))


@pytest.mark.parametrize("values", [np.nan, np.inf])
def test_a_made_up_imitation_is_refused(tmp_path, values) -> None:
    from dataclasses import replace

    from tests.he_chain.backends.conftest import ONE_LEVEL

    pair = make_pair("mock", ONE_LEVEL, tmp_path / "evaluator")
    x = pair.evaluator.encrypt(np.ones(2048))
    for made_up in (
        replace(x, values=np.full(2048, values)),
        replace(x, scale=values),
        replace(x, level=2),
    ):
        with pytest.raises(ProtocolError):
            pair.evaluator.load(pair.evaluator.dump(made_up))


def test_the_frame_is_what_it_says() -> None:
    framed = frame(b"test", b"payload")
    assert framed[:8] == b"whhetest"
    assert framed[8:40] == hashlib.sha256(b"whhetest" + b"payload").digest()
    assert framed[40:] == b"payload"
    assert unframe(b"test", framed, max_bytes=7) == b"payload"
    with pytest.raises(ProtocolError, match="at most"):
        unframe(b"test", framed, max_bytes=6)
