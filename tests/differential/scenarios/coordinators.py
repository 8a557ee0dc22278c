"""FindCoordinator, and what clients may do with the topics that it makes."""

from __future__ import annotations

from differential.peer import Peer
from kafka_harness.waiting import eventually
from moldau.coordination.hashing import partition_of
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.groups import DescribeGroupsRequest
from moldau.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.transactions import DescribeTransactionsRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_WITH_TYPES = 1
FIRST_WITH_MANY = 4
INTERNAL = ("__consumer_offsets", "__transaction_state")
PARTITIONS_OF_INTERNAL = 50

_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_ONE_KEY_A_PARTITION = {
    partition_of(f"key-{number}", PARTITIONS_OF_INTERNAL): f"key-{number}"
    for number in range(20 * PARTITIONS_OF_INTERNAL)
}


def find(peer: Peer) -> None:
    for kind in (GROUP, TRANSACTION):
        make_topic(peer, kind)
        for version in peer.versions(FindCoordinatorRequest, kind and FIRST_WITH_TYPES):
            for keys in ((), ("a",), ("",), ("a", "b"), ("a", "a"), ("\u00e4" * 300,)):
                if version >= FIRST_WITH_MANY:
                    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
                elif len(keys) == 1:
                    request = FindCoordinatorRequest(keys[0], kind)
                else:
                    continue
                peer.ask(f"type {kind}, {len(keys)}: {keys}", request, version)


def other_types(peer: Peer) -> None:
    """Ask for what neither has. A share partition's key in full would make Kafka a topic."""
    for version in peer.versions(FindCoordinatorRequest, FIRST_WITH_TYPES):
        for kind in (SHARE, 3, 127, -1):
            for key in ("a", ""):
                request = FindCoordinatorRequest(key, kind)
                if version >= FIRST_WITH_MANY:
                    request = FindCoordinatorRequest(
                        key_type=kind, coordinator_keys=[key, f"{key}b"]
                    )
                peer.ask(f"type {kind}, {key!r}", request, version)


def internal_topics(peer: Peer) -> None:
    for kind in (GROUP, TRANSACTION):
        make_topic(peer, kind)
    for name in INTERNAL:
        answer = peer.call(MetadataRequest([MetadataRequestTopic(name=name)]))
        (topic,) = answer.topics
        peer.note(f"{name}", (topic.error_code, topic.is_internal, len(topic.partitions)))
        delete = DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)])
        peer.ask_all(f"delete records of {name}", DeleteRecordsRequest([delete]))


def make_topic(peer: Peer, kind: int) -> None:
    """Ask until every key has a coordinator.

    Kafka makes the topic behind its first answer, and takes its partitions over one by one: what
    comes before a partition's turn is refused, and the scenario would compare what followed.
    """
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["a"])
    eventually(lambda: peer.call(request).coordinators[0].error_code == 0, "a coordinator")
    peer.until(lambda: not _codes_of_all(peer, kind) & _NOT_YET, "every partition is served")


def _codes_of_all(peer: Peer, kind: int) -> set[int]:
    """Return what the coordinators of all partitions of an internal topic answer."""
    assert len(_ONE_KEY_A_PARTITION) == PARTITIONS_OF_INTERNAL
    keys = list(_ONE_KEY_A_PARTITION.values())
    if kind == GROUP:
        return {one.error_code for one in peer.call(DescribeGroupsRequest(keys), 0).groups}
    states = peer.call(DescribeTransactionsRequest(keys)).transaction_states
    return {one.error_code for one in states}


SCENARIOS = (find, other_types, internal_topics)
