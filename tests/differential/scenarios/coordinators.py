"""FindCoordinator, and what clients may do with the topics that it makes."""

from __future__ import annotations

from differential.peer import Peer
from kafka_harness.waiting import eventually
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
FIRST_WITH_TYPES = 1
FIRST_WITH_MANY = 4
INTERNAL = ("__consumer_offsets", "__transaction_state")


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
                    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key, key])
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
    """Ask until there is a coordinator: Kafka makes the topic behind its first answer."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["a"])
    eventually(lambda: peer.call(request).coordinators[0].error_code == 0, "a coordinator")


SCENARIOS = (find, other_types, internal_topics)
