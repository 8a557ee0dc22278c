"""Codecs against bytes derived by hand from the rules of the protocol."""

from __future__ import annotations

import linecache
import struct as structs
import traceback
from collections.abc import Sequence

import pytest

from moldau.base.errors import InvariantViolated, ProtocolError
from moldau.base.files import FileRegion
from moldau.protocol.compiler import decode, decoder, encode, encoder
from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    struct_field,
    uint16,
    uint32,
    uuid,
)
from moldau.protocol.source import Source
from moldau.protocol.wire import EncodeError, parts_size


@message(versions="0-1", flexible="1+")
class Scalars:
    flag: bool = boolean()
    tiny: int = int8()
    small: int = int16()
    port: int = uint16()
    plain: int = int32()
    unsigned: int = uint32()
    large: int = int64()
    real: float = float64()
    id: bytes = uuid()


@struct
class Point:
    x: int = int32()
    y: int = int32(default=-1)


@struct
class Named:
    name: str = string()
    points: list[Point] = array(Point, "1+")


@message(versions="0-3", flexible="2+")
class Sized:
    """Everything with a length, classic in 0 and 1, compact in 2 and 3."""

    text: str = string()
    maybe: str | None = string(nullable="1+", default=None)
    blob: bytes = bytes_()
    maybe_blob: bytes | None = bytes_("1+", nullable="1+", default=None)
    numbers: list[int] | None = array(int32, nullable="3+")
    texts: list[str] | None = array(string, nullable="1+")
    points: list[Point] = array(Point)
    named: list[Named] = array(Named, "1+")


@message(versions="0-3", flexible="2+")
class Tagged:
    first: int = int32()
    number: int = int32("1+", tag=1, tagged="2+", default=-1)
    text: str | None = string("2+", tag=0, nullable="2+", default=None)
    point: Point = struct_field(Point, "2+", tag=2)
    points: list[Point] = array(Point, "2+", tag=3)
    maybe: Point | None = struct_field(Point, "3+", nullable="3+", tag=4, default=None)
    ids: list[bytes] = array(uuid, "3+", tag=200)
    last: int = int8()


@message(versions="0-1", flexible="1+")
class Nested:
    point: Point = struct_field(Point)
    maybe: Point | None = struct_field(Point, nullable="1+", default=None)
    after: int = int8()


@struct
class PartitionRecords:
    index: int = int32()
    batch: bytes | memoryview | Sequence[object] | None = records(nullable="0+")


@message(versions="0-1", flexible="1+")
class Carrier:
    name: str = string()
    blob: bytes = bytes_()
    partitions: list[PartitionRecords] = array(PartitionRecords)
    after: int = int16()


def hexed(text: str) -> bytes:
    return bytes.fromhex(text.replace("|", " "))


SCALARS = Scalars(True, -2, -3, 65535, -5, 2**32 - 1, -(2**63), 1.5, bytes(range(16)))
SCALARS_BYTES = hexed(
    "01 | fe | fffd | ffff | fffffffb | ffffffff | 8000000000000000 | 3ff8000000000000 |"
    "000102030405060708090a0b0c0d0e0f"
)

FILLED = Sized(
    "hé", None, b"\x07", b"", [1, -1], ["a", ""], [Point(1, 2)], [Named("n", [Point(3, 4)])]
)

