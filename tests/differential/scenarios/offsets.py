"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

from __future__ import annotations

from differential.batches import TIME, batch, produce
from differential.peer import Peer
from differential.scenarios.coordinators import GROUP, make_topic
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeProducersRequest,
    DescribeProducersTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.records.compression import Codec

SPECIAL = range(-8, 0)
TIMES = (0, TIME - 1, TIME, TIME + 1, TIME + 5, TIME + 10, TIME + 11, TIME + 30, TIME + 31, 2**62)


def timed(peer: Peer, about: str, codec: Codec = Codec.NONE) -> str:
    """Make a topic whose times have gaps, ties, and go back."""
    topic = peer.topic(about)
    for offsets in ((0, 1, 1), (10, 10), (5, 30, 7), (30,), (2,)):
        times = [TIME + offset for offset in offsets]
        records = batch(*[b"v"] * len(times), times=times, codec=codec)
        peer.call(produce(peer, topic, records))
    return topic


def by_time(peer: Peer) -> None:
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        topic = timed(peer, codec.name.lower(), codec)
        _look_up(peer, topic, codec.name)
    empty = peer.topic("empty")
    _look_up(peer, empty, "empty")


def after_deletion(peer: Peer) -> None:
    topic = timed(peer, "t")
    for offset in (4, 9):
        _cut(peer, topic, offset)
        _look_up(peer, topic, f"from {offset}")


def append_time(peer: Peer) -> None:
    topic = peer.topic("t", message_timestamp_type="LogAppendTime")
    peer.call(produce(peer, topic, batch(b"a", b"b")))
    for time in (-1, -2, -3, 0, TIME, 2**62):
        peer.ask_all(f"at {time}", _list(topic, time))


def in_segments(peer: Peer) -> None:
    """Several segments, so that ends and times lie in different files."""
    topic = peer.topic("t", segment_bytes=str(1 << 20))
    for number in range(5):
        records = batch(b"x" * 600_000, times=(TIME + 10 * number,))
        peer.call(produce(peer, topic, records))
    for time in (-1, -2, -3, -4, TIME, TIME + 5, TIME + 20, TIME + 35, TIME + 40, TIME + 41):
        peer.ask_all(f"at {time}", _list(topic, time))
    _cut(peer, topic, 3)
    for time in (-2, -3, -4, TIME, TIME + 20, TIME + 30):
        peer.ask_all(f"after deletion at {time}", _list(topic, time))


def refused(peer: Peer) -> None:
    topic = timed(peer, "t")
    for epoch in (0, 1, -2, 7):
        asked = ListOffsetsPartition(0, epoch, -1)
        request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [asked])])
        peer.ask_all(f"leader epoch {epoch}", request, 4)
    for replica in (-1, -2, 0, 1, 5):
        peer.ask_all(f"replica {replica}", _list(topic, -1, replica=replica))
    peer.ask_all("unknown topic", _list("nowhere", -1))
    peer.ask_all("invalid topic", _list("a/b", -1))
    peer.ask_all("unknown partition", _list(topic, -1, partition=4))
    peer.ask_all("negative partition", _list(topic, -1, partition=-1))
    twice = [ListOffsetsPartition(0, timestamp=-1), ListOffsetsPartition(0, timestamp=-2)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, twice)])
    peer.ask_all("one partition twice", request)
    peer.ask_all("nothing", ListOffsetsRequest(-1))
    for count in (0, 1, 5, -1):
        for time in (-1, -2, TIME):
            asked = ListOffsetsPartition(0, timestamp=time, max_num_offsets=count)
            request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [asked])])
            peer.ask_all(f"{count} offsets at {time}", request, 0, 0)


