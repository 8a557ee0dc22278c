"""ListOffsets by time: answered at once, or after another process has looked into a batch."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from moldau.base.errors import CorruptRecords
from moldau.base.executor import WorkerLost
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.offsets import MAX_TIMESTAMP, OffsetHandlers
from moldau.sim.disk_faults import Operation
from moldau.storage.topic_config import LogConfig

ME = 1
VERSION = 7


class HandExecutor:
    """Does work in place, after whatever a test wants to happen meanwhile; counts it."""

    def __init__(self):
        self.looks = 0
        self.meanwhile = lambda: None

    async def compute(self, work, /, *args):
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
        self.handlers = OffsetHandlers(self.partitions, ME, self.executor, self.failures.append)

    def add(self, name, number):
        key, topic_id = PartitionKey(name, 0), TopicId(bytes([number] * 16))
        log = self.disk.manager.open_or_create(key, topic_id, self.disk.config)
        self.partitions.add(Partition(key, topic_id, log, Role(ME, 4, 0, (ME,), (ME,))))

    def __getitem__(self, name):
        return self.partitions.get(name, 0)

    def append(self, name, *batches):
        for batch in batches:
            log_kit.append(self[name].log, batch, 4)
        self[name].advance()

    def begin(self, *questions):
        """Ask by (topic, timestamp)."""
        topics = [
            ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=timestamp)])
            for name, timestamp in questions
        ]
        request = ListOffsetsRequest(-1, topics=topics)
        return self.handlers.list_offsets(request, SimpleNamespace(version=VERSION))

    def ask(self, *questions):
        """Ask, wait, and return what became of each: an offset, or an error."""
        response = self.begin(*questions)
        if not isinstance(response, ListOffsetsResponse):
            response = asyncio.run(response)
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
    response = kit.begin(("t", 200), ("t", MAX_TIMESTAMP), ("t", -1), ("t", -2), ("nobody", 0))
    assert isinstance(response, ListOffsetsResponse)
    answers = [topic.partitions[0] for topic in response.topics]
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
    response = kit.handlers.list_offsets(request, SimpleNamespace(version=version))
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.offset, answer.leader_epoch) == (0, -1, -1)


@pytest.mark.parametrize("timestamp", [-3, -4, -7])
def test_a_time_that_version_0_does_not_have_is_refused(timestamp):
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=timestamp)])
    request = ListOffsetsRequest(-1, topics=[asked])
    response = Kit("t").handlers.list_offsets(request, SimpleNamespace(version=0))
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_compressed_records_are_looked_at_elsewhere():
    kit = Kit("t")
    kit.append("t", packed(100, 300, 200))
    assert kit.ask(("t", 200)) == [1]
    assert kit.ask(("t", MAX_TIMESTAMP)) == [1]
    assert kit.executor.looks == 2


def test_one_batch_is_looked_at_after_the_other_and_every_question_has_its_answer():
    kit = Kit("plain", "packed", "other")
    kit.append("plain", make_batch(timestamps=100))
    kit.append("packed", packed(50, 100))
    kit.append("other", packed(50, 60, 100))
    under_way = []
    kit.executor.meanwhile = lambda: under_way.append(kit.executor.looks)
    questions = [("plain", 100), ("packed", 100), ("nobody", 0), ("plain", -1), ("other", 100)]
    assert kit.ask(*questions) == [0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1, 2]
    assert under_way == [1, 2]


def test_a_record_that_is_not_committed_yet_is_not_told():
    kit = Kit("t")
    kit.append("t", packed(100))
    log_kit.append(kit["t"].log, packed(200), 4)
    assert kit.ask(("t", 200)) == [-1]


def test_a_batch_that_cannot_be_read_is_its_partitions_error_alone():
    kit = Kit("bad", "good")
    kit.append("bad", rotten())
    kit.append("good", packed(100))
    assert kit.ask(("bad", 50), ("good", 50)) == [ErrorCode.CORRUPT_MESSAGE, 0]


def lose_worker():
    raise WorkerLost("gone")


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
    kit["t"].role = Role(ME, 5, 1, (ME,), (ME,))


def serve_anew(kit):
    old = kit["t"]
    kit.partitions.add(Partition(old.key, old.topic_id, old.log, old.role))


def lose_leadership(kit):
    kit["t"].role = Role(ME + 1, 5, 1, (ME, ME + 1), (ME + 1,))


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
