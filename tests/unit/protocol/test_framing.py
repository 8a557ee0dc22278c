"""The end of a frame, over any chunking."""

from __future__ import annotations

import struct

import pytest

from moldau.base.errors import ProtocolError
from moldau.base.limits import PLAIN_REQUEST_BYTES
from moldau.protocol.framing import PREFIX_BYTES, PRODUCE_KEY, check_announced, frame_end

LIMIT = 100


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(PREFIX_BYTES, "big") + body


def split(chunks: list[bytes]) -> list[bytes]:
    """Do as a receiver does: keep what is not a whole frame yet, present it again with more."""
    kept, frames = b"", []
    for chunk in chunks:
        kept += chunk
        position = 0
        while (end := frame_end(memoryview(kept), position, LIMIT)) <= len(kept):
            frames.append(kept[position + PREFIX_BYTES : end])
            position = end
        kept = kept[position:]
    assert kept == b""
    return frames


BODIES = [b"one", b"", b"three" * 10, b"x" * LIMIT]
STREAM = b"".join(frame(body) for body in BODIES)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 50, len(STREAM)])
def test_frames_come_out_whole_whatever_the_chunks(size):
    assert split([STREAM[at : at + size] for at in range(0, len(STREAM), size)]) == BODIES


@pytest.mark.parametrize("have", [0, 1, 2, 3])
def test_while_the_size_is_not_there_the_end_is_that_of_the_size(have):
    assert frame_end(b"??" + bytes(have), 2, LIMIT) == 2 + PREFIX_BYTES > 2 + have


@pytest.mark.parametrize("have", [0, 1, 49])
def test_an_incomplete_frame_tells_how_far_it_reaches(have):
    assert frame_end(b"??" + frame(bytes(50))[: PREFIX_BYTES + have], 2, LIMIT) == 2 + 4 + 50


def test_an_empty_frame_is_complete_with_its_size():
    assert frame_end(frame(b""), 0, LIMIT) == PREFIX_BYTES


@pytest.mark.parametrize(
    ("prefix", "complaint"),
    [
        ("ffffffff", "a frame of -1 bytes"),
        ("80000000", "a frame of -2147483648 bytes"),
        ("00000065", "a frame of 101 bytes is announced, the limit is 100"),
        ("7fffffff", "a frame of 2147483647 bytes is announced, the limit is 100"),
        ("47455420", "a frame of 1195725856 bytes"),  # "GET ": somebody speaks HTTP
    ],
)
def test_a_size_below_zero_or_above_the_limit_is_refused_at_once(prefix, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        frame_end(bytes.fromhex(prefix), 0, LIMIT)


LARGE = PLAIN_REQUEST_BYTES + 1


@pytest.mark.parametrize("have", range(4, 6))
def test_a_large_request_is_judged_once_its_key_is_there(have):
    check_announced(struct.pack(">ih", LARGE, 3)[:have], 0, 4 + LARGE)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [(1, "a Fetch request of 16777217 bytes .* 16777216"), (999, "API 999"), (-1, "API -1")],
)
def test_only_a_request_with_records_may_be_large(key, complaint):
    check_announced(struct.pack(">ih", LARGE, PRODUCE_KEY), 0, 4 + LARGE)
    check_announced(struct.pack(">ih", LARGE - 1, key), 0, 4 + LARGE - 1)
    with pytest.raises(ProtocolError, match=complaint):
        check_announced(b"??" + struct.pack(">ih", LARGE, key), 2, 2 + 4 + LARGE)
