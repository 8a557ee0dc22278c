"""ListOffsets by time: answered at once, or after another process has looked into a batch."""

from __future__ import annotations

import asyncio

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.partition_kit import give_role, make_partition
from kits.request_kit import context
from kits.slicing import count_pauses, count_turns, finished
from moldau.base.errors import CorruptRecords
from moldau.base.executor import WorkerLost, WorkTooLong
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DescribeProducersRequest,
    DescribeProducersTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.records import record
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers import offsets
from moldau.server.handlers.offsets import MAX_TIMESTAMP, OffsetHandlers
from moldau.server.network.answer_room import AnswerRoom
from moldau.sim.disk_faults import Operation
from moldau.storage.topic_config import LogConfig

ME = 1
VERSION = 7


class HandExecutor:
    """Does work in place, after whatever a test wants to happen meanwhile; counts it."""

    def __init__(self):
        self.looks = 0
        self.meanwhile = lambda: None

    async def compute(self, lane, work, /, *args):
        self.looks += 1
        self.meanwhile()
        return work(*args)


class Kit:
    """A broker's partitions on a simulated disk, and questions about them."""

    def __init__(self, *names):
        self.disk = log_kit.Broker(config=LogConfig(segment_bytes=1000))
        self.partitions = Partitions()
        for number, name in enumerate(names, 1):
            self.add(name, number)
        self.executor = HandExecutor()
        self.failures = []
        self.handlers = OffsetHandlers(self.partitions, self.executor, self.failures.append)

    def add(self, name, number):
        key, topic_id = PartitionKey(name, 0), TopicId(bytes([number] * 16))
        log = self.disk.manager.open_or_create(key, topic_id, self.disk.config)
        self.partitions.add(make_partition(key, topic_id, log, Role(ME, 4, 0, (ME,), (ME,))))

    def __getitem__(self, name):
        return self.partitions.get(name, 0)

    def append(self, name, *batches):
        for batch in batches:
            log_kit.append(self[name].log, batch, 4)
        self[name].advance()

    def begin(self, *questions, replica=-1):
        """Ask by (topic, timestamp)."""
        topics = [
            ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=timestamp)])
            for name, timestamp in questions
        ]
        request = ListOffsetsRequest(replica, topics=topics)
        return finished(self.handlers.list_offsets(request, context(VERSION)))

    def ask(self, *questions):
        """Ask, wait, and return what became of each: an offset, or an error."""

        async def answered():
            response = self.begin(*questions)
            return response if isinstance(response, ListOffsetsResponse) else await response.start()

        response = asyncio.run(answered())
        answers = [topic.partitions[0] for topic in response.topics]
        return [ErrorCode(one.error_code) if one.error_code else one.offset for one in answers]


def packed(*stamps):
    builder = BatchBuilder(Codec.ZSTD)
    for stamp in stamps:
        builder.append(stamp, b"key", b"value")
    return builder.build()


def rotten():
    """Build a batch whose records no codec made."""
    batch = packed(100)
    return pack_batch(parse_header(batch), b"garbage" + batch[HEADER_SIZE:])


def test_questions_about_uncompressed_records_and_ends_are_answered_at_once():
    kit = Kit("t")
    kit.append("t", make_batch([b"a", b"b"], timestamps=[100, 300]))
    asked = [("t", 200), ("t", MAX_TIMESTAMP), ("t", -1), ("t", -2), ("nobody", 0)]
    responses = [kit.begin(one) for one in asked]
    assert all(isinstance(response, ListOffsetsResponse) for response in responses)
    answers = [response.topics[0].partitions[0] for response in responses]
    assert [answer.offset for answer in answers] == [1, 1, 2, 0, -1]
    assert answers[0].timestamp == 300
    assert answers[0].leader_epoch == 4
    assert kit.executor.looks == 0


def test_an_empty_log_starts_in_the_epoch_of_its_leader():
    response = Kit("t").begin(("t", -2))
    answer = response.topics[0].partitions[0]
    assert (answer.offset, answer.leader_epoch) == (0, 4)


@pytest.mark.parametrize(("timestamp", "version"), [(-5, 9), (-6, 11)])
def test_nothing_is_tiered_and_nothing_waits_to_be(timestamp, version):
    kit = Kit("t")
    kit.append("t", make_batch())
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
    request = ListOffsetsRequest(-1, topics=[asked])
    response = finished(kit.handlers.list_offsets(request, context(version)))
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, -1, -1)


@pytest.mark.parametrize("timestamp", [-3, -4, -7])
def test_a_time_that_version_0_does_not_have_is_refused(timestamp):
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
    request = ListOffsetsRequest(-1, topics=[asked])
    response = finished(Kit("t").handlers.list_offsets(request, context(0)))
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_compressed_records_are_looked_at_elsewhere():
    kit = Kit("t")
    kit.append("t", packed(100, 300, 200))
    assert kit.ask(("t", 200)) == [1]
    assert kit.ask(("t", MAX_TIMESTAMP)) == [1]
    assert kit.executor.looks == 2