GOLDEN = [
    pytest.param(SCALARS, 0, SCALARS_BYTES, id="scalars"),
    pytest.param(SCALARS, 1, SCALARS_BYTES + b"\0", id="scalars-flexible"),
    pytest.param(
        FILLED,
        1,
        hexed(
            "0003 68c3a9 | ffff | 00000001 07 | 00000000 | 00000002 00000001 ffffffff |"
            "00000002 0001 61 0000 | 00000001 00000001 00000002 |"
            "00000001 0001 6e 00000001 00000003 00000004"
        ),
        id="classic",
    ),
    pytest.param(
        FILLED,
        2,
        hexed(
            "04 68c3a9 | 00 | 02 07 | 01 | 03 00000001 ffffffff | 03 02 61 01 |"
            "02 00000001 00000002 00 | 02 02 6e 02 00000003 00000004 00 00 | 00"
        ),
        id="compact",
    ),
    pytest.param(
        Sized(maybe="x", texts=None),
        1,
        hexed("0000 | 0001 78 | 00000000 | ffffffff | 00000000 | ffffffff | 00000000 | 00000000"),
        id="classic-nulls",
    ),
    pytest.param(
        Sized(maybe="x", texts=None),
        2,
        hexed("01 | 02 78 | 01 | 00 | 01 | 00 | 01 | 01 | 00"),
        id="compact-nulls",
    ),
    pytest.param(Tagged(7, 9, last=1), 1, hexed("00000007 | 00000009 | 01"), id="not-yet-tagged"),
    pytest.param(Tagged(7, last=1), 2, hexed("00000007 | 01 | 00"), id="all-tags-default"),
    pytest.param(
        Tagged(7, 9, "t", Point(1, -1), [Point(2, 3)], last=1),
        2,
        hexed(
            "00000007 | 01 | 04 |"
            "00 02 02 74 | 01 04 00000009 | 02 09 00000001 ffffffff 00 |"
            "03 0a 02 00000002 00000003 00"
        ),
        id="tags-ascending",
    ),
    pytest.param(
        Tagged(maybe=Point(1, 2), ids=[bytes(16)]),
        3,
        hexed("00000000 | 00 | 02 | 04 0a 01 00000001 00000002 00 | c801 11 02" + "00" * 16),
        id="nullable-tagged-struct-and-two-byte-tag",
    ),
    pytest.param(
        Nested(Point(1, 2), None, 5), 1, hexed("00000001 00000002 00 | ff | 05 | 00"), id="null"
    ),
    pytest.param(
        Nested(Point(1, 2), Point(3, 4), 5),
        1,
        hexed("00000001 00000002 00 | 01 00000003 00000004 00 | 05 | 00"),
        id="nested",
    ),
    pytest.param(
        Carrier("t", b"bb", [PartitionRecords(1, b"xyz"), PartitionRecords(2)], 9),
        0,
        hexed("0001 74 | 00000002 6262 | 00000002 00000001 00000003 78797a 00000002 ffffffff 0009"),
        id="records",
    ),
    pytest.param(
        Carrier("t", b"bb", [PartitionRecords(1, b"xyz"), PartitionRecords(2)], 9),
        1,
        hexed("02 74 | 03 6262 | 03 00000001 04 78797a 00 00000002 00 00 | 0009 | 00"),
        id="records-compact",
    ),
]


@pytest.mark.parametrize(("value", "version", "expected"), GOLDEN)
def test_a_message_encodes_to_the_bytes_of_the_protocol(value, version, expected):
    assert encode(value, version).hex(" ") == expected.hex(" ")


@pytest.mark.parametrize(("value", "version", "expected"), GOLDEN)
def test_the_bytes_of_the_protocol_decode_to_the_message(value, version, expected):
    assert decode(type(value), version, expected) == value


@pytest.mark.parametrize(("value", "version", "expected"), GOLDEN)
def test_a_message_is_decoded_at_its_position_and_its_end_is_told(value, version, expected):
    decoded, end = decoder(type(value), version)(memoryview(b"???" + expected + b"???"), 3)
    assert (decoded, end) == (value, 3 + len(expected))


@pytest.mark.parametrize(("value", "version", "expected"), GOLDEN)
def test_every_truncation_is_refused(value, version, expected):
    for size in range(len(expected)):
        with pytest.raises(ProtocolError, match=f"{type(value).__name__} v{version}"):
            decoder(type(value), version)(memoryview(expected[:size]), 0)


def test_a_null_array_of_scalars_is_no_array_of_any_length():
    encoded = encode(Sized(numbers=None), 3)
    assert encoded == hexed("01 | 00 | 01 | 00 | 00 | 01 | 01 | 01 | 00")
    assert decode(Sized, 3, encoded) == Sized(numbers=None)


