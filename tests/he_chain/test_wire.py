"""Messages: one encoding, and nothing is read that was not announced and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import encode
from he_chain.errors import HeChainError, ProtocolError, RangeError
from he_chain.records.record import blob_digest
from he_chain.wire import (
    MAX_BLOB_BYTES,
    NO_LAYER,
    Message,
    decode_frame,
    encode_frame,
    raise_refusal,
    read_frame,
)

RUN = bytes(range(16))
MESSAGE = Message("norm", RUN, 3, 1, 2, (b"abc", b"defgh"), {"key": b"x", "prompt": 4})


def head_of(**changes):
    head = {
        "kind": "norm",
        "run": RUN,
        "step": 0,
        "position": 0,
        "layer": 0,
        "blobs": [[3, blob_digest(b"abc")]],
        "fields": {},
        **changes,
    }
    return {name: value for name, value in head.items() if value is not None}


def frame_of(body: bytes = b"abc", **changes) -> bytes:
    data = encode(head_of(**changes))
    return len(data).to_bytes(4, "big") + data + body


def test_there_and_back():
    assert decode_frame(encode_frame(MESSAGE)) == MESSAGE
    assert decode_frame(frame_of()).blobs == (b"abc",)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(NO_LAYER, 2**31 - 1),
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
)
def test_any_message(step, position, layer, blobs):
    message = Message("k-9", RUN, step, position, layer, tuple(blobs))
    assert decode_frame(encode_frame(message)) == message


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "Norm"},
        {"kind": 1},
        {"kind": ""},
        {"run": b"short"},
        {"run": "text"},
        {"step": -1},
        {"step": 2**31},
        {"position": -1},
        {"position": True},
        {"layer": -2},
        {"layer": b""},
        {"blobs": 1},
        {"blobs": [1]},
        {"blobs": [[3]]},
        {"blobs": [[3, bytes(32)]]},
        {"blobs": [["3", blob_digest(b"abc")]]},
        {"blobs": [[0, blob_digest(b"")]]},
        {"blobs": [[MAX_BLOB_BYTES + 1, bytes(32)]]},
        {"blobs": [[1, bytes(32)]] * 257},
        {"fields": []},
        {"fields": {"a": [1]}},
        {"fields": {1: 1}},
        {"fields": None},
        {"step": None},
        {"other": 1},
    ],
)
def test_heads_that_are_none(changes):
    with pytest.raises(ProtocolError):
        decode_frame(frame_of(**changes))


def test_sizes_are_bounded_before_anything_is_read():
    asked = []
    frame = frame_of(blobs=[[MAX_BLOB_BYTES, bytes(32)]] * 5)

    def read(count):
        asked.append(count)
        start = sum(asked[:-1])
        return frame[start : start + count]

    with pytest.raises(ProtocolError, match="too many"):
        read_frame(read)
    assert max(asked) < 1000


@pytest.mark.parametrize("frame", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1\xff", b"\0\0"])
def test_frames_that_are_none(frame):
    with pytest.raises(ProtocolError):
        decode_frame(frame)


def test_a_frame_is_whole_and_alone():
    frame = encode_frame(MESSAGE)
    with pytest.raises(ProtocolError, match="ends early"):
        decode_frame(frame[:-1])
    with pytest.raises(ProtocolError, match="bytes follow"):
        decode_frame(frame + b"x")


def test_a_flipped_byte_is_seen():
    frame = bytearray(encode_frame(MESSAGE))
    frame[-1] ^= 1
    with pytest.raises(ProtocolError, match="altered"):
        decode_frame(bytes(frame))


def test_too_large_messages_are_not_sent():
    with pytest.raises(ProtocolError):
        encode_frame(Message("x", RUN, 0, 0, 0, (b"",)))
    with pytest.raises(ProtocolError, match="head"):
        encode_frame(Message("x", RUN, 0, 0, 0, (), {"a": bytes(40_000)}))


def test_a_refusal_is_raised_as_what_it_was():
    raise_refusal(MESSAGE)
    with pytest.raises(RangeError, match="outside"):
        raise_refusal(MESSAGE.refusal(RangeError("outside")))
    for name in ("Exception", "annotations", "no name", 7, "HeChainError"):
        with pytest.raises(HeChainError):
            raise_refusal(MESSAGE.answer("refused", (), {"error": name, "text": 1}))
