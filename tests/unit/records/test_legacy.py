import zlib

import lz4.frame
import pytest

from kits.record_oracles import MESSAGE_CASES
from moldau.base.errors import CorruptRecords
from moldau.records.batch import TimestampType
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import iter_messages, message_set, unwrapped
from moldau.records.legacy_lz4 import with_right_checksum, with_wrong_checksum, xxhash32
from moldau.records.record import Record

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_005, None, b""),
    Record(2, 1_699_999_000_000, b"", None),
    Record(3, 1_700_000_100_000, b"k" * 300, b"v" * 100_000),
]
LATER = [record._replace(offset=record.offset * 2 + 1000) for record in RECORDS]
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def timeless(records):
    return [record._replace(timestamp=-1) for record in records]


def read(data, **options):
    return [record for each in iter_messages(data, **options) for record in unwrapped(each)]


@pytest.mark.parametrize(("oracle", "magic", "codec"), MESSAGE_CASES)
def test_messages_of_other_writers_are_read(oracle, magic, codec):
    expected = RECORDS if magic else timeless(RECORDS)
    assert read(oracle.build_messages(RECORDS, magic, codec)) == expected


@pytest.mark.parametrize(("oracle", "magic", "codec"), MESSAGE_CASES)
def test_other_readers_read_our_messages(oracle, magic, codec):
    expected = LATER if magic else timeless(LATER)
    assert oracle.read(message_set(LATER, magic, codec)) == expected


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_come_back_with_offsets_that_have_gaps(magic, codec):
    assert read(message_set(LATER, magic, codec)) == (LATER if magic else timeless(LATER))


def test_inner_offsets_are_absolute_in_magic_0_and_relative_in_magic_1():
    for magic, first in ((0, 1000), (1, 0)):
        (wrapper,) = iter_messages(message_set(LATER, magic, Codec.GZIP))
        inner = list(iter_messages(zlib.decompress(wrapper.value, 31)))
        assert wrapper.offset == 1006
        assert [each.offset - first for each in inner] == [0, 2, 4, 6]


def test_a_wrapper_at_offset_0_left_its_offset_to_the_broker():
    (wrapper,) = iter_messages(message_set(RECORDS, 1, Codec.GZIP))
    assert [record.offset for record in unwrapped(wrapper._replace(offset=0))] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_append_time_of_the_outer_message_is_the_time_of_all_inside(codec):
    stamped = [record._replace(timestamp=77) for record in RECORDS]
    data = message_set(stamped, 1, codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    messages = list(iter_messages(data))
    assert {each.timestamp_type for each in messages} == {TimestampType.LOG_APPEND_TIME}
    assert {r.timestamp for each in messages for r in unwrapped(each)} == {77}


def test_append_time_overrides_what_inner_messages_say():
    (wrapper,) = iter_messages(message_set(RECORDS, 1, Codec.GZIP))
    stamped = wrapper._replace(attributes=wrapper.attributes | 8, timestamp=5)
    assert {record.timestamp for record in unwrapped(stamped)} == {5}


def test_the_wrapper_carries_the_newest_timestamp():
    (wrapper,) = iter_messages(message_set(RECORDS, 1, Codec.LZ4))
    assert wrapper.timestamp == 1_700_000_100_000


def test_a_cut_last_message_is_left_out_on_request_only():
    data = message_set(RECORDS, 1)
    assert read(data[:-1], allow_cut=True) == RECORDS[:-1]
    with pytest.raises(CorruptRecords):
        read(data[:-1])


@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_byte_behind_the_checksum_is_noticed(magic):
    data = message_set(RECORDS[:1], magic)
    for position in range(12, len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x04
        with pytest.raises(CorruptRecords):
            read(flipped)


def rechecked(body: bytes, offset: int = 0) -> bytes:
    """A message of these bytes behind the checksum, and the checksum they deserve."""
    size = (len(body) + 4).to_bytes(4, "big")
    return offset.to_bytes(8, "big") + size + zlib.crc32(body).to_bytes(4, "big") + body


NULL = b"\xff\xff\xff\xff"
TIME = bytes(8)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x00\x00" + NULL + b"\x00\x00\x00\x01", id="value beyond the end"),
        pytest.param(b"\x00\x00" + b"\x00\x00\x00\x09" + NULL, id="key beyond the end"),
        pytest.param(b"\x00\x00" + b"\xff\xff\xff\xfe" + NULL, id="key length -2"),
        pytest.param(b"\x00\x00" + NULL + NULL + b"?", id="bytes behind the value"),
        pytest.param(b"\x00\x00" + b"\x00\x00\x00\x04" + NULL, id="no value at all"),
        pytest.param(b"\x01\x00" + b"\x80" + bytes(7) + NULL + NULL, id="negative time"),
        pytest.param(b"\x00\x04" + NULL + NULL, id="zstd in a message"),
        pytest.param(b"\x00\x07" + NULL + NULL, id="unknown codec"),
        pytest.param(b"\x00\x01" + NULL + NULL, id="wrapper of null"),
        pytest.param(b"\x01\x01" + TIME + NULL + b"\x00\x00\x00\x01?", id="wrapper of garbage"),
    ],
)
def test_every_lie_in_a_message_is_corrupt(body):
    with pytest.raises(CorruptRecords):
        read(rechecked(body))


