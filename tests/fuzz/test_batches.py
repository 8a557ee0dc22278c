"""Whatever bytes arrive become records or CorruptRecords: no other exception, no unbounded memory.

Mutated batches reach further than random ones, so most cases start from a good batch. Checksums
are not looked at when records are read, and are mended in old messages, so the damage gets in.
"""

import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import CorruptRecords
from moldau.records.batch import iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress, decompress
from moldau.records.control import end_transaction_marker
from moldau.records.conversion import down_convert, recompress, up_convert
from moldau.records.legacy import iter_messages, message_set, unwrapped
from moldau.records.record import Record, iter_spans, payload_of, read_records

LIMIT = 1 << 20
RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", (("header", b"1"), ("null", None))),
    Record(1, 1_700_000_900_000, None, b"v" * 300),
    Record(2, 1_699_999_000_000, b"k" * 100, None),
    Record(3, 1_700_000_000_000, b"", b""),
]


def good_batch(codec: Codec) -> bytes:
    builder = BatchBuilder(codec)
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


BATCHES = [good_batch(codec) for codec in Codec]
SETS = [
    message_set(RECORDS, magic, codec)
    for magic in (0, 1)
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
]


@st.composite
def mutated(draw, originals):
    """A good input with a few bytes changed, taken out or put in."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["change", "change", "change", "remove", "insert", "cut"])):
            case "change" if position < len(data):
                data[position] = draw(st.integers(0, 255))
            case "remove":
                del data[position : position + draw(st.integers(1, 9))]
            case "insert":
                data[position:position] = draw(st.binary(min_size=1, max_size=9))
            case "cut":
                del data[position:]
            case _:
                pass
    return bytes(data)


def records_or_corrupt(read, data):
    try:
        return read(data)
    except CorruptRecords:
        return None


def read_spans(data):
    header = parse_header(data)
    return list(iter_spans(header, payload_of(header, data, limit=LIMIT)))


def read_all(data):
    return list(read_records(data, limit=LIMIT))


def read_messages(data):
    messages = iter_messages(data, allow_cut=True)
    return [record for each in messages for record in unwrapped(each, limit=LIMIT)]


def check_everything(data):
    for read in (
        read_all,
        read_spans,
        read_messages,
        end_transaction_marker,
        up_convert,
        lambda data: list(iter_batches(data, allow_cut=True)),
        lambda data: recompress(data, Codec.SNAPPY),
        lambda data: down_convert(data, 0),
    ):
        records_or_corrupt(read, data)


@settings(max_examples=150)
@given(st.binary(max_size=300))
def test_random_bytes_are_records_or_corrupt(data):
    check_everything(data)


@settings(max_examples=300)
@given(mutated(BATCHES[:4] + SETS))
def test_damaged_batches_and_messages_are_records_or_corrupt(data):
    check_everything(data)


@settings(max_examples=150)
@given(mutated([batch[61:] for batch in BATCHES]), st.integers(-2, 9), st.sampled_from(Codec))
def test_damaged_records_under_a_good_header_are_records_or_corrupt(payload, count, codec):
    batch = bytearray(BATCHES[0][:61] + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[22] = codec
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    records = records_or_corrupt(read_all, bytes(batch))
    assert records is None or len(records) == count
    records_or_corrupt(read_spans, bytes(batch))


@settings(max_examples=150)
@given(mutated([data[16:] for data in SETS]), st.integers(-1, 9))
def test_damaged_messages_with_a_mended_checksum_are_records_or_corrupt(body, offset):
    head = offset.to_bytes(8, "big", signed=True) + (len(body) + 4).to_bytes(4, "big")
    message = head + zlib.crc32(body).to_bytes(4, "big") + body
    records_or_corrupt(read_messages, message)
    converted = records_or_corrupt(up_convert, message)
    assert converted is None or read_all(converted)


@settings(max_examples=200)
@given(st.sampled_from(Codec), st.data())
def test_damaged_streams_are_bytes_within_the_limit_or_corrupt(codec, data):
    stream = data.draw(mutated([compress(codec, b"abc" * 500), compress(codec, bytes(2000))]))
    inflated = records_or_corrupt(lambda packed: decompress(codec, packed, 4000), stream)
    assert inflated is None or len(inflated) <= 4000


def streamed_zstd(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


ZEROS = bytes(64 << 20)
BOMBS = {
    "gzip": (Codec.GZIP, lambda: zlib.compress(ZEROS, 1, wbits=31)),
    "gzip in many members": (Codec.GZIP, lambda: zlib.compress(ZEROS[: 1 << 19], wbits=31) * 128),
    "snappy block": (Codec.SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(ZEROS))),
    "snappy frames": (Codec.SNAPPY, lambda: compress(Codec.SNAPPY, ZEROS)),
    "snappy lie": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\x00" * 20),
    "snappy lie within the limit": (Codec.SNAPPY, lambda: b"\xff\xff\x3f" + b"\x00" * 20),
    "lz4": (Codec.LZ4, lambda: lz4.frame.compress(ZEROS, store_size=False)),
    "lz4 with its size": (Codec.LZ4, lambda: lz4.frame.compress(ZEROS, store_size=True)),
    "zstd": (Codec.ZSTD, lambda: streamed_zstd(ZEROS)),
    "zstd with its size": (Codec.ZSTD, lambda: compress(Codec.ZSTD, ZEROS)),
}


@pytest.mark.parametrize(("codec", "make"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_without_being_inflated(codec, make):
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecords):
            decompress(codec, bomb, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT + len(bomb)


def test_many_small_bombs_in_one_message_set_are_one_large_bomb():
    value = bytes(24 << 20)
    bombs = message_set([Record(0, 0, None, value)], 1, Codec.GZIP, 1) * 6
    with pytest.raises(CorruptRecords, match="grows beyond"):
        up_convert(bombs)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_bomb_in_an_old_message_is_refused(magic):
    (wrapper,) = iter_messages(message_set([Record(0, 0, None, ZEROS)], magic, Codec.GZIP, 1))
    with pytest.raises(CorruptRecords, match="grows beyond"):
        unwrapped(wrapper, limit=LIMIT)