def test_one_batch_is_looked_at_after_the_other_and_every_question_has_its_answer():
    kit = Kit("plain", "packed", "last", "other")
    kit.append("plain", make_batch(timestamps=100))
    kit.append("last", make_batch(timestamps=100))
    kit.append("packed", packed(50, 100))
    kit.append("other", packed(50, 60, 100))
    under_way = []
    kit.executor.meanwhile = lambda: under_way.append(kit.executor.looks)
    questions = [("plain", 100), ("packed", 100), ("nobody", 0), ("last", -1), ("other", 100)]
    assert kit.ask(*questions) == [0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1, 2]
    assert under_way == [1, 2]


def test_a_record_that_is_not_committed_yet_is_not_told():
    kit = Kit("t")
    kit.append("t", packed(100))
    log_kit.append(kit["t"].log, packed(200), 4)
    assert kit.ask(("t", 200)) == [-1]


@pytest.mark.parametrize(("replica", "end"), [(-1, 1), (-2, 1), (0, 2), (2, 2)])
def test_for_a_replica_the_log_ends_where_the_leaders_does(replica, end):
    kit = Kit("t")
    kit.append("t", packed(100))
    log_kit.append(kit["t"].log, packed(200), 4)
    response = kit.begin(("t", offsets.LATEST), replica=replica)
    assert response.topics[0].partitions[0].offset == end


def test_a_batch_that_cannot_be_read_is_its_partitions_error_alone():
    kit = Kit("bad", "good")
    kit.append("bad", rotten())
    kit.append("good", packed(100))
    assert kit.ask(("bad", 50), ("good", 50)) == [ErrorCode.CORRUPT_MESSAGE, 0]


def lose_worker():
    raise WorkerLost("gone")


def take_too_long():
    raise WorkTooLong("it does not end")


def test_a_batch_with_too_many_records_is_not_searched(monkeypatch):
    kit = Kit("t", "plain")
    kit.append("t", packed(100, 200, 300))
    monkeypatch.setattr(record, "RECORDS_PER_BATCH", 2)
    assert kit.ask(("t", 50)) == [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]


def test_a_search_that_takes_too_long_is_given_up():
    kit = Kit("t", "plain")
    kit.append("t", packed(100))
    kit.executor.meanwhile = take_too_long
    assert kit.ask(("t", 50)) == [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]


def test_a_request_that_nobody_waits_for_any_more_is_not_worked_on(monkeypatch):
    kit = Kit("t", "plain")
    kit.append("t", packed(100))
    monkeypatch.setattr(offsets, "REQUEST_WORK_S", -1)
    assert kit.ask(("t", 50), ("plain", -1)) == [ErrorCode.REQUEST_TIMED_OUT, 0]
    assert kit.executor.looks == 0


def test_a_worker_that_was_lost_is_a_reason_to_ask_again():
    kit = Kit("t", "plain")
    kit.append("t", packed(100))
    kit.append("plain", make_batch(timestamps=100))
    kit.executor.meanwhile = lose_worker
    assert kit.ask(("t", 50), ("plain", 50)) == [ErrorCode.REQUEST_TIMED_OUT, 0]


# What happens to the partition meanwhile