def test_a_field_outside_of_its_versions_is_left_out_and_decodes_to_its_default():
    encoded = encode(Tagged(7, 9, "t", Point(1, 2), [Point()], last=1), 0)
    assert encoded == hexed("00000007 | 01")
    first, second = (decode(Tagged, 0, encoded) for _ in range(2))
    assert first == Tagged(7, last=1)
    assert first.points is not second.points
    assert first.point is not second.point


def test_any_byte_but_zero_is_true():
    assert decode(Scalars, 0, b"\x07" + SCALARS_BYTES[1:]).flag is True


def test_unknown_tags_are_skipped_where_none_and_where_some_are_known():
    assert decode(Tagged, 2, hexed("00000007 01 | 02 | 01 04 00000009 | 63 03 ffffff")) == Tagged(
        7, 9, last=1
    )
    assert decode(Scalars, 1, SCALARS_BYTES + hexed("02 | 00 00 | c801 02 abcd")) == SCALARS


def test_a_tagged_field_null_against_its_default_is_written():
    @message(versions="0", flexible="0+")
    class Inverted:
        text: str | None = string(nullable="0+", tag=0, default="")

    assert encode(Inverted(None), 0) == hexed("01 00 01 00")
    assert decode(Inverted, 0, hexed("01 00 01 00")) == Inverted(None)
    assert encode(Inverted(), 0) == b"\0"


def test_a_tagged_struct_null_against_its_default_is_written():
    @message(versions="0", flexible="0+")
    class Inverted:
        point: Point | None = struct_field(Point, nullable="0+", tag=0)

    assert encode(Inverted(None), 0) == hexed("01 00 01 ff")
    assert decode(Inverted, 0, hexed("01 00 01 ff")) == Inverted(None)
    assert encode(Inverted(), 0) == b"\0"


def test_a_field_is_ordinary_in_flexible_versions_before_it_is_tagged():
    @message(versions="0-1", flexible="0+")
    class Moved:
        number: int = int32(tag=0, tagged="1+")

    assert encode(Moved(7), 0) == hexed("00000007 00")
    assert decode(Moved, 0, hexed("00000007 00")) == Moved(7)
    assert encode(Moved(7), 1) == hexed("01 00 04 00000007")


def test_a_tagged_struct_declared_without_a_value_is_left_out_when_none():
    @message(versions="0", flexible="0+")
    class Sparse:
        point: Point | None = struct_field(Point, tag=0, default=None)

    assert encode(Sparse(), 0) == b"\0"
    assert decode(Sparse, 0, b"\0") == Sparse()
    assert decode(Sparse, 0, encode(Sparse(Point(1, 2)), 0)) == Sparse(Point(1, 2))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16382, 16383, 16384, 2097151, 2097152])
def test_lengths_of_every_varint_size_survive(size):
    original = Sized(blob=b"x" * size)
    assert decode(Sized, 2, encode(original, 2)) == original


@pytest.mark.parametrize("count", [16, 17, 126, 127, 300])
@pytest.mark.parametrize("version", [1, 2])
def test_long_arrays_survive(count, version):
    original = Sized(
        numbers=list(range(count)),
        texts=["x"] * count,
        points=[Point(n, -n) for n in range(count)],
    )
    assert decode(Sized, version, encode(original, version)) == original


def test_a_padded_length_that_is_not_zero_is_read():
    assert decode(Sized, 2, hexed("8200 78 8100 81808000 01 01 01 01 01 00")) == Sized(
        "x", "", b"", b""
    )


def test_a_text_may_be_as_long_as_its_classic_form_can_say_and_no_longer():
    longest = Sized(text="x" * 32767, maybe="y" * 32767)
    assert decode(Sized, 2, encode(longest, 2)) == longest
    for name in ("text", "maybe"):
        longer = Sized(**{name: "x" * 32768})
        with pytest.raises(ProtocolError, match=f"{name} has length 32768"):
            decode(Sized, 2, encode(longer, 2))


