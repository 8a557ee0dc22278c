"""Every API that takes an array, asked for one thing thousands of times.

The answer must stay near the size of that to one mention: repeats are folded, or refused once, or
each of them is answered with no more than the request spent on it. The table has the requests that
used to make large answers; all other APIs are asked with arrays of equal elements of any kind, so
that an API that is added later is asked too.
"""

from __future__ import annotations

import pytest

from kits.filled_messages import filled
from moldau.protocol.fields import Kind
from moldau.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeProducersRequest,
    DescribeProducersTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest
from moldau.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
)
from moldau.protocol.registry import api_of, encode_request
from moldau.testing import TestBroker
from process.advertised import RULES, connected, first_and_last_versions

MANY = 2_000
TOPIC, BROKER = 2, 4


def topics(topic, partition, count):
    """Return an array of topics with an array of partitions, each with repeats."""
    return [topic([partition] * count)] * min(count, 10)


REQUESTS = {
    "fetch": (
        12,
        lambda n: FetchRequest(
            topics=topics(lambda p: FetchTopic("orders", partitions=p), FetchPartition(0), n)
        ),
    ),
    "list offsets": (
        7,
        lambda n: ListOffsetsRequest(
            topics=topics(lambda p: ListOffsetsTopic("orders", p), ListOffsetsPartition(0), n)
        ),
    ),
    "metadata": (9, lambda n: MetadataRequest([MetadataRequestTopic(name="orders")] * n)),
    "offset commit": (
        9,
        lambda n: OffsetCommitRequest(
            "g",
            topics=topics(
                lambda p: OffsetCommitRequestTopic("orders", partitions=p),
                OffsetCommitRequestPartition(0, 1),
                n,
            ),
        ),
    ),
    "offset fetch": (
        9,
        lambda n: OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)] * n),
    ),
    "find coordinator": (4, lambda n: FindCoordinatorRequest(coordinator_keys=["g"] * n)),
    "describe groups": (5, lambda n: DescribeGroupsRequest(["g"] * n)),
    "delete groups": (2, lambda n: DeleteGroupsRequest(["nobody"] * n)),
    "create topics": (7, lambda n: CreateTopicsRequest([CreatableTopic("new", 1, 1)] * n, 9, True)),
    "delete topics": (6, lambda n: DeleteTopicsRequest([DeleteTopicState("nothing")] * n)),
    "create partitions": (
        3,
        lambda n: CreatePartitionsRequest([CreatePartitionsTopic("nothing", 2, None)] * n),
    ),
    "delete records": (
        2,
        lambda n: DeleteRecordsRequest(
            topics(lambda p: DeleteRecordsTopic("orders", p), DeleteRecordsPartition(0, 0), n)
        ),
    ),
    "leader epochs": (
        3,
        lambda n: OffsetForLeaderEpochRequest(
            -1,
            topics(lambda p: OffsetForLeaderTopic("orders", p), OffsetForLeaderPartition(0), n),
        ),
    ),
    "add partitions": (
        3,
        lambda n: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_topics=topics(lambda p: AddPartitionsToTxnTopic("orders", p), 0, n),
        ),
    ),
    "verify partitions": (
        4,
        lambda n: AddPartitionsToTxnRequest(
            [AddPartitionsToTxnTransaction("t", 1, 1, True, [])] * n
        ),
    ),
    "describe a topic's configs": (
        4,
        lambda n: DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "orders", None)] * n),
    ),
    "describe a broker's configs": (
        4,
        lambda n: DescribeConfigsRequest(
            [DescribeConfigsResource(BROKER, "1", None)] * n, True, True
        ),
    ),
    "describe log dirs": (
        4,
        lambda n: DescribeLogDirsRequest(
            topics(lambda p: DescribableLogDirTopic("orders", p), 0, n)
        ),
    ),
    "describe producers": (
        0,
        lambda n: DescribeProducersRequest(
            topics(lambda p: DescribeProducersTopic("orders", p), 0, n)
        ),
    ),
    "describe transactions": (0, lambda n: DescribeTransactionsRequest(["t"] * n)),
    "describe topic partitions": (
        0,
        lambda n: DescribeTopicPartitionsRequest([DescribeTopicPartitionsTopic("orders")] * n),
    ),
}
"""By name: a version, and what makes a request in which everything is named so often."""

REFUSED_EACH = {
    "alter configs": (
        1,
        lambda n: AlterConfigsRequest([AlterConfigsResource(TOPIC, "orders", [])] * n, True),
    ),
    "alter configs incrementally": (
        1,
        lambda n: IncrementalAlterConfigsRequest(
            [IncrementalAlterConfigsResource(TOPIC, "orders", [])] * n, True
        ),
    ),
}
"""Kafka refuses a resource that is named twice as often as it is named."""


@pytest.fixture(scope="module")
def broker():
    settings = {"auto.create.topics.enable": False, "node.id": 1}
    with TestBroker(topics={"orders": 1}, settings=settings) as broker:
        with connected(broker) as client:
            for key_type in (0, 1):
                client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"]), 4)
        yield broker


def sizes(client, request, version):
    """Return the sizes of a request and of its answer."""
    client.send(request, version)
    answer = client.read_frame()
    sent = encode_request(api_of(type(request)), version, 1, "raw", request)
    return sum(len(part) for part in sent), len(answer)


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_to_many_mentions_is_as_large_as_one(broker, name):
    version, request = REQUESTS[name]
    with connected(broker) as client:
        _, one = sizes(client, request(1), version)
        _, many = sizes(client, request(MANY), version)
    assert many <= one + 100


@pytest.mark.parametrize("name", REFUSED_EACH)
def test_a_refusal_of_many_mentions_is_not_much_larger_than_its_request(broker, name):
    version, request = REFUSED_EACH[name]
    with connected(broker) as client:
        sent, answer = sizes(client, request(MANY), version)
    assert answer <= 10 * sent


def has_array(declared):
    return any(
        field.kind is Kind.ARRAY or (field.kind is Kind.STRUCT and has_array(field.struct))
        for field in declared.FIELDS
    )


def test_no_api_answers_equal_elements_with_much_more_than_they_took(broker):
    """Whatever the elements are: the amplification is bounded, for APIs to come too."""
    for api, version in first_and_last_versions(broker):
        if not has_array(api.request) or api.name in RULES:
            continue
        request = filled(api.request, version, "x", 12)
        if hasattr(request, "acks"):
            request.acks = -1
        with connected(broker) as client:
            sent, answer = sizes(client, request, version)
        assert answer <= 12 * sent + 1_000, (api.name, version, sent, answer)
