"""What the answer to Produce tells beside the offset: times of duplicates, the start of the log."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kits import log_kit
from kits.log_kit import HandClock, make_batch
from kits.partition_kit import make_partition
from kits.request_kit import context
from kits.slicing import count_turns
from moldau.base.errors import ProtocolError
from moldau.base.executor import WorkerLost, WorkTooLong
from moldau.base.ids import PartitionKey, TopicId
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.records.builder import BatchBuilder
from moldau.replication.partitions import Partitions
from moldau.server.handlers import produce
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.network.dispatch import Droppable

ME = 1


class Kit:
    """One partition that starts at offset 2, and a producer."""

    def __init__(self, executor=None, **config):
        disk = log_kit.Broker()
        key, topic_id = PartitionKey("t", 0), TopicId(bytes(16))
        self.log = disk.manager.open_or_create(key, topic_id, disk.config)
        partition = make_partition(key, topic_id, self.log)
        self.partition, self.partitions = partition, Partitions()
        partitions = self.partitions
        partitions.add(partition)
        log_kit.append(self.log, make_batch([b"a", b"b", b"c"]))
        partition.advance()
        self.log.delete_records_before(2)
        self.log.config = replace(self.log.config, **config)
        self._handler = ProduceHandler(
            partitions, HandClock(), executor, None, Traffic(), RequestStats(), None, None
        )

    def send_all(self, batches):
        return self.begin(batches).responses[0].partition_responses

    def send(self, records):
        return self.send_all([records])[0]

    def begin(self, batches, acks=1, version=9):
        """Send batches for one partition in one request."""
        partitions = [PartitionProduceData(0, records) for records in batches]
        data = TopicProduceData("t", bytes(16), partition_data=partitions)
        return self._handler(ProduceRequest(None, acks, 100, [data]), context(version))


class HandExecutor:
    """Does work when a test lets it, or fails at it."""

    def __init__(self, error=None):
        self.free = asyncio.Event()
        self.error = error

    async def compute(self, lane, work, *arguments):
        await self.free.wait()
        if self.error is not None:
            raise self.error
        return work(*arguments)


def numbered(sequence, timestamp=1000):
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=sequence)
    builder.append(timestamp, b"k", b"v")
    return builder.build()


def test_a_duplicate_is_answered_with_the_place_and_time_it_had():
    kit = Kit()
    first = kit.send(numbered(0))
    again = kit.send(numbered(0))
    assert (first.base_offset, first.log_append_time_ms) == (3, -1)
    assert (again.base_offset, again.log_append_time_ms) == (3, 1000)
    assert kit.log.log_end_offset == 4


@pytest.mark.parametrize(
    ("sequences", "code"), [((0, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), ((-1,), None)]
)
def test_a_refused_producer_is_told_where_the_log_starts(sequences, code):
    kit = Kit()
    *accepted, refused = [kit.send(numbered(sequence)) for sequence in sequences]
    assert all(one.error_code == 0 for one in accepted)
    assert refused.error_code == (code or ErrorCode.INVALID_RECORD)
    assert (refused.base_offset, refused.log_start_offset) == (-1, 2)


def test_nothing_is_told_of_the_log_to_one_whose_bytes_were_damaged():
    damaged = bytearray(numbered(0))
    damaged[-1] ^= 1
    refused = Kit().send(bytes(damaged))
    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
    assert refused.log_start_offset == -1


@pytest.mark.parametrize("records", [None, b"", numbered(0) * 2, numbered(0)[:-1]])
def test_nothing_is_told_of_the_log_to_one_who_sent_no_single_batch(records):
    refused = Kit().send(records)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert refused.log_start_offset == -1


def test_a_refused_batch_names_its_bad_records():
    kit = Kit(cleanup_policy=frozenset({"compact"}))
    builder = BatchBuilder()
    for key in (b"k", None, b"k", None):
        builder.append(1000, key, b"v")
    refused = kit.send(builder.build())
    why = "Compacted topic cannot accept message without key in topic partition t-0"
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [(one.batch_index, one.batch_index_error_message) for one in refused.record_errors] == [
        (1, why),
        (3, why),
    ]
    assert refused.error_message.startswith("One or more records have been rejected due to 2 ")


def test_one_answer_names_no_more_bad_records_than_one_batch(monkeypatch):
    monkeypatch.setattr(produce, "NAMED_MAX", 3)
    kit = Kit(cleanup_policy=frozenset({"compact"}))
    keyless = BatchBuilder()
    for _ in range(2):
        keyless.append(1000, None, b"v")
    answers = kit.send_all([keyless.build()] * 3)
    assert [len(one.record_errors) for one in answers] == [2, 1, 0]


RECOMPRESSED = {"compression_type": "gzip"}


def error_after_work(executor):
    """Send a batch that needs work; return the error it is answered with."""

    async def scenario():
        executor.free.set()
        response = await Kit(executor, **RECOMPRESSED).begin([numbered(0)]).start()
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ErrorCode.NONE),
        (WorkerLost("gone"), ErrorCode.REQUEST_TIMED_OUT),
        (WorkTooLong("long"), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_becomes_of_the_worker_is_told(error, code):
    assert error_after_work(HandExecutor(error)) is code


def test_work_is_not_begun_when_nobody_waits_for_the_answer_any_more(monkeypatch):
    monkeypatch.setattr(produce, "REQUEST_WORK_S", -1)
    assert error_after_work(HandExecutor()) is ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(("acks", "droppable"), [(1, True), (-1, True), (0, False)])
def test_a_client_that_leaves_gives_up_its_batch_unless_it_wanted_no_answer(acks, droppable):
    async def scenario():
        executor = HandExecutor()
        kit = Kit(executor, **RECOMPRESSED)
        work = kit.begin([numbered(0)], acks)
        assert isinstance(work, Droppable) == droppable
        task = work.start() if droppable else asyncio.ensure_future(work)
        await asyncio.sleep(0)
        if droppable:
            task.cancel()
        executor.free.set()
        await asyncio.wait([task])
        return kit.log.log_end_offset - 3

    assert asyncio.run(scenario()) == (0 if droppable else 1)


class TestManyBatches:
    """Requests that are worked on in turns."""

    COUNT = 200

    def views(self):
        """Batches in a receive buffer, as they come from a connection."""
        batches = [make_batch([b"%d" % number]) for number in range(self.COUNT)]
        buffer = memoryview(bytearray(b"".join(batches)))
        position, views = 0, []
        for batch in batches:
            views.append(buffer[position : position + len(batch)])
            position += len(batch)
        return buffer, views

    def test_they_are_appended_some_in_each_turn_and_all_in_the_end(self):
        kit = Kit()
        buffer, views = self.views()

        async def work():
            later = kit.begin(views)
            assert 3 < kit.log.log_end_offset < self.COUNT
            buffer[:] = bytes(len(buffer))  # another request has come
            answer = asyncio.ensure_future(later)
            assert await count_turns(answer) > 3
            return answer.result()

        (topic,) = asyncio.run(work()).responses
        told = [(one.error_code, one.base_offset) for one in topic.partition_responses]
        assert told == [(0, 3 + number) for number in range(self.COUNT)]

    def test_a_topic_that_is_made_again_meanwhile_does_not_get_what_the_old_one_was_sent(self):
        kit = Kit()
        _, views = self.views()

        async def work():
            later = kit.begin(views, version=13)
            appended = kit.log.log_end_offset
            new = make_partition(kit.partition.key, TopicId(b"new" * 5 + b"!"), kit.log)
            kit.partitions.add(new)
            (topic,) = (await later).responses
            assert kit.log.log_end_offset == appended
            assert topic.partition_responses[-1].error_code == ErrorCode.UNKNOWN_TOPIC_ID

        asyncio.run(work())

    def test_of_large_ones_few_are_appended_in_a_turn(self):
        kit = Kit()
        batches = [make_batch([bytes(900_000)]) for _ in range(5)]

        async def work():
            later = kit.begin(batches)
            assert kit.log.log_end_offset == 5
            await later

        asyncio.run(work())
        assert kit.log.log_end_offset == 8

    def test_without_acknowledgement_a_refused_one_ends_the_connection(self):
        kit = Kit()
        _, views = self.views()

        async def work():
            return await kit.begin([*views, b"garbage"], acks=0)

        with pytest.raises(ProtocolError):
            asyncio.run(work())
        assert kit.log.log_end_offset == 3 + self.COUNT