def test_more_than_127_tags_are_read():
    tags = b"".join(bytes((1, 4)) + structs.pack(">i", n) for n in range(130))
    decoded = decode(Tagged, 2, hexed("00000007 01 8201") + tags)
    assert decoded == Tagged(7, 129, last=1)
    assert decode(Scalars, 1, SCALARS_BYTES + hexed("8201") + tags) == SCALARS


@pytest.mark.parametrize(
    ("cls", "version", "data", "complaint"),
    [
        (Sized, 0, "ffff", "text has length -1"),
        (Sized, 1, "0000 fffe", "maybe has length -2"),
        (Sized, 2, "00", "text is null"),
        (Sized, 2, "ffffffffff01", "varint is longer than 5 bytes"),
        (Sized, 2, "ffffffff7f", "beyond 32 bits"),
        (Sized, 2, "8000", "zero is padded"),
        (Sized, 2, "808000", "zero is padded"),
        (Sized, 0, "0002 c328", "not UTF-8"),
        (Sized, 0, "0003 eda080", "not UTF-8"),
        (Sized, 0, "0000 0000 00000000 7fffffff", "numbers claims 2147483647 elements in 0 bytes"),
        (Sized, 0, "0000 0000 00000000 fffffffe", "numbers has length -2"),
        (Sized, 2, "01 01 01 01 01 01 05 00000000 00", "points claims 4 elements in 5 bytes"),
        (Sized, 2, "01 01 01 01 01 01 01 02 01 03 00", r"named\[\].points claims 2 elements"),
        (Tagged, 2, "00000007 01 01 01 05 00000009 00", "tagged field 1 of another size"),
        (Tagged, 2, "00000007 01 01 63 7f", "ends too early"),
        (Tagged, 2, "00000007 01 ffffffff07 6300", "ends too early"),
        (Carrier, 1, "02 74 01 02 00000001 ffff03 00", "ends too early"),
    ],
)
def test_malformed_bytes_are_refused_with_a_line_that_names_what_is_wrong(
    cls, version, data, complaint
):
    with pytest.raises(ProtocolError, match=complaint) as raised:
        decode(cls, version, hexed(data))
    assert str(raised.value).startswith(f"{cls.__name__} v{version}")
    assert "\n" not in str(raised.value)


def test_bytes_after_the_message_are_refused_by_decode():
    with pytest.raises(ProtocolError, match="followed by 2 bytes"):
        decode(Scalars, 0, SCALARS_BYTES + b"??")


def test_records_are_slices_of_the_input_and_everything_else_is_a_copy():
    data = bytearray(encode(Carrier("t", b"bb", [PartitionRecords(1, b"xyz")]), 1))
    decoded = decode(Carrier, 1, data)
    data[:] = b"\0" * len(data)
    assert decoded.partitions[0].batch.tobytes() == b"\0\0\0"
    assert (decoded.name, decoded.blob) == ("t", b"bb")
    assert type(decoded.blob) is bytes


class Nowhere:
    """A file that must not be touched."""


@pytest.mark.parametrize("version", [0, 1])
def test_records_go_out_as_the_very_objects_that_came_in(version):
    region = FileRegion(Nowhere(), 0, 300)
    view = memoryview(b"x" * 200)
    value = Carrier(
        "t", b"", [PartitionRecords(1, [b"head", region]), PartitionRecords(2, view)], 9
    )
    parts = encoder(Carrier, version)(value)
    assert [type(part) for part in parts] == [
        bytes, bytes, FileRegion, bytes, memoryview, bytes,
    ]  # fmt: skip
    assert parts[2] is region
    assert parts[4] is view
    read = b"".join(b"r" * 300 if part is region else part for part in parts)
    assert parts_size(parts) == len(read)
    decoded = decode(Carrier, version, read)
    assert decoded.partitions[0].batch == b"head" + b"r" * 300
    assert decoded.partitions[1].batch == b"x" * 200
    assert decoded.after == 9


@pytest.mark.parametrize("empty", [None, b"", [], memoryview(b"")])
def test_an_answer_without_records_is_one_buffer(empty):
    parts = encoder(Carrier, 1)(Carrier("t", b"", [PartitionRecords(1, empty)]))
    assert [type(part) for part in parts] == [bytes]


