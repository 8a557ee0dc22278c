"""A request from a template is what the codec encodes; the usual answer is read as decoded."""

from __future__ import annotations

import uuid

import pytest

from moldau.client.producing.produce_template import (
    FIRST_TEMPLATE_VERSION,
    ProduceTemplate,
    Written,
)
from moldau.protocol.messages.data import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.protocol.registry import api_of, encode_request, encode_response

API = api_of(ProduceRequest)
TOPIC_ID = uuid.UUID(int=7).bytes
VERSIONS = range(FIRST_TEMPLATE_VERSION, API.versions.last + 1)
CORRELATION_ID = 77


def request_for(records, transactional_id=None):
    data = TopicProduceData("readings", TOPIC_ID, [PartitionProduceData(5, records)])
    return ProduceRequest(transactional_id, -1, 30_000, [data])


def template_for(version, client_id="us", transactional_id=None):
    return ProduceTemplate(version, client_id, request_for(None, transactional_id))


def answer_of(version, throttle_time_ms=0, **changes):
    fields = {"index": 5, "error_code": 0, "base_offset": 123, "log_append_time_ms": -1}
    partition = PartitionProduceResponse(**{**fields, **changes})
    topic = TopicProduceResponse("readings", TOPIC_ID, [partition])
    response = ProduceResponse([topic], throttle_time_ms)
    return b"".join(encode_response(API, version, CORRELATION_ID, response))[4:]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384, 2_097_150, 2_097_151])
def test_a_cast_request_is_the_encoded_one(version, size):
    records = b"\x9b" * size
    rendered = b"".join(template_for(version).render(CORRELATION_ID, records))
    assert rendered == b"".join(
        encode_request(API, version, CORRELATION_ID, "us", request_for(records))
    )


@pytest.mark.parametrize("client_id", [None, "", "ein Zähler"])
@pytest.mark.parametrize("transactional_id", [None, "orders"])
def test_names_are_written_as_they_are_encoded(client_id, transactional_id):
    request = request_for(b"records", transactional_id)
    template = template_for(13, client_id, transactional_id)
    encoded = encode_request(API, 13, CORRELATION_ID, client_id, request)
    assert b"".join(template.render(CORRELATION_ID, b"records")) == b"".join(encoded)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("append_time_ms", [-1, 1_700_000_000_000])
def test_the_usual_answer_is_read(version, append_time_ms):
    answer = answer_of(version, log_append_time_ms=append_time_ms, log_start_offset=100)
    assert template_for(version).read(answer) == Written(123, append_time_ms)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {"error_code": 6},
        {"index": 4},
        {"throttle_time_ms": 1},
        {"error_message": "no"},
        {"record_errors": [BatchIndexAndErrorMessage(0, "no")]},
    ],
)
def test_another_answer_is_left_to_the_decoder(version, changes):
    assert template_for(version).read(answer_of(version, **changes)) is None


def test_an_answer_that_names_a_leader_is_left_to_the_decoder():
    answer = answer_of(13, current_leader=LeaderIdAndEpoch(1, 1))
    assert template_for(13).read(answer) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_no_damaged_answer_is_taken_for_the_usual_one(version):
    template = template_for(version)
    answer = answer_of(version)
    numbers = range(answer.index((123).to_bytes(8)), answer.index((123).to_bytes(8)) + 24)
    assert all(template.read(answer[:end]) is None for end in range(len(answer)))
    assert template.read(answer + b"\0") is None
    for position in range(4, len(answer)):
        damaged = bytearray(answer)
        damaged[position] ^= 0x41
        assert (template.read(bytes(damaged)) is None) == (position not in numbers)
