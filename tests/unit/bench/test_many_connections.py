"""The hand-made Produce of the connection load, against the declared message."""

from __future__ import annotations

import struct

import pytest
from bench.many_connections import check_answer, produce_request

from moldau.protocol.compiler import decode, encode
from moldau.protocol.messages.data import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


def test_the_request_is_a_produce_of_one_batch():
    frame = produce_request("topic", 3)
    assert struct.unpack_from(">ihhih", frame) == (len(frame) - 4, 0, 7, 1, -1)
    message = decode(ProduceRequest, 7, frame[14:])
    (topic,) = message.topic_data
    (partition,) = topic.partition_data
    assert (message.acks, topic.name, partition.index) == (-1, "topic", 3)


def answer(error: int) -> bytes:
    partition = PartitionProduceResponse(index=3, error_code=error)
    topic = TopicProduceResponse(name="topic", partition_responses=[partition])
    return struct.pack(">i", 1) + encode(ProduceResponse(responses=[topic]), 7)


def test_an_answer_without_error_passes_and_one_with_error_does_not():
    check_answer(answer(0))
    with pytest.raises(RuntimeError, match="error 6"):
        check_answer(answer(6))
