"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions."""

from __future__ import annotations

import struct

from differential.peer import STRANGE_TOPIC_ID, Peer
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    TopicPartitionsCursor,
)

SOFTWARE = ("moldau", "", "-a", "a-", "a b", "a.b-c", "ä", "a" * 300, "a_b", "1")


def api_versions(peer: Peer) -> None:
    for version in peer.versions(ApiVersionsRequest):
        for name in SOFTWARE:
            for request in (ApiVersionsRequest(name, "1"), ApiVersionsRequest("a", name)):
                answer = peer.call(request, version)
                peer.note(f"{request} v{version}", answer.error_code)
                peer.note(f"{request}: apis v{version}", bool(answer.api_keys))
    for cluster, node in ((None, 1), (None, 9), ("another", -1), ("another", 9)):
        request = ApiVersionsRequest("a", "1", cluster, node)
        for version in peer.versions(ApiVersionsRequest, 5):
            answer = peer.call(request, version)
            peer.note(f"{request} v{version}", (answer.error_code, bool(answer.api_keys)))


def frames(peer: Peer) -> None:
    """Requests that are none, or none that a broker knows."""
    topics = b"\0\0\0\0"
    wrong = {
        "empty": b"",
        "one byte": b"\0",
        "cut in the header": struct.pack(">hhi", 3, 1, 7),
        "unknown API": _header(999, 0),
        "negative API": _header(-1, 0),
        "unknown version": _header(3, 99) + topics,
        "negative version": _header(3, -1) + topics,
        "cut in the body": _header(3, 1) + topics[:2],
        "count beyond the bytes": _header(3, 1) + struct.pack(">i", 2**31 - 1),
        "negative count": _header(3, 1) + struct.pack(">i", -2),
        "bytes behind the body": _header(3, 1) + topics + b"rest",
        "client id beyond the bytes": struct.pack(">hhih", 3, 1, 7, 99),
        "client id not UTF-8": struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xfe" + topics,
        "negative length of a name": _header(3, 1) + struct.pack(">ih", 1, -5),
        "old header in a flexible version": _header(3, 9) + b"\1\0\0\0\0",
        "unknown tag in the header": _header(3, 9) + b"\1\5\1x" + b"\1\0\0\0\0",
        "API of brokers": _header(4, 0),
    }
    for what, frame in wrong.items():
        peer.send_frame(what, frame)
    for version in (99, -1, 32767):
        answer = peer.send_frame(f"API versions {version}", _header(18, version) + b"\1")
        if answer is not None:
            correlation, error, count = struct.unpack_from(">ihi", answer)
            told = (correlation, error, "some" if count else "none")
            peer.note(f"API versions {version}, as version 0 has it", told)


def _header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


def metadata(peer: Peer) -> None:
    topic = peer.topic("t", 3)
    for version in peer.versions(MetadataRequest):
        for cluster in (False, True):
            for operations in (False, True):
                request = _about(MetadataRequestTopic(name=topic))
                request.include_cluster_authorized_operations = cluster
                request.include_topic_authorized_operations = operations
                peer.ask(f"operations {cluster} {operations}", request, version)
        if version:
            peer.ask("none", _about(), version)
        request = _about(MetadataRequestTopic(name=topic), MetadataRequestTopic(name=topic))
        peer.ask("twice", request, version)
        for name in ("nowhere", "", ".", "a/b", "a" * 250, "ä", "__share_group_state"):
            for create in (False, True):
                request = _about(MetadataRequestTopic(name=name))
                request.allow_auto_topic_creation = create
                request.include_topic_authorized_operations = True
                peer.ask(f"unknown {name!r} {create}", request, version)
        mixed = _about(MetadataRequestTopic(name=topic), MetadataRequestTopic(name="nowhere"))
        answer = peer.call(mixed, version)
        answer.topics.sort(key=lambda each: each.name)
        peer.note_answer(f"mixed v{version}", answer)


def metadata_by_id(peer: Peer) -> None:
    topic = peer.topic("t")
    known = peer.topic_id(topic)
    for version in peer.versions(MetadataRequest, 10):
        peer.ask("by id", _about(MetadataRequestTopic(known, None)), version)
        peer.ask("by unknown id", _about(MetadataRequestTopic(STRANGE_TOPIC_ID, None)), version)
        peer.ask("by zero id", _about(MetadataRequestTopic(name=None)), version)
        peer.ask("by both", _about(MetadataRequestTopic(known, topic)), version)
        strange = MetadataRequestTopic(STRANGE_TOPIC_ID, topic)
        peer.ask("by both, not matching", _about(strange), version)
        mixed = _about(MetadataRequestTopic(known, None), MetadataRequestTopic(name=topic))
        peer.ask("once by each", mixed, version)


def cluster(peer: Peer) -> None:
    for version in peer.versions(DescribeClusterRequest):
        for operations in (False, True):
            for fenced in (False, True) if version >= 2 else (False,):
                for endpoint in (1, 2, 0, 7) if version else (1,):
                    request = DescribeClusterRequest(operations, endpoint, fenced)
                    peer.ask(f"{operations} {endpoint} {fenced}", request, version)


def topic_partitions(peer: Peer) -> None:
    first, second, third = peer.topic("a", 3), peer.topic("b", 2), peer.topic("c", 4)

    def ask(what: str, *names: str, limit: int = 2000, at: tuple[str, int] | None = None) -> None:
        cursor = None if at is None else TopicPartitionsCursor(*at)
        topics = [DescribeTopicPartitionsTopic(name) for name in names]
        peer.ask_all(what, DescribeTopicPartitionsRequest(topics, limit, cursor))

    everything = (third, first, second)
    ask("everything", *everything)
    for limit in (0, -1, 1, 2, 3, 4, 5, 6, 8, 9, 10):
        ask(f"limit {limit}", *everything, limit=limit)
    for at in (
        (first, 1), (first, 3), (first, 2), (second, 0), (second, 9), (third, 3), ("", 0),
        ("zzz", 0), (first, -1), (f"{first}x", 1), (f"{first}x", 0),
    ):  # fmt: skip
        ask(f"from {at}", *everything, at=at)
        ask(f"from {at}, two", *everything, at=at, limit=2)
    ask("unknown", "nowhere")
    ask("unknown among known", first, f"{first}x", second, limit=3)
    ask("invalid", "a/b")
    ask("empty", "")
    ask("twice", first, first)
    ask("cursor on an unknown", first, "zz", at=("zz", 0))
    ask("cursor not asked for", first, third, at=(second, 1))


def _about(*topics: MetadataRequestTopic) -> MetadataRequest:
    return MetadataRequest(list(topics), allow_auto_topic_creation=False)


SCENARIOS = (api_versions, frames, metadata, metadata_by_id, cluster, topic_partitions)
