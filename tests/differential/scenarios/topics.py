"""CreateTopics, DeleteTopics, CreatePartitions, DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from differential.batches import batch, produce
from differential.peer import STRANGE_TOPIC_ID, Peer
from differential.wrong_configs import WRONG_CONFIGS, case_label
from moldau.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)


def created(peer: Peer) -> None:
    for version in peer.versions(CreateTopicsRequest):
        name = peer.name(f"t{version}")
        request = CreateTopicsRequest([CreatableTopic(name, 2, 1)], 5000)
        _create(peer, "plain", request, version)
        peer.ask("again", request, version)
        other = CreatableTopic(peer.name(f"other{version}"), 1, 1)
        both = CreateTopicsRequest([CreatableTopic(name, 1, 1), other], 5000)
        _create(peer, "one of two exists", both, version)
        configs = [
            CreatableTopicConfig("retention.ms", "5000"),
            CreatableTopicConfig("cleanup.policy", "compact"),
            CreatableTopicConfig("min.insync.replicas", "1"),
        ]
        with_configs = CreatableTopic(peer.name(f"c{version}"), 1, 1, configs=configs)
        _create(peer, "with configs", CreateTopicsRequest([with_configs], 5000), version)
        chosen = CreatableTopic(peer.name(f"d{version}"), -1, -1)
        _create(peer, "defaults", CreateTopicsRequest([chosen], 5000), version)


def refused(peer: Peer) -> None:
    """Ask for what cannot be; asked only to validate, also for what could."""
    for version in peer.versions(CreateTopicsRequest):
        taken = peer.topic(f"one.name{version}")
        namesake = CreatableTopic(taken.replace(".", "_"), 1, 1)
        _create(peer, "colliding", CreateTopicsRequest([namesake], 5000), version)
        for what, topics in _refusals(peer.name(f"no{version}")):
            _create(peer, what, CreateTopicsRequest(topics, 5000), version)
        if version >= 1:
            name = peer.name(f"perhaps{version}")
            for what, topics in (*_refusals(name), *_possible(name)):
                request = CreateTopicsRequest(topics, 5000, validate_only=True)
                _create(peer, f"validate: {what}", request, version)


def _refusals(name: str) -> Iterator[tuple[str, list[CreatableTopic]]]:
    for wrong_name in (
        "",
        ".",
        "..",
        "a b",
        "a/b",
        "ä",
        "a:b",
        "a\0b",
        "a" * 250,
        "__cluster_metadata",
    ):
        yield f"name {wrong_name!r}", [CreatableTopic(wrong_name, 1, 1)]
    for count in (0, -2, 100_000):
        yield f"{count} partitions", [CreatableTopic(name, count, 1)]
    for factor in (0, -2, 2, 32767):
        yield f"factor {factor}", [CreatableTopic(name, 1, factor)]
    yield "twice", [CreatableTopic(name, 1, 1), CreatableTopic(name, 1, 1)]
    yield "nothing", []
    for what, assignments in _wrong_assignments().items():
        yield what, [CreatableTopic(name, -1, -1, assignments)]
    right = [CreatableReplicaAssignment(0, [1])]
    yield "assigned, with a count", [CreatableTopic(name, 1, -1, right)]
    yield "assigned, with a factor", [CreatableTopic(name, -1, 1, right)]
    for wrong in WRONG_CONFIGS:
        configs = [CreatableTopicConfig(*one) for one in wrong]
        yield case_label(wrong), [CreatableTopic(name, 1, 1, configs=configs)]


def _possible(name: str) -> Iterator[tuple[str, list[CreatableTopic]]]:
    for legal in ("a" * 249, "-", "_", "a.b", "a_b", "__internal"):
        yield f"name {legal!r}", [CreatableTopic(legal, 1, 1)]
    yield "default count", [CreatableTopic(name, -1, 1)]
    yield "default factor", [CreatableTopic(name, 1, -1)]
    yield "assigned", [CreatableTopic(name, -1, -1, _assigned((0, [1])))]
    yield "assigned in disorder", [CreatableTopic(name, -1, -1, _assigned((1, [1]), (0, [1])))]
    repeated = [CreatableTopicConfig("retention.ms", value) for value in ("1", "2")]
    yield "one config twice", [CreatableTopic(name, 1, 1, configs=repeated)]
    tiered = [CreatableTopicConfig("local.retention.ms", "999999999999999")]
    yield "tiering that is off", [CreatableTopic(name, 1, 1, configs=tiered)]


def _assigned(*assigned: tuple[int, list[int]]) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(index, brokers) for index, brokers in assigned]


def _wrong_assignments() -> dict[str, list[CreatableReplicaAssignment]]:
    return {
        "no partition 0": _assigned((1, [1])),
        "no partition 1": _assigned((0, [1]), (2, [1])),
        "no such broker": _assigned((0, [9])),
        "no broker": _assigned((0, [])),
        "no single broker": _assigned((0, [1, 1])),
        "no single partition": _assigned((0, [1]), (0, [1])),
        "no even factor": _assigned((0, [1]), (1, [1, 9])),
        "no partition below 0": _assigned((-1, [1])),
    }


def deleted(peer: Peer) -> None:
    for version in peer.versions(DeleteTopicsRequest):
        names = [peer.topic(f"{version}-{number}") for number in range(4)]

        def ask(what: str, *states: tuple[str | None, bytes]) -> None:
            topics = [DeleteTopicState(name, topic_id) for name, topic_id in states]
            by_name = [name or "" for name, _ in states]
            request = DeleteTopicsRequest(topics, by_name, 5000)
            answer = peer.call(request, version)  # noqa: B023 - called at once
            answer.responses.sort(key=lambda each: (each.name or "", each.topic_id))
            peer.note_answer(f"{what} v{version}", answer)  # noqa: B023

        zero = b"\0" * 16
        ask("by name", (names[0], zero))
        peer.gone(names[0])
        ask("again", (names[0], zero))
        ask("one of two", (names[1], zero), ("nowhere", zero))
        ask("one twice", (names[2], zero), (names[2], zero))
        ask("invalid name", ("a/b", zero))
        ask("empty name", ("", zero))
        ask("nothing")
        if version >= 6:
            ask("by id", (None, peer.topic_id(names[3])))
            ask("unknown id", (None, STRANGE_TOPIC_ID))
            ask("neither", (None, zero))
            ask("both", (names[2], peer.topic_id(names[2])))
            ask("both, not matching", (names[2], STRANGE_TOPIC_ID))
            ask("once by name, once by id", (names[2], zero), (None, peer.topic_id(names[2])))


def grown(peer: Peer) -> None:
    for version in peer.versions(CreatePartitionsRequest):
        name = peer.topic(f"t{version}", 2)

        def ask(what: str, *topics: tuple[str, int, list[list[int]] | None], validate: bool = True):
            wanted = [
                CreatePartitionsTopic(
                    topic,
                    count,
                    None
                    if assigned is None
                    else [CreatePartitionsAssignment(brokers) for brokers in assigned],
                )
                for topic, count, assigned in topics
            ]
            request = CreatePartitionsRequest(wanted, 5000, validate)
            answer = peer.call(request, version)  # noqa: B023 - called at once
            answer.results.sort(key=lambda each: each.name)
            peer.note_answer(f"{what} v{version}", answer)  # noqa: B023

        for count in (-1, 0, 1, 2, 3, 100_000):
            ask(f"to {count}", (name, count, None))
        ask("unknown topic", ("nowhere", 3, None))
        ask("invalid topic", ("a/b", 3, None))
        ask("twice", (name, 3, None), (name, 4, None))
        ask("nothing")
        ask("assigned", (name, 3, [[1]]))
        ask("assigned too few", (name, 4, [[1]]))
        ask("assigned too many", (name, 3, [[1], [1]]))
        ask("assigned nobody", (name, 3, [[]]))
        ask("assigned none", (name, 3, []))
        ask("assigned twice", (name, 3, [[1, 1]]))
        ask("assigned unknown", (name, 3, [[7]]))
        ask("assigned another factor", (name, 3, [[1, 7]]))
        ask("done", (name, 3, None), validate=False)
        ask("done by hand", (name, 4, [[1]]), validate=False)


def log_dirs(peer: Peer) -> None:
    topic = peer.topic("t", 2)
    peer.call(produce(peer, topic, batch(b"v" * 100)))

    def ask(what: str, topics: list[DescribableLogDirTopic] | None, *, own: bool = False) -> None:
        for version in peer.versions(DescribeLogDirsRequest):
            answer = peer.call(DescribeLogDirsRequest(topics), version)
            for each in answer.results:
                if own:
                    each.topics = [one for one in each.topics if one.name == topic]
                each.topics.sort(key=lambda one: one.name)
                for one in each.topics:
                    one.partitions.sort(key=lambda partition: partition.partition_index)
            peer.note_answer(f"{what} v{version}", answer)

    ask("all", None, own=True)
    ask("one partition", [DescribableLogDirTopic(topic, [0])])
    ask("two", [DescribableLogDirTopic(topic, [0, 1])])
    ask("unknown", [DescribableLogDirTopic("nowhere", [0]), DescribableLogDirTopic(topic, [7])])
    ask("none", [])


def _create(peer: Peer, label: str, request: CreateTopicsRequest, version: int) -> None:
    """Ask, learn the ids of what was created, and write down in the order of the names."""
    answer: Any = peer.call(request, version)
    for topic in answer.topics:
        if topic.error_code == 0 and not request.validate_only:
            peer.known(topic.name)
        if topic.configs:
            topic.configs.sort(key=lambda config: config.name)
    answer.topics.sort(key=lambda topic: topic.name)
    peer.note_answer(f"{label} v{version}", answer)


SCENARIOS = (created, refused, deleted, grown, log_dirs)
