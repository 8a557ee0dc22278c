"""The largest legal requests, one after the other, and what each API costs the others.

`largest_requests` fills each array of each API to its limit, in the oldest and the newest version;
`largest_changes` does what changes, or reads, twenty thousand partitions. Both print the longest
stall of the event loop for each API: not exactly, but the bucket of the broker's own histogram that
it lies in. A scrape of the metrics page costs some milliseconds itself, so the lowest buckets say
little.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

from attacks.watched import Watched
from kits.largest_messages import LargestMessages, topic_of
from kits.metrics_page import scrape
from moldau.base.limits import OFFSETS_PER_REQUEST
from moldau.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.groups import DeleteGroupsRequest
from moldau.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    DescribeTopicPartitionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from moldau.protocol.messages.reassignment import ElectLeadersRequest
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.protocol.registry import Api, api_of, find_api
from process.raw_client import RawClient, batch_of

WIDE, WIDER = "wide", "wider"
"""Topics of as many partitions as one request may make."""
PARTITIONS: Final = 10_000
MANY_TOPICS: Final = 500
TICKS_S: Final = 0.12
"""In this time the broker's tick comes twice, also behind what an answer leaves to be done."""
SHOWN_S: Final = 0.01
"""Stalls up to this are printed for no request by itself."""
LAG: Final = "moldau_event_loop_lag_seconds_bucket"
DESTRUCTIVE: Final = frozenset({"DeleteTopics", "DeleteRecords", "WriteTxnMarkers"})
"""APIs that take away what the others are about."""