def test_a_topic_deleted_meanwhile_is_unknown():
    kit = Kit("t")
    kit.append("t", packed(100))
    kit.executor.meanwhile = lambda: kit.partitions.remove(PartitionKey("t", 0))
    assert kit.ask(("t", 50)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def move_to_next_epoch(kit):
    give_role(kit["t"], Role(ME, 5, 1, (ME,), (ME,)))


def serve_anew(kit):
    old = kit["t"]
    kit.partitions.add(make_partition(old.key, old.topic_id, old.log, old.role))


def lose_leadership(kit):
    give_role(kit["t"], Role(ME + 1, 5, 1, (ME, ME + 1), (ME + 1,)))


@pytest.mark.parametrize("change", [move_to_next_epoch, serve_anew, lose_leadership])
def test_a_partition_that_is_not_the_same_any_more_is_asked_for_again(change):
    kit = Kit("t")
    kit.append("t", packed(100))
    kit.executor.meanwhile = lambda: change(kit)
    assert kit.ask(("t", 50)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_log_that_went_offline_meanwhile_is_a_storage_error():
    kit = Kit("t")
    kit.append("t", packed(100))
    kit.executor.meanwhile = kit["t"].log.let_go
    assert kit.ask(("t", 50)) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_segments_removed_meanwhile_are_searched_no_further():
    kit = Kit("t")
    for stamp in (300, 200):
        kit.append("t", packed(stamp))
        kit["t"].log.roll()
    kit.append("t", packed(100))

    def remove_one():
        if kit.executor.looks == 1:
            kit["t"].log.delete_records_before(1)
            assert kit["t"].log.retain(0, 3) == 1

    kit.executor.meanwhile = remove_one
    assert kit.ask(("t", 50)) == [1]
    assert kit.executor.looks == 2


def test_a_disk_that_fails_in_a_later_step_is_a_storage_error():
    kit = Kit("t")
    lying = packed(100)
    header = parse_header(lying)._replace(max_timestamp=500)
    kit.append("t", pack_batch(header, lying[HEADER_SIZE:]), packed(500))
    kit.executor.meanwhile = lambda: kit.disk.sim().faults.fail(Operation.READ, "/data")
    assert kit.ask(("t", 500)) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_what_is_no_failure_of_a_partition_is_not_hidden():
    kit = Kit("t")
    kit.append("t", packed(100))

    def bug():
        raise ZeroDivisionError

    kit.executor.meanwhile = bug
    with pytest.raises(ZeroDivisionError):
        kit.ask(("t", 50))


def test_corruption_that_headers_show_is_told_at_once(monkeypatch):
    kit = Kit("t")
    kit.append("t", make_batch(timestamps=100))

    def failing(self, timestamp):
        raise CorruptRecords("a header of noise")
        yield

    monkeypatch.setattr(type(kit["t"].log), "search", failing)
    assert kit.ask(("t", 50)) == [ErrorCode.CORRUPT_MESSAGE]


CONTEXT = context(0)


def producers_request(*names):
    topics = [DescribeProducersTopic(name, [0] * 1000) for name in names * 10]
    return DescribeProducersRequest(topics)


def with_producers(count):
    kit = Kit("t", "u")
    for name in ("t", "u"):
        kit.append(name, *(make_batch(producer=(number, 0, 0)) for number in range(count)))
    return kit


class TestRepeats:
    """One partition, named thousands of times."""

    def test_offsets_are_refused_once_as_by_kafka(self):
        kit = Kit("t", "u")
        asked = [ListOffsetsPartition(0, timestamp=time) for time in (-1, -2) * 1000]
        topics = [ListOffsetsTopic("t", asked), ListOffsetsTopic("u", asked[:1])]
        request = ListOffsetsRequest(-1, topics=topics)
        first, second = finished(kit.handlers.list_offsets(request, context(VERSION))).topics
        assert [one.error_code for one in first.partitions] == [ErrorCode.INVALID_REQUEST]
        assert [one.error_code for one in second.partitions] == [ErrorCode.NONE]

    def test_producers_are_told_once(self):
        kit = with_producers(3)
        response = finished(kit.handlers.describe_producers(producers_request("t", "u"), CONTEXT))
        told = {
            topic.name: [len(one.active_producers) for one in topic.partitions]
            for topic in response.topics
        }
        assert told == {"t": [3], "u": [3]}

    def test_epochs_are_told_once(self):
        kit = Kit("t")
        kit.append("t", make_batch())
        asked = [OffsetForLeaderPartition(0, leader_epoch=epoch) for epoch in (1, 4)]
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("t", asked)] * 1000)
        (topic,) = finished(kit.handlers.offset_for_leader_epoch(request, CONTEXT)).topics
        assert [(one.leader_epoch, one.end_offset) for one in topic.partitions] == [(4, 1)]

    def test_records_are_deleted_up_to_where_it_is_named_last(self):
        kit = Kit("t")
        kit.append("t", make_batch([b"a"]), make_batch([b"b"]), make_batch([b"c"]))
        asked = [DeleteRecordsPartition(0, offset) for offset in (3, 1)]
        request = DeleteRecordsRequest([DeleteRecordsTopic("t", asked)] * 1000)
        (topic,) = finished(kit.handlers.delete_records(request, CONTEXT)).topics
        assert [(one.error_code, one.low_watermark) for one in topic.partitions] == [(0, 1)]
        assert kit["t"].log.log_start_offset == 1


class TestAmounts:
    """Work and answers that grow with what a request names, or with what a log holds."""

    def test_producers_may_be_paused_at_each_one(self):
        kit = with_producers(200)
        assert count_pauses(kit.handlers.describe_producers(producers_request("t"), CONTEXT)) > 200

    def test_producers_that_end_in_between_are_told_as_they_were(self):
        kit = with_producers(3)
        work = kit.handlers.describe_producers(producers_request("t"), CONTEXT)
        while next(work) is None and not kit["t"].log.producers.get(9):
            kit.append("t", make_batch(producer=(9, 0, 0)))
        (topic,) = finished(work).topics
        assert len(topic.partitions[0].active_producers) in {3, 4}

    def test_producers_that_do_not_fit_into_an_answer_are_refused(self, monkeypatch):
        monkeypatch.setattr("moldau.server.handlers.offsets.AnswerRoom", lambda: AnswerRoom(500))
        kit = with_producers(10)
        request = producers_request("t", "u")
        first, second = finished(kit.handlers.describe_producers(request, CONTEXT)).topics
        assert len(first.partitions[0].active_producers) == 10
        assert second.partitions[0].error_code == ErrorCode.POLICY_VIOLATION
        assert second.partitions[0].active_producers == []

    def test_questions_behind_a_search_take_turns(self):
        kit = Kit("t", *(f"t{number}" for number in range(50)))
        kit.append("t", packed(100, 300, 200))

        questions = [("t", 200), *((f"t{number}", -1) for number in range(50))]

        async def turns():
            return await count_turns(kit.begin(*questions).start())

        assert asyncio.run(turns()) >= 50
