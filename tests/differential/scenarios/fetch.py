"""Fetch: limits, offsets, epochs, and the life of a session."""

from __future__ import annotations

from typing import Any

from differential.batches import batch, fetch, produce
from differential.peer import NO_TOPIC_ID, STRANGE_TOPIC_ID, Peer
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from moldau.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState

BATCHES_FROM = 4
"""Older versions are given converted messages: what is in them is another suite's matter."""


def filled(peer: Peer, about: str = "t", partitions: int = 1) -> str:
    """Make a topic whose first partition has batches of 1, 2 and 3 records and a large one."""
    topic = peer.topic(about, partitions)
    for values in ((b"a",), (b"b", b"c"), (b"d", b"e", b"f"), (b"x" * 5000,)):
        peer.call(produce(peer, topic, batch(*values)))
    return topic


def offsets(peer: Peer) -> None:
    topic = filled(peer)
    for offset in (0, 1, 2, 5, 6, 7, 8, 99, -1, -2):
        peer.ask_all(f"at {offset}", fetch(peer, topic, offset), BATCHES_FROM)
        for level in (0, 1):
            request = fetch(peer, topic, offset, isolation_level=level)
            peer.ask_all(f"at {offset}, isolation {level}", request, BATCHES_FROM)
    peer.ask_all("isolation 2", fetch(peer, topic, isolation_level=2), BATCHES_FROM)
    cut = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 3)])
    peer.call(DeleteRecordsRequest([cut], 1000))
    for offset in (0, 2, 3, 7, 8):
        peer.ask_all(f"after deletion at {offset}", fetch(peer, topic, offset), BATCHES_FROM)


def limits(peer: Peer) -> None:
    topic = filled(peer)
    for limit in (0, 1, -1, 60, 75, 150, 400, 2**31 - 1):
        for offset in (0, 6):
            partition = fetch(peer, topic, offset, partition_max_bytes=limit)
            peer.ask_all(f"partition max {limit} at {offset}", partition, BATCHES_FROM)
            whole = fetch(peer, topic, offset, max_bytes=limit)
            peer.ask_all(f"max {limit} at {offset}", whole, BATCHES_FROM)
    for minimum in (0, -1, 5, 1 << 20, 2**31 - 1):
        request = fetch(peer, topic, 0, min_bytes=minimum, max_wait_ms=1)
        peer.ask_all(f"min {minimum}", request, BATCHES_FROM)
    request = fetch(peer, topic, 7, max_wait_ms=-5)
    peer.ask_all("negative wait", request, BATCHES_FROM)


def several(peer: Peer) -> None:
    first, second = filled(peer, "one", 2), filled(peer, "two")
    for limit in (1, 200, 1 << 20):
        request = _request(peer, {first: (0, 1), second: (0,)}, max_bytes=limit)
        peer.ask_all(f"three partitions within {limit}", request, BATCHES_FROM)
    for limit in (0, 10, 60, 75, 100, 160):
        request = _request(peer, {first: (0,), second: (0,)}, 0, limit)
        peer.ask_all(f"two partitions with {limit} each", request, BATCHES_FROM)
    peer.ask_all("no topic", FetchRequest(min_bytes=1), BATCHES_FROM)
    peer.ask_all("no partition", _request(peer, {first: ()}), BATCHES_FROM)
    peer.ask_all("one partition twice", _request(peer, {first: (0, 0)}), BATCHES_FROM)
    mixed = _request(peer, {first: (0, 9), second: (0,)})
    peer.ask_all("one unknown", mixed, BATCHES_FROM)


def unknown_places(peer: Peer) -> None:
    topic = filled(peer)
    nowhere = fetch(peer, "nowhere", topic_id=STRANGE_TOPIC_ID)
    peer.ask_all("unknown topic", nowhere, BATCHES_FROM)
    peer.ask_all("no topic", fetch(peer, "", topic_id=NO_TOPIC_ID), BATCHES_FROM)
    peer.ask_all("invalid topic", fetch(peer, "a/b", topic_id=NO_TOPIC_ID), BATCHES_FROM)
    peer.ask_all("unknown partition", fetch(peer, topic, partition=3), BATCHES_FROM)
    peer.ask_all("negative partition", fetch(peer, topic, partition=-1), BATCHES_FROM)


def epochs(peer: Peer) -> None:
    topic = filled(peer)
    for epoch in (-1, 0, 1, 99, -2):
        request = fetch(peer, topic, current_leader_epoch=epoch)
        peer.ask_all(f"leader epoch {epoch}", request, 9)
    for epoch in (-1, 0, 1, 9):
        for offset in (0, 7, 8):
            request = fetch(peer, topic, offset, last_fetched_epoch=epoch)
            peer.ask_all(f"last epoch {epoch} at {offset}", request, 12)


def replicas(peer: Peer) -> None:
    topic = filled(peer)
    for replica in (1, 7, -2, -3):
        peer.ask_all(f"replica {replica}", fetch(peer, topic, replica_id=replica), 4, 14)
        state = FetchReplicaState(replica, -1)
        peer.ask_all(f"replica {replica}", fetch(peer, topic, replica_state=state), 15)


