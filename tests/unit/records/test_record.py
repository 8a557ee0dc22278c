import pytest

from kits.record_oracles import BATCH_CASES
from moldau.base.errors import CorruptRecords
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress
from moldau.records.record import (
    Record,
    iter_records,
    iter_spans,
    payload_of,
    read_records,
)

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value"),
    Record(1, 1_700_000_000_000, None, b""),
    Record(2, 1_700_000_000_900, b"", None),
    Record(3, 1_600_000_000_000, None, None),
    Record(4, 1_800_000_000_000, b"k" * 200, b"v" * 70_000),
    Record(5, 0, b"h", b"", (("a", b"1"), ("", None), ("\u017elu\u0165", b""), ("a", b"x" * 9000))),
    *(Record(offset, 1_700_000_000_000 + offset, b"%d" % offset, b"x") for offset in range(6, 150)),
]


def batch_of(records, **options) -> bytes:
    builder = BatchBuilder(**options)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


def spliced(payload: bytes, **changes) -> tuple[object, bytes]:
    """A header that claims what a test wants it to claim, and this payload."""
    return parse_header(batch_of(RECORDS[:1]))._replace(**changes), payload


@pytest.mark.parametrize(("oracle", "codec"), BATCH_CASES)
def test_batches_of_other_writers_are_read(oracle, codec):
    batch = oracle.build(RECORDS, codec, transactional=True)
    header = parse_header(batch)
    assert list(read_records(batch)) == RECORDS
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.transactional


def test_offsets_count_from_the_base_offset():
    batch = b"??" + batch_of(RECORDS[:3], base_offset=2**40)
    assert [record.offset - 2**40 for record in read_records(batch, 2)] == [0, 1, 2]


def test_gaps_between_offsets_are_kept():
    builder = BatchBuilder(base_offset=100)
    for delta in (3, 7, 200):
        builder.append(1, None, b"v", offset_delta=delta)
    assert [record.offset for record in read_records(builder.build())] == [103, 107, 300]


def test_records_are_read_lazily():
    header = parse_header(batch_of(RECORDS[:2]))
    payload = payload_of(header, batch_of(RECORDS[:2]))
    reading = iter_records(header, payload[:-1])
    assert next(reading) == RECORDS[0]
    with pytest.raises(CorruptRecords):
        next(reading)


def test_an_emptied_batch_has_no_records_whatever_its_codec():
    for codec in Codec:
        header = parse_header(BatchBuilder().build())._replace(attributes=int(codec))
        assert payload_of(header, BatchBuilder().build()) == b""
    assert list(read_records(BatchBuilder().build())) == []


def test_a_batch_that_grows_beyond_the_limit_is_refused():
    batch = batch_of(RECORDS, codec=Codec.ZSTD)
    with pytest.raises(CorruptRecords, match="grows beyond"):
        list(read_records(batch, limit=1000))


def test_a_batch_cut_behind_its_header_is_refused():
    with pytest.raises(CorruptRecords, match="cut"):
        list(read_records(batch_of(RECORDS)[:-1]))


def test_a_header_key_that_is_not_utf8_does_not_hide_the_record():
    batch = batch_of([Record(0, 1, b"k", b"v", (("ab", b"x"),))])
    damaged = batch.replace(b"ab", b"\xffb")
    assert next(read_records(damaged)).headers == (("\ufffdb", b"x"),)


GOOD = payload_of(parse_header(batch_of(RECORDS[:1])), batch_of(RECORDS[:1]))