def test_a_message_that_ends_in_records_has_no_empty_part():
    @message(versions="0")
    class Tail:
        batch: bytes | None = records()

    assert encoder(Tail, 0)(Tail(b"abc")) == [hexed("00000003"), b"abc"]


def test_a_message_without_fields_is_one_empty_buffer_or_one_empty_tagged_section():
    @message(versions="0-1", flexible="1+")
    class Empty:
        pass

    assert encoder(Empty, 0)(Empty()) == [b""]
    assert encoder(Empty, 1)(Empty()) == [b"\0"]
    assert decode(Empty, 1, b"\0") == Empty()


@pytest.mark.parametrize(
    ("value", "version", "complaint"),
    [
        (Sized(text=None), 2, "text is None, not allowed"),
        (Sized(maybe=None), 0, "maybe is None, not allowed"),
        (Sized(maybe="", texts=None), 0, "texts is None, not allowed"),
        (Sized(text="x" * 32768), 1, "text has 32768 bytes, more than 32767"),
        (Sized(text=b"x"), 1, "text is b'x', not a string"),
        (Sized(text="\ud800"), 1, "UTF-8 cannot write"),
        (Sized(blob="text"), 2, "blob is 'text', not bytes"),
        (Sized(numbers=[1, 2**31]), 2, r"numbers\[1\] is 2147483648"),
        (Sized(numbers=7), 2, "numbers is 7, not a list"),
        (Sized(points=[Point(), Point(None)]), 2, r"points\[1\].x is None, not allowed"),
        (Sized(points=[None]), 2, r"points\[0\] is None"),
        (Sized(points=["x"]), 2, r"points\[0\] is 'x', not a Point"),
        (Tagged(point=None), 2, "point is None, not allowed"),
        (Tagged(points=None), 2, "points is None, not allowed"),
        (Scalars(id=b"short"), 0, "id is b'short', not uuid"),
        (Scalars(id=bytes(17)), 0, "not uuid"),
        (Tagged(ids=[bytes(16), b""]), 3, r"ids\[1\] is b'', not uuid"),
        (Scalars(plain=2**40), 0, "plain is 1099511627776"),
        (Carrier(partitions=[PartitionRecords(1, FileRegion(Nowhere(), 0, 1))]), 0, "batch is"),
    ],
)
def test_a_value_the_wire_cannot_carry_is_named(value, version, complaint):
    with pytest.raises(EncodeError, match=complaint) as raised:
        encode(value, version)
    assert str(raised.value).startswith(f"{type(value).__name__} v{version}: ")


def test_an_undeclared_version_is_refused():
    for codec in (decoder, encoder):
        with pytest.raises(ProtocolError, match="Sized has versions 0-3, not 4"):
            codec(Sized, 4)


def test_a_codec_is_compiled_once():
    assert decoder(Sized, 1) is decoder(Sized, 1)
    assert encoder(Sized, 1) is encoder(Sized, 1)


def test_a_traceback_through_a_codec_shows_its_lines():
    with pytest.raises(EncodeError) as raised:
        encode(Sized(text=None), 2)
    cause = raised.value.__cause__
    shown = "".join(traceback.format_exception(cause))
    assert "message.text.encode()" in shown
    assert linecache.getlines("<moldau encoder Sized v2>")


def test_fixed_size_fields_and_the_length_after_them_are_one_unpack():
    decoder(Carrier, 1)
    text = "".join(linecache.getlines("<moldau decoder Carrier v1>"))
    assert "unpack_iB(data, position)" in text


def test_an_array_of_fixed_size_structs_is_unpacked_by_one_iterator():
    decoder(Sized, 1)
    text = "".join(linecache.getlines("<moldau decoder Sized v1>"))
    assert "in iterate_ii(data[position:" in text


@pytest.mark.parametrize("name", ["a b", "x = 1; y", "class", ""])
def test_only_identifiers_enter_the_text_of_a_codec(name):
    with pytest.raises(InvariantViolated):
        Source().fresh(name)