class Stalls:
    """Tells the longest stall since it was asked last, as an upper bound."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._before: dict[float, float] = {}
        self.of_api: dict[str, float] = {}
        self.latest_s()

    def latest_s(self) -> float:
        """Return the upper end of the highest bucket that has more ticks than before."""
        threading.Event().wait(TICKS_S)
        samples = scrape(self._page)
        now = {
            float(dict(labels)["le"]): value
            for (name, labels), value in samples.items()
            if name == LAG
        }
        longest, below = 0.0, 0.0
        for limit, count in sorted(now.items()):
            grown = count - self._before.get(limit, 0.0)
            if grown > below:
                longest = limit
            below = grown
        self._before = now
        return longest

    def note(self, api: Api, version: int, what: str) -> None:
        """Print a long stall at once, and keep the longest of each API."""
        stall_s = self.latest_s()
        self.of_api[api.name] = max(self.of_api.get(api.name, 0.0), stall_s)
        if stall_s > SHOWN_S:
            print(f"  {api.name} v{version}, {what}: up to {stall_s * 1000:g} ms", flush=True)

    def print_all(self) -> None:
        """Print a line for each API, the slowest first."""
        for name, stall_s in sorted(self.of_api.items(), key=lambda one: -one[1]):
            print(f"  {name}: up to {stall_s * 1000:g} ms")


def largest_requests(watched: Watched) -> None:
    """Fill every array of every API, in the oldest and the newest version."""
    with watched.client() as client:
        topic_ids = _make_topics(client)
        served = _served(client)
    largest = LargestMessages(topic_ids, batch_of([b"v"]))
    stalls = Stalls(watched.page)
    for api, version in served:
        for path, message in largest.of(api.request, version):
            with watched.client() as client, contextlib.suppress(ConnectionError):
                client.send(message, version)
                client.read_frame()
            stalls.note(api, version, ".".join(path))
    stalls.print_all()


def largest_changes(watched: Watched) -> None:
    """Make, change and delete twenty thousand partitions, their offsets and transactions."""
    stalls = Stalls(watched.page)
    with watched.client() as client:
        for what, version, message in _changes(client):
            client.call(message, version)
            stalls.note(api_of(type(message)), version, what)
    _leave_parked_fetches(watched, stalls)
    with watched.client() as client:
        for name in (WIDE, WIDER):
            message = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=10_000)
            client.call(message, 6)
            stalls.note(api_of(DeleteTopicsRequest), 6, "all partitions")
        client.call(_topics(CreatableTopic(WIDE, PARTITIONS, 1)), 7)
        stalls.note(api_of(CreateTopicsRequest), 7, "a name that was deleted")
    stalls.print_all()


def _served(client: RawClient) -> list[tuple[Api, int]]:
    """Return what the broker advertises, those that destroy last."""
    served = [
        (find_api(one.api_key), version)
        for one in client.call(ApiVersionsRequest(), 0).api_keys
        for version in sorted({one.min_version, one.max_version})
    ]
    return sorted(served, key=lambda one: one[0].name in DESTRUCTIVE)


def _make_topics(client: RawClient) -> list[bytes]:
    """Make a topic of many partitions, and many of one; return their ids."""
    names = [WIDE, *(topic_of(number) for number in range(MANY_TOPICS))]
    wanted = [CreatableTopic(name, PARTITIONS if name == WIDE else 1, 1) for name in names]
    assert {one.error_code for one in client.call(_topics(wanted[0]), 7).topics} == {0}
    assert {one.error_code for one in client.call(_topics(*wanted[1:]), 7).topics} == {0}
    for key_type, key in enumerate(("group", "transaction")):
        assert client.call(FindCoordinatorRequest(key, key_type), 2).error_code == 0
    asked = [MetadataRequestTopic(name=name) for name in names]
    found = client.call(MetadataRequest(asked), 12).topics
    return [topic.topic_id for topic in found]


def _topics(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(list(topics), validate_only=validate_only)


def _changes(client: RawClient) -> Iterator[tuple[str, int, Any]]:
    """Yield requests one after the other, each once the one before is answered."""
    yield from _topic_changes()
    yield from _record_changes()
    assert client.call(FindCoordinatorRequest("group", 0), 2).error_code == 0
    assert client.call(FindCoordinatorRequest("transaction", 1), 2).error_code == 0
    yield from _offset_changes()
    yield from _transaction_changes(client)
    yield from _config_changes()
    yield from _questions()


def _topic_changes() -> Iterator[tuple[str, int, Any]]:
    assigned = [CreatableReplicaAssignment(index, [1]) for index in range(PARTITIONS - 1)]
    wide, wider = CreatableTopic(WIDE, PARTITIONS, 1), CreatableTopic(WIDER, -1, -1, assigned)
    yield "validated only", 7, _topics(wide, validate_only=True)
    yield "10,000 partitions", 7, _topics(wide)
    yield "assigned partitions", 7, _topics(wider)
    yield "one more partition", 3, _grown(WIDER, PARTITIONS)
    yield (
        "many topics",
        7,
        _topics(*(CreatableTopic(topic_of(n), 1, 1) for n in range(MANY_TOPICS))),
    )
    yield "validated only", 3, _grown(topic_of(0), PARTITIONS, validate_only=True)
    yield "9,999 more partitions", 3, _grown(topic_of(0), PARTITIONS)
    yield "assigned partitions", 3, _grown(topic_of(1), PARTITIONS, is_assigned=True)
    for number in (0, 1):
        gone = DeleteTopicsRequest([DeleteTopicState(topic_of(number))], timeout_ms=10_000)
        yield "10,000 partitions", 6, gone


def _grown(
    name: str, count: int, *, validate_only: bool = False, is_assigned: bool = False
) -> CreatePartitionsRequest:
    assigned = [CreatePartitionsAssignment([1]) for _ in range(count - 1)] if is_assigned else None
    return CreatePartitionsRequest(
        [CreatePartitionsTopic(name, count, assigned)], 10_000, validate_only
    )


def _record_changes() -> Iterator[tuple[str, int, Any]]:
    indexes, batch = range(PARTITIONS - 2), batch_of([b"v"])
    written = TopicProduceData(
        WIDE, partition_data=[PartitionProduceData(i, batch) for i in indexes]
    )
    yield "one topic", 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[written])
    for timestamp in (0, -1, -3):
        asked = [ListOffsetsPartition(index, timestamp=timestamp) for index in range(PARTITIONS)]
        topics = [ListOffsetsTopic(name, asked) for name in (WIDE, WIDER)]
        yield f"time {timestamp}", 7, ListOffsetsRequest(-1, topics=topics)
    for version in (2, 12):
        yield "all partitions", version, _fetch(0)
    cut = [DeleteRecordsPartition(index, -1) for index in range(PARTITIONS)]
    yield (
        "two topics",
        2,
        DeleteRecordsRequest([DeleteRecordsTopic(name, cut) for name in (WIDE, WIDER)], 10_000),
    )


def _fetch(max_wait_ms: int) -> FetchRequest:
    asked = [FetchPartition(index, partition_max_bytes=1 << 20) for index in range(PARTITIONS)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 << 30,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(name, partitions=asked) for name in (WIDE, WIDER)],
    )


def _offset_changes() -> Iterator[tuple[str, int, Any]]:
    indexes = range(OFFSETS_PER_REQUEST // 2)
    offsets = [OffsetCommitRequestPartition(index, 1) for index in indexes]
    committed = [OffsetCommitRequestTopic(name, partitions=offsets) for name in (WIDE, WIDER)]
    for version in (0, 9):
        yield "two topics", version, OffsetCommitRequest("group", -1, "", topics=committed)
    everything = OffsetFetchRequestGroup("group", topics=None)
    yield "everything", 9, OffsetFetchRequest(groups=[everything])
    gone = [OffsetDeleteRequestPartition(index) for index in indexes]
    deleted = [OffsetDeleteRequestTopic(name, gone) for name in (WIDE, WIDER)]
    yield "two topics", 0, OffsetDeleteRequest("group", deleted)
    yield "two topics", 9, OffsetCommitRequest("group", -1, "", topics=committed)
    yield "a group with many offsets", 2, DeleteGroupsRequest(["group"])


def _transaction_changes(client: RawClient) -> Iterator[tuple[str, int, Any]]:
    begun = client.call(InitProducerIdRequest("transaction", 60_000), 4)
    who = ("transaction", begun.producer_id, begun.producer_epoch)
    indexes = list(range(PARTITIONS))
    added = [AddPartitionsToTxnTopic(name, indexes) for name in (WIDE, WIDER)]
    yield "two topics", 3, AddPartitionsToTxnRequest([], *who, added)
    client.call(AddOffsetsToTxnRequest(*who, "group"), 3)
    offsets = [TxnOffsetCommitRequestPartition(i, 1) for i in range(OFFSETS_PER_REQUEST // 2)]
    committed = [TxnOffsetCommitRequestTopic(name, partitions=offsets) for name in (WIDE, WIDER)]
    yield (
        "two topics",
        3,
        TxnOffsetCommitRequest("transaction", "group", *who[1:], topics=committed),
    )
    yield "one of many partitions", 0, DescribeTransactionsRequest(["transaction"])
    yield "many partitions", 3, EndTxnRequest(*who, committed=True)
    marked = [WritableTxnMarkerTopic(name, indexes) for name in (WIDE, WIDER)]
    marker = WritableTxnMarker(begun.producer_id, 5, True, marked, 0)
    yield "two topics", 1, WriteTxnMarkersRequest([marker])


def _config_changes() -> Iterator[tuple[str, int, Any]]:
    for kind, name, config, value in (
        (2, WIDE, "retention.ms", "3600000"),
        (4, "", "log.retention.ms", "7200000"),
        (4, "1", "log.cleaner.threads", "1"),
    ):
        change = IncrementalAlterableConfig(config, 0, value)
        resource = IncrementalAlterConfigsResource(kind, name, [change])
        yield f"{config} of {name!r}", 1, IncrementalAlterConfigsRequest([resource])
    for kind, name in ((2, WIDE), (4, "1"), (8, "1"), (16, "metrics"), (32, "group")):
        changes = [IncrementalAlterableConfig(f"config-{n}", 0, "1") for n in range(98_000)]
        resource = IncrementalAlterConfigsResource(kind, name, changes)
        yield f"98,000 of type {kind}", 1, IncrementalAlterConfigsRequest([resource])


def _questions() -> Iterator[tuple[str, int, Any]]:
    """Ask for everything."""
    yield "everything", 12, MetadataRequest(None)
    yield "everything", 0, DescribeTopicPartitionsRequest([], 2_000)
    yield "everything", 4, DescribeLogDirsRequest(None)
    yield "everything", 2, ElectLeadersRequest(0, None, 10_000)
    yield "everything", 1, ListConfigResourcesRequest()
    resources = [DescribeConfigsResource(2, topic_of(n), None) for n in range(2, MANY_TOPICS)]
    yield "many topics", 4, DescribeConfigsRequest(resources, True, True)


def _leave_parked_fetches(watched: Watched, stalls: Stalls) -> None:
    """Close connections whose fetches wait for twenty thousand partitions."""
    for _ in range(2):
        with watched.client() as client:
            client.send(_fetch(60_000), 12)
            stalls.note(api_of(FetchRequest), 12, "parked")
        stalls.note(api_of(FetchRequest), 12, "parked, and then closed")
