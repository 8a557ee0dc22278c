"""The forms of codecs that may be paused: same bytes, same messages, bounded."""

import random
import struct

import pytest

from kits.message_samples import declared_messages, fitted, random_message, reset
from moldau.base.errors import ProtocolError
from moldau.base.limits import ELEMENTS_PER_STEP, FLAT_RESPONSE_ELEMENTS
from moldau.protocol import decoding, encoding
from moldau.protocol.compiler import (
    decode_in_slices,
    encode,
    encode_in_slices,
    short_encoder,
)
from moldau.protocol.decoding import compile_decoder
from moldau.protocol.encoding import EncoderForm, compile_encoder
from moldau.protocol.layout import Layout
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.groups import DescribeGroupsRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.wire import SCALARS_PER_STEP, TAGS_MAX

MESSAGES = declared_messages()
PLENTY = 1_000_000


def run(work):
    """Run sliced work to its end; also tell how often it could have been paused."""
    pauses = 0
    try:
        while True:
            next(work)
            pauses += 1
    except StopIteration as stop:
        return stop.value, pauses


@pytest.fixture
def pausing_always(monkeypatch):
    monkeypatch.setattr(decoding, "ELEMENTS_PER_STEP", 1)
    monkeypatch.setattr(encoding, "ELEMENTS_PER_STEP", 1)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_all_forms_of_a_codec_agree(cls, pausing_always):
    instance = random_message(cls, random.Random(cls.__name__))
    for version in {cls.VERSIONS.first, cls.VERSIONS.last}:
        value, layout = fitted(instance, version), Layout(version, version in cls.FLEXIBLE)
        encoded = encode(value, version)
        decode = compile_decoder(cls, layout, sliced=True)
        (message, end), _ = run(decode(memoryview(b"?" + encoded), 1, PLENTY))
        assert message == reset(value, version)
        assert end == len(encoded) + 1
        parts, _ = run(compile_encoder(cls, layout, EncoderForm.SLICED)(value))
        assert b"".join(parts) == encoded
        short = short_encoder(cls, version)(value)
        assert short is None or b"".join(short) == encoded
        if encoded:
            with pytest.raises(ProtocolError):
                run(decode(memoryview(encoded[:-1]), 0, PLENTY))


def fetch_request(topics, partitions):
    asked = [FetchPartition(number, fetch_offset=number) for number in range(partitions)]
    return FetchRequest(topics=[FetchTopic(f"topic-{n}", partitions=asked) for n in range(topics)])


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 3000), (3000, 1), (60, 50)])
def test_a_decoder_offers_to_pause_whatever_the_elements_are_in(version, topics, partitions):
    request = fetch_request(topics, partitions)
    view = memoryview(encode(request, version))
    decoded, pauses = run(decode_in_slices(FetchRequest, version, view, 0, PLENTY))
    assert encode(decoded, version) == encode(request, version)
    assert pauses >= topics * partitions // ELEMENTS_PER_STEP


@pytest.mark.parametrize("version", [0, 5])
def test_texts_and_scalars_are_counted_too(version):
    request = DescribeGroupsRequest([""] * 2000)
    view = memoryview(encode(request, version))
    assert run(decode_in_slices(DescribeGroupsRequest, version, view, 0, 2000))[0] == request
    with pytest.raises(ProtocolError, match=r"groups has 2000 elements.* 1999 in all"):
        run(decode_in_slices(DescribeGroupsRequest, version, view, 0, 1999))


@pytest.mark.parametrize("count", [3, 17, SCALARS_PER_STEP, 3 * SCALARS_PER_STEP + 1])
def test_long_arrays_of_scalars_are_read_in_pieces(count):
    cls = next(one for one in MESSAGES if one.__name__ == "OffsetFetchRequest")
    topic = next(field for field in cls.FIELDS if field.name == "topics").element.struct
    request = cls(group_id="g", topics=[topic("t", list(range(count)))])
    view = memoryview(encode(request, 1))
    decoded, pauses = run(decode_in_slices(cls, 1, view, 0, PLENTY))
    assert decoded == request
    assert pauses >= count // SCALARS_PER_STEP - 1


def test_the_bound_holds_over_all_arrays_of_a_request():
    view = memoryview(encode(fetch_request(10, 9), 12))
    assert run(decode_in_slices(FetchRequest, 12, view, 0, 100))[0].topics
    with pytest.raises(ProtocolError, match=r"FetchRequest v12: topics.*partitions has 9 elements"):
        run(decode_in_slices(FetchRequest, 12, view, 0, 99))


def test_nothing_is_made_of_an_array_beyond_the_bound():
    view = memoryview(struct.pack(">i", 10**9) + bytes(100))
    with pytest.raises(ProtocolError):
        run(decode_in_slices(MetadataRequest, 1, view, 0, PLENTY))


def test_tagged_fields_that_nobody_knows_are_bounded_and_can_be_paused():
    topics = MetadataRequest([MetadataRequestTopic(name="t")] * 200)
    encoded = encode(topics, 9)
    # Put a section of unknown fields behind every topic.
    section = b"\x80\x04" + b"\x7f\x00" * 512
    body = encoded.replace(b"\x02t\x00", b"\x02t" + section)
    decoded, pauses = run(decode_in_slices(MetadataRequest, 9, memoryview(body), 0, PLENTY))
    assert decoded == topics
    assert pauses >= 100
    too_many = b"\x81\x08" + b"\x7f\x00" * (TAGS_MAX + 1)
    body = encoded.replace(b"\x02t\x00", b"\x02t" + too_many, 1)
    with pytest.raises(ProtocolError, match="1025 tagged fields, the limit is 1024"):
        run(decode_in_slices(MetadataRequest, 9, memoryview(body), 0, PLENTY))


@pytest.mark.parametrize(("count", "is_copy"), [(5, False), (5000, True)])
def test_records_are_read_in_place_unless_the_view_may_have_to_be_left(count, is_copy):
    data = [PartitionProduceData(number, b"records") for number in range(count)]
    request = ProduceRequest(topic_data=[TopicProduceData("topic", partition_data=data)])
    buffer = bytearray(encode(request, 9))
    decoded, _ = run(decode_in_slices(ProduceRequest, 9, memoryview(buffer), 0, PLENTY))
    buffer[:] = bytes(len(buffer))
    found = bytes(decoded.topic_data[0].partition_data[0].records)
    assert found == (b"records" if is_copy else bytes(7))


def fetch_response(topics, partitions):
    found = [FetchablePartitionResponse(number, records=b"records") for number in range(partitions)]
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=found)] * topics)


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize(("topics", "partitions"), [(1, 1500), (1500, 1), (30, 50)])
def test_the_short_encoder_leaves_many_elements_to_the_sliced_one(version, topics, partitions):
    response = fetch_response(topics, partitions)
    assert short_encoder(FetchResponse, version)(response) is None
    parts, pauses = run(encode_in_slices(response, version))
    assert pauses >= topics * partitions // ELEMENTS_PER_STEP
    assert b"".join(parts) == encode(response, version)
    few = fetch_response(1, FLAT_RESPONSE_ELEMENTS - 1)
    assert b"".join(short_encoder(FetchResponse, version)(few)) == encode(few, version)