def leader_epochs(peer: Peer) -> None:
    topic, empty = timed(peer, "t"), peer.topic("empty")
    for name in (topic, empty):
        for epoch in (-1, 0, 1, 5, -2):
            peer.ask_all(f"{name}: epoch {epoch}", _end_of(name, epoch))
            peer.ask_all(f"{name}: now {epoch}", _end_of(name, 0, current=epoch), 2)
    for replica in (-1, -2, 1, 9):
        peer.ask_all(f"replica {replica}", _end_of(topic, 0, replica=replica), 3)
    peer.ask_all("unknown topic", _end_of("nowhere", 0))
    peer.ask_all("unknown partition", _end_of(topic, 0, partition=8))


def records_deleted(peer: Peer) -> None:
    make_topic(peer, GROUP)
    for version in peer.versions(DeleteRecordsRequest):
        topic = timed(peer, f"t{version}")
        for offset in (0, 2, 1, 4, 99, -2, -1, 9, 10):
            peer.ask(f"before {offset}", _deletion(topic, offset), version)
        compacted = peer.topic(f"compacted{version}", cleanup_policy="compact")
        peer.ask("compacted", _deletion(compacted, 0), version)
        both = peer.topic(f"both{version}", cleanup_policy="compact,delete")
        peer.ask("compacted and deleted", _deletion(both, 0), version)
        empty = peer.topic(f"empty{version}")
        peer.ask("empty to its end", _deletion(empty, -1), version)
        peer.ask("empty beyond", _deletion(empty, 1), version)
        peer.ask("unknown topic", _deletion("nowhere", 0), version)
        peer.ask("invalid topic", _deletion("a/b", 0), version)
        peer.ask("unknown partition", _deletion(topic, 0, partition=5), version)
        peer.ask("internal topic", _deletion("__consumer_offsets", 0), version)
        peer.ask("nothing", DeleteRecordsRequest(timeout_ms=100), version)


def producers(peer: Peer) -> None:
    topic = peer.topic("t", 2)
    for sequence in (0, 2):
        records = batch(b"a", b"b", producer=(4_100_000, 0, sequence))
        peer.call(produce(peer, topic, records))
    peer.call(produce(peer, topic, batch(producer=(4_100_001, 3, 0))))
    peer.call(produce(peer, topic, batch()))
    asked = [DescribeProducersTopic(topic, [0, 1, 2]), DescribeProducersTopic("nowhere", [0])]
    for version in peer.versions(DescribeProducersRequest):
        answer = peer.call(DescribeProducersRequest(asked), version)
        for each in answer.topics[0].partitions:
            each.active_producers.sort(key=lambda producer: producer.producer_id)
        peer.note_answer(f"producers v{version}", answer)
        strange = DescribeProducersRequest([DescribeProducersTopic("a/b", [0, -1])])
        peer.ask("invalid topic", strange, version)


def _look_up(peer: Peer, topic: str, what: str) -> None:
    for time in (*SPECIAL, *TIMES):
        peer.ask_all(f"{what} at {time}", _list(topic, time))
        peer.ask_all(f"{what} at {time}, committed", _list(topic, time, level=1), 2)


def _list(
    topic: str, time: int, *, partition: int = 0, replica: int = -1, level: int = 0
) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition, timestamp=time)
    return ListOffsetsRequest(replica, level, [ListOffsetsTopic(topic, [asked])], 5000)


def _end_of(
    topic: str, epoch: int, *, current: int = -1, partition: int = 0, replica: int = -1
) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition, current, epoch)
    return OffsetForLeaderEpochRequest(replica, [OffsetForLeaderTopic(topic, [asked])])


def _deletion(topic: str, offset: int, partition: int = 0) -> DeleteRecordsRequest:
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
    return DeleteRecordsRequest([wanted], 5000)


def _cut(peer: Peer, topic: str, offset: int) -> None:
    (result,) = peer.call(_deletion(topic, offset)).topics[0].partitions
    assert result.error_code == 0


SCENARIOS = (
    by_time,
    after_deletion,
    append_time,
    in_segments,
    refused,
    leader_epochs,
    records_deleted,
    producers,
)
