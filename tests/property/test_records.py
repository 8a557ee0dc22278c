"""Laws of the record formats, over any records there can be."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.record_oracles import AIOKAFKA
from moldau.records.batch import crc_ok, iter_batches, parse_header, with_append_time
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress, decompress
from moldau.records.conversion import down_convert, recompress, up_convert
from moldau.records.legacy import iter_messages, message_set, unwrapped
from moldau.records.record import Record, iter_records, iter_spans, payload_of, read_records
from moldau.records.varint import VARINT, read_varint, read_varlong

codecs = st.sampled_from(Codec)
old_codecs = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
blobs = st.none() | st.binary(max_size=200) | st.builds(bytes, st.integers(0, 20_000))
times = st.integers(0, 2**41) | st.integers(-1, 2**62)
headers = st.lists(st.tuples(st.text(max_size=20), blobs), max_size=4).map(tuple)


@st.composite
def record_lists(draw, *, with_headers=True, gaps=True, base_offset=None):
    """Records at rising offsets."""
    if base_offset is None:
        base_offset = draw(st.integers(0, 2**62))
    records = []
    offset = base_offset
    for _ in range(draw(st.integers(1, 12))):
        records.append(
            Record(
                offset,
                draw(times),
                draw(blobs),
                draw(blobs),
                draw(headers) if with_headers else (),
            )
        )
        offset += draw(st.integers(1, 1000)) if gaps else 1
    return records


def batch_of(records, codec=Codec.NONE, **options):
    base_offset = records[0].offset
    builder = BatchBuilder(codec, base_offset=base_offset, **options)
    for record in records:
        builder.append(
            record.timestamp,
            record.key,
            record.value,
            record.headers,
            offset_delta=record.offset - base_offset,
        )
    return builder.build()


def timeless(records):
    return [record._replace(timestamp=-1) for record in records]


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_is_read_as_it_was_written(value):
    written = VARINT[value]
    assert read_varlong(b"?" + written + b"?", 1) == (value, 1 + len(written))
    if -(2**31) <= value < 2**31:
        assert read_varint(written, 0) == (value, len(written))


@settings(max_examples=60)
@given(codecs, st.binary(max_size=3000), st.integers(1, 60))
def test_every_payload_survives_every_codec(codec, data, times_repeated):
    payload = data * times_repeated
    assert decompress(codec, compress(codec, payload), len(payload)) == payload


@settings(max_examples=60)
@given(record_lists(), codecs)
def test_records_come_back_from_a_batch_and_from_aiokafka_alike(records, codec):
    batch = batch_of(records, codec)
    assert crc_ok(batch, 0, len(batch))
    assert list(read_records(batch)) == records
    assert AIOKAFKA.read(batch) == records
    header = parse_header(batch)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)


@settings(max_examples=40)
@given(record_lists(base_offset=0, gaps=False), codecs)
def test_batches_of_aiokafka_are_read(records, codec):
    # Its builder takes a first timestamp of -1 for none yet.
    records = [record._replace(timestamp=max(record.timestamp, 0)) for record in records]
    assert list(read_records(AIOKAFKA.build(records, codec))) == records


@settings(max_examples=40)
@given(record_lists(), st.booleans(), times)
def test_both_ways_to_walk_a_batch_see_the_same_records(records, append_time, now):
    batch = batch_of(records)
    header = parse_header(batch)
    if append_time:
        header, parts = with_append_time(header, batch, now)
        batch = b"".join(parts)
    payload = payload_of(header, batch)
    spans = list(iter_spans(header, payload))
    assert b"".join(payload[span.start : span.end] for span in spans) == payload
    assert [(s.offset, s.timestamp, s.key, s.has_value) for s in spans] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in iter_records(header, payload)
    ]


@settings(max_examples=40)
@given(record_lists(), codecs, codecs)
def test_recompression_keeps_every_record(records, source, target):
    batch = recompress(batch_of(records, source, producer_id=5, base_sequence=8), target)
    header = parse_header(batch)
    assert list(read_records(batch)) == records
    assert (header.codec, header.producer_id, header.base_sequence) == (target, 5, 8)


@settings(max_examples=40)
@given(record_lists(with_headers=False), old_codecs, st.sampled_from([0, 1]))
def test_messages_come_back_from_a_message_set(records, codec, magic):
    messages = iter_messages(message_set(records, magic, codec))
    read = [record for message in messages for record in unwrapped(message)]
    assert read == (records if magic else timeless(records))


@settings(max_examples=40)
@given(record_lists(with_headers=False), old_codecs, st.sampled_from([0, 1]))
def test_going_down_and_up_again_loses_only_what_the_old_form_lacks(records, codec, magic):
    batch = up_convert(down_convert(batch_of(records, codec), magic).messages)
    expected = [record._replace(offset=number) for number, record in enumerate(records)]
    assert list(read_records(batch)) == (expected if magic else timeless(expected))
    assert parse_header(batch).codec is codec


@settings(max_examples=40)
@given(st.lists(record_lists(), min_size=1, max_size=4), st.data())
def test_a_walk_over_a_cut_buffer_finds_exactly_the_whole_batches(lists, data):
    batches = [batch_of(records) for records in lists]
    whole = b"".join(batches)
    cut = data.draw(st.integers(0, len(whole)))
    ends = []
    for batch in batches:
        ends.append((ends[-1] if ends else 0) + len(batch))
    found = [span.position + span.size for span in iter_batches(whole[:cut], allow_cut=True)]
    assert found == [end for end in ends if end <= cut]
