"""Whatever bytes arrive: a message, or ProtocolError, and memory in proportion to the input.

The contract holds for a broker reading requests and for a client reading responses, so every
declared message is tried; also the header decoder and the frame splitter, whole and byte by byte.
"""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kits.message_samples import declared_messages, fitted, random_message
from moldau.base.errors import ProtocolError
from moldau.protocol.compiler import decoder, encode
from moldau.protocol.framing import PREFIX_BYTES, frame_end
from moldau.protocol.registry import (
    decode_header,
    decode_request,
    decode_response,
    encode_request,
    find_api,
)

PAIRS = [(cls, version) for cls in declared_messages() for version in cls.VERSIONS]

PATTERNS = [
    bytes(100),
    b"\x01" * 100,
    b"\x02" * 100,
    b"\x7f" * 100,
    b"\xff" * 100,
    b"\x80" * 100,
    b"\x00\x01" * 50,
    b"\xff\xff\xff\xff\x07" * 20,
    b"\x7f\xff\xff\xff" * 25,
    b"\x00\x00\x00\x64" * 25,
]
"""Bytes that are lengths: none, small, just possible, negative, huge, never ending."""

MEMORY_PER_BYTE = 100
"""The smallest struct takes two or three bytes and becomes an object of about two hundred."""

MEMORY_FREE = 10_000
"""For the message itself with all its defaults, and for the error."""


def tried(cls, version, data):
    """Decode; anything but a message or ProtocolError fails the test."""
    try:
        decoded, end = decoder(cls, version)(memoryview(data), 0)
    except ProtocolError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refusal is one of two right outcomes
        return None
    assert 0 <= end <= len(data)
    return decoded


def longest_list(value) -> int:
    if isinstance(value, list):
        return max([len(value), *map(longest_list, value)])
    if hasattr(value, "FIELDS"):
        return max([0, *(longest_list(getattr(value, one.name)) for one in value.FIELDS)])
    return 0


@settings(max_examples=40)
@given(st.binary(max_size=120))
def test_random_bytes_are_decoded_or_refused_by_every_decoder(data):
    for cls, version in PAIRS:
        tried(cls, version, data)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_messages_are_decoded_or_refused(seed):
    chance = random.Random(seed)
    survivors = 0
    for cls, version in PAIRS:
        valid = encode(fitted(random_message(cls, chance), version), version)
        for _ in range(6):
            survivors += tried(cls, version, mutated(valid, chance)) is not None
    assert survivors, "mutations that are never valid would prove little"


def mutated(valid: bytes, chance: random.Random) -> bytes:
    data = bytearray(valid)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.choice([0, 1, 127, 128, 254, 255])])
            case 1:
                data[at : at + 4] = chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe"])
            case 2:
                del data[at : at + chance.randint(1, 9)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            case _:
                data[at:at] = data[: chance.randint(1, 20)]
    return bytes(data)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[:5].hex())
def test_a_list_has_no_more_elements_than_the_input_bytes_and_memory_is_bounded(pattern, times):
    data = pattern * times
    for cls, version in PAIRS:
        decoder(cls, version)
    tracemalloc.start()
    try:
        for cls, version in PAIRS:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            decoded = tried(cls, version, data)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < MEMORY_FREE + MEMORY_PER_BYTE * len(data), (cls, version)
            assert longest_list(decoded) <= len(data), (cls, version)
    finally:
        tracemalloc.stop()


@settings(max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda key, version, rest: key.to_bytes(2) + version.to_bytes(2) + rest,
            st.integers(0, 96),
            st.integers(0, 20),
            st.binary(max_size=30),
        ),
    )
)
def test_random_requests_have_a_header_or_are_refused(data):
    view = memoryview(data)
    try:
        header = decode_header(view)
    except ProtocolError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refusal is one of two right outcomes
        return
    assert 8 <= header.end <= len(data)
    try:
        decode_request(header, view)
    except ProtocolError:
        return


@settings(max_examples=100)
@given(st.sampled_from([0, 1, 3, 18]), st.binary(max_size=60))
def test_random_responses_are_decoded_or_refused(key, data):
    api = find_api(key)
    for version in api.versions:
        try:
            decode_response(api, version, memoryview(data))
        except ProtocolError:
            continue


LIMIT = 64


def whole(stream: bytes) -> tuple[list[bytes], bool]:
    """Split what is there at once; tell the frames and whether the stream was refused."""
    frames, position = [], 0
    try:
        while (end := frame_end(memoryview(stream), position, LIMIT)) <= len(stream):
            frames.append(stream[position + PREFIX_BYTES : end])
            position = end
    except ProtocolError:
        return frames, True
    return frames, False


def byte_by_byte(stream: bytes) -> tuple[list[bytes], bool]:
    """Split as the bytes come in one by one."""
    frames, kept = [], b""
    for at in range(len(stream)):
        kept += stream[at : at + 1]
        try:
            if (end := frame_end(memoryview(kept), 0, LIMIT)) <= len(kept):
                frames.append(kept[PREFIX_BYTES:end])
                kept = b""
        except ProtocolError:
            return frames, True
    return frames, False


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@settings(max_examples=200)
@given(
    st.lists(st.one_of(st.binary(max_size=80).map(framed), st.binary(max_size=12))).map(b"".join)
)
@example(framed(b"") * 3)
@example(framed(b"x" * (LIMIT + 1)))
@example(b"\xff\xff\xff\xff")
def test_a_stream_splits_the_same_whole_and_byte_by_byte(stream):
    assert whole(stream) == byte_by_byte(stream)


def test_a_pipelined_stream_of_requests_survives_any_cut():
    api = find_api(3)
    requests = [
        b"".join(encode_request(api, version, version, "me", api.request(topics=None)))
        for version in (1, 5, 9, 12)
    ]
    frames, refused = byte_by_byte(b"".join(requests)[: 4 * LIMIT])
    assert not refused
    assert [decode_header(memoryview(frame)).api_version for frame in frames] == [1, 5, 9, 12]