@pytest.mark.parametrize(
    ("payload", "changes"),
    [
        pytest.param(GOOD + b"\x00", {}, id="bytes behind the last record"),
        pytest.param(GOOD[:-1], {}, id="last byte missing"),
        pytest.param(GOOD, {"count": 2}, id="one record more"),
        pytest.param(GOOD, {"count": 0}, id="one record less"),
        pytest.param(GOOD, {"count": -1}, id="negative count"),
        pytest.param(GOOD, {"count": 2**31 - 1}, id="count beyond the bytes"),
        pytest.param(GOOD, {"base_offset": -1}, id="negative base offset"),
        pytest.param(GOOD, {"base_offset": 2**63 - 1}, id="offsets beyond 64 bits"),
        pytest.param(GOOD, {"base_timestamp": 2**63 - 1}, id="times beyond 64 bits"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", {"last_offset_delta": -1}, id="last < 0"),
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", {}, id="offset delta beyond the last"),
        pytest.param(b"\x0c\x00\x00\x01\x01\x01\x00", {}, id="negative offset delta"),
        pytest.param(b"\x0c\x00\x00\x00\x03\x01\x00", {}, id="key length -2"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x03\x00", {}, id="value length -2"),
        pytest.param(b"\x0c\x00\x00\x00\x02\x01\x00", {}, id="key eats the rest"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x02\x00", {}, id="value eats the rest"),
        pytest.param(b"\x0b\x00\x00\x00\x01\x01\x00", {}, id="negative record length"),
        pytest.param(b"\x0a\x00\x00\x00\x01\x01\x00", {}, id="record length too small"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", {}, id="record length too large"),
        pytest.param(b"\xff\xff\xff\xff\xff\x0f\x00", {}, id="record length over 32 bits"),
    ],
)
def test_every_lie_about_lengths_and_counts_is_corrupt(payload, changes):
    header, payload = spliced(payload, **changes)
    with pytest.raises(CorruptRecords):
        list(iter_records(header, payload))
    with pytest.raises(CorruptRecords):
        list(iter_spans(header, payload))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x01", id="count -1"),
        pytest.param(b"\x02", id="one header, no bytes"),
        pytest.param(b"\xfe\xff\xff\xff\x0f", id="count beyond the bytes"),
        pytest.param(b"\x02\x01\x01", id="null key"),
        pytest.param(b"\x02\x00\x03", id="value length -2"),
        pytest.param(b"\x02\x04a\x01", id="key eats the rest"),
        pytest.param(b"\x02\x02a\x04x", id="value eats the rest"),
    ],
)
def test_every_lie_about_headers_is_corrupt(tail):
    body = b"\x00\x00\x00\x01\x01" + tail
    header, payload = spliced(bytes((len(body) << 1,)) + body)
    with pytest.raises(CorruptRecords):
        list(iter_records(header, payload))


def test_offsets_that_do_not_rise_are_corrupt():
    header, payload = spliced(GOOD + GOOD, count=2, last_offset_delta=1)
    for read in (iter_records, iter_spans):
        with pytest.raises(CorruptRecords, match="follows"):
            list(read(header, payload))


def test_a_timestamp_delta_that_leaves_64_bits_is_corrupt():
    builder = BatchBuilder()
    builder.append(2**62, None, None)
    builder.append(2**63 - 1, None, None)
    header = parse_header(builder.build())
    payload = payload_of(header, builder.build())
    assert [r.timestamp for r in iter_records(header, payload)] == [2**62, 2**63 - 1]
    for read in (iter_records, iter_spans):
        with pytest.raises(CorruptRecords, match="no time"):
            list(read(header._replace(base_timestamp=2**62 + 1), payload))


@pytest.mark.parametrize("append_time", [False, True])
def test_spans_tell_where_each_record_lies(append_time):
    batch = batch_of(RECORDS, base_offset=9, codec=Codec.LZ4)
    header = parse_header(batch)._replace(attributes=(8 if append_time else 0) | Codec.LZ4)
    payload = payload_of(header, batch)
    spans = list(iter_spans(header, payload))
    assert b"".join(payload[span.start : span.end] for span in spans) == payload
    assert [(s.offset, s.timestamp, s.key, s.has_value) for s in spans] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in iter_records(header, payload)
    ]


def test_kept_spans_make_a_smaller_batch_as_compaction_does():
    batch = batch_of(RECORDS)
    header = parse_header(batch)
    payload = payload_of(header, batch)
    kept = [span for span in iter_spans(header, payload) if span.offset % 3 == 0]
    smaller = b"".join(payload[span.start : span.end] for span in kept)
    read = list(iter_records(header._replace(count=len(kept)), smaller))
    assert read == RECORDS[::3]


def test_a_compressed_stream_that_is_not_the_codec_named_is_corrupt():
    batch = batch_of(RECORDS)
    header = parse_header(batch)._replace(attributes=int(Codec.ZSTD))
    with pytest.raises(CorruptRecords, match="zstd"):
        payload_of(header, batch[:61] + compress(Codec.NONE, batch[61:]))