def sessions(peer: Peer) -> None:
    first, second = filled(peer, "one", 2), filled(peer, "two")
    for version in peer.versions(FetchRequest, 7):
        _session(peer, version, first, second)


def _session(peer: Peer, version: int, first: str, second: str) -> None:
    opened = _request(peer, {first: (0, 1), second: (0,)}, session_epoch=0)
    session = peer.ask("open", opened, version).session_id

    def go_on(what: str, epoch: int, topics: dict[str, Any] | None = None, **fields: Any) -> Any:
        offset = fields.pop("offset", 0)
        request = _request(
            peer, topics or {}, offset, session_id=session, session_epoch=epoch, **fields
        )
        return peer.ask(what, request, version)

    go_on("again", 1)
    go_on("first moved to its end", 2, {first: (0,)}, offset=7)
    go_on("second moved to its end", 3, {second: (0,)}, offset=7)
    go_on("nothing new", 4)
    peer.call(produce(peer, first, batch(b"new"), partition=1))
    go_on("news", 5)
    go_on("news again, not moved", 6)
    forgotten = [ForgottenTopic(first, peer.topic_id(first), [1, 7])]
    go_on("forget one and an unknown", 7, forgotten_topics_data=forgotten)
    unknown = ForgottenTopic("nowhere", STRANGE_TOPIC_ID, [0])
    go_on("forget an unknown topic", 8, forgotten_topics_data=[unknown])
    go_on("unknown partition", 9, {first: (5,)})
    go_on("unknown partition again", 10)
    go_on("out of range", 11, {second: (0,)}, offset=99)
    go_on("out of range again", 12)
    go_on("epoch too early", 12)
    go_on("epoch too late", 20)
    go_on("the right one after that", 13)
    go_on("opened anew", 0, {second: (0,)})
    go_on("of the old one", 1)
    again = peer.ask("another", _request(peer, {second: (0,)}, session_epoch=0), version)
    closing = _request(peer, {}, session_id=again.session_id, session_epoch=-1)
    peer.ask("closed", closing, version)
    ended = _request(peer, {}, session_id=again.session_id, session_epoch=1)
    peer.ask("after its end", ended, version)
    nobody = _request(peer, {second: (0,)}, session_id=7, session_epoch=3)
    peer.ask("unknown session", nobody, version)
    odd = _request(peer, {second: (0,)}, session_id=0, session_epoch=3)
    peer.ask("epoch without session", odd, version)
    odd = _request(peer, {second: (0,)}, session_id=0, session_epoch=-7)
    peer.ask("negative epoch", odd, version)
    peer.ask("empty", FetchRequest(min_bytes=1, session_epoch=0), version)
    strange = FetchTopic("nowhere", STRANGE_TOPIC_ID, [FetchPartition(0, partition_max_bytes=9)])
    request = FetchRequest(min_bytes=1, session_epoch=0, topics=[strange])
    answer = peer.ask("unknown topic", request, version)
    again = FetchRequest(min_bytes=1, session_id=answer.session_id, session_epoch=1)
    peer.ask("unknown topic again", again, version)


def deleted_in_session(peer: Peer) -> None:
    for version in peer.versions(FetchRequest, 7):
        topic, kept = filled(peer, f"t{version}"), filled(peer, f"kept{version}")
        opened = _request(peer, {topic: (0,), kept: (0,)}, session_epoch=0)
        session = peer.ask("open", opened, version).session_id
        state = DeleteTopicState(topic)
        peer.call(DeleteTopicsRequest([state], [topic], 5000), 5)
        peer.gone(topic)
        peer.until(lambda name=topic: not peer.serves(name, 0), "the replica is gone")
        for epoch in (1, 2):
            request = FetchRequest(min_bytes=1, session_id=session, session_epoch=epoch)
            peer.ask(f"after deletion {epoch}", request, version)


def by_other_names(peer: Peer) -> None:
    """A session speaks of topics by names or by ids, never both."""
    topic = filled(peer)
    for first, then in ((12, 13), (13, 12)):
        if {first, then} <= set(peer.versions(FetchRequest)):
            opened = _request(peer, {topic: (0,)}, session_epoch=0)
            session = peer.ask(f"open in {first}", opened, first).session_id
            request = _request(peer, {}, session_id=session, session_epoch=1)
            peer.ask(f"after {first}", request, then)


def _request(
    peer: Peer,
    partitions: dict[str, Any],
    offset: int = 0,
    partition_max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    topics = [
        FetchTopic(
            name,
            peer.topic_id(name),
            [
                FetchPartition(index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
                for index in indexes
            ],
        )
        for name, indexes in partitions.items()
    ]
    return FetchRequest(min_bytes=1, topics=topics, **fields)


SCENARIOS = (
    offsets,
    limits,
    several,
    unknown_places,
    epochs,
    replicas,
    sessions,
    deleted_in_session,
    by_other_names,
)