def wrapping(inner: bytes, magic: int, offset: int = 0) -> bytes:
    packed = zlib.compress(inner, wbits=31)
    fixed = b"\x01\x01" + TIME if magic else b"\x00\x01"
    return rechecked(fixed + NULL + len(packed).to_bytes(4, "big") + packed, offset)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(wrapping(b"", 1), id="nothing inside"),
        pytest.param(wrapping(message_set(RECORDS, 0), 1), id="magic 0 inside 1"),
        pytest.param(wrapping(message_set(RECORDS, 1), 0), id="magic 1 inside 0"),
        pytest.param(wrapping(message_set(RECORDS, 1, Codec.GZIP), 1), id="wrapper inside"),
        pytest.param(wrapping(message_set(RECORDS, 1)[:-1], 1), id="cut inside"),
        pytest.param(wrapping(message_set(LATER, 1), 1, offset=5), id="ends behind its offset"),
        pytest.param(wrapping(BatchBuilder().build(), 1), id="batch inside"),
    ],
)
def test_every_lie_in_a_wrapper_is_corrupt(data):
    with pytest.raises(CorruptRecords):
        read(data)


def test_inner_offsets_beyond_64_bits_are_corrupt():
    inner = message_set([RECORDS[0]._replace(offset=2**63 - 1), RECORDS[0]], 1)
    with pytest.raises(CorruptRecords, match="last offset"):
        read(wrapping(inner, 1, offset=2**63 - 1))


def test_a_batch_is_no_message():
    with pytest.raises(CorruptRecords, match="magic 2"):
        read(BatchBuilder().build())


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_xxhash_agrees_with_its_published_values(data, expected):
    assert xxhash32(data) == expected


@pytest.mark.parametrize("store_size", [True, False])
def test_the_right_lz4_checksum_is_the_one_the_library_writes(store_size):
    frame = lz4.frame.compress(b"data" * 99, store_size=store_size)
    position = 14 if store_size else 6
    spoilt = frame[:position] + bytes((frame[position] ^ 0xFF,)) + frame[position + 1 :]
    assert with_right_checksum(spoilt) == frame


def test_lz4_in_magic_0_has_the_checksum_old_clients_expect():
    (wrapper,) = iter_messages(message_set(RECORDS, 0, Codec.LZ4))
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(wrapper.value)
    assert wrapper.value[6] == xxhash32(wrapper.value[:6]) >> 8 & 0xFF
    assert with_wrong_checksum(with_right_checksum(wrapper.value)) == wrapper.value
    assert unwrapped(wrapper) == timeless(RECORDS)


def test_lz4_in_magic_1_has_the_right_checksum():
    (wrapper,) = iter_messages(message_set(RECORDS, 1, Codec.LZ4))
    assert lz4.frame.decompress(wrapper.value)


@pytest.mark.parametrize("frame", [b"", b"\x04\x22", b"\x04\x22\x4d\x18\x68\x40"])
def test_a_frame_too_short_for_a_checksum_is_left_as_it_is(frame):
    assert with_right_checksum(frame) == frame
