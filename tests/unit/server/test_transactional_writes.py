"""Which transactional batches a broker appends: those whose transaction somebody vouches for."""

from __future__ import annotations

import asyncio

import pytest

from kits import log_kit
from kits.log_kit import HandClock, make_batch, marker
from kits.partition_kit import give_role, make_partition
from kits.request_kit import context
from moldau.base.ids import PartitionKey, TopicId
from moldau.coordination.outcome import ProducerIdentity
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.records.compression import Codec
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC
from moldau.server.transactions.writes import TransactionalWrites
from moldau.storage.topic_config import LogConfig

ME = 1
OLD, KNOWS_ABORTABLE, ADDS = 9, 11, 12
TOPIC_IDS_FROM = 13
NONE = ErrorCode.NONE


class Coordinator:
    """Stands for the coordinator of a transaction, as the verifier reaches it."""

    def __init__(self):
        self.code = NONE
        self.codes = {}
        self.waits = False
        self.asked = []
        self.answers = []

    def verify(self, transactional_id, producer, partitions, *, add):
        self.asked.append((transactional_id, producer, partitions, add))
        verdicts = {key: self.codes.get(producer, self.code) for key in partitions}
        if not self.waits:
            return verdicts
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def answer(self, code=NONE):
        (_, _, partitions, _), future = self.asked[-1], self.answers[-1]
        future.set_result(dict.fromkeys(partitions, code))


class Worker:
    """Works on records when a test lets it."""

    def __init__(self):
        self.free = asyncio.Event()

    async def compute(self, lane, work, *arguments):
        await self.free.wait()
        return work(*arguments)


class Kit:
    """Two partitions, and one of an internal topic."""

    def __init__(self, *, verification=True, config=None, internal_writable=False):
        self.disk = log_kit.Broker(config=config or LogConfig())
        self.coordinator = Coordinator()
        self.partitions = Partitions()
        self.worker = Worker()
        for topic, index in (("t", 0), ("t", 1), (OFFSETS_TOPIC, 0)):
            key, topic_id = PartitionKey(topic, index), TopicId(topic[-1].encode() * 16)
            log = self.disk.manager.open_or_create(key, topic_id, self.disk.config)
            self.partitions.add(make_partition(key, topic_id, log))
        self._handler = ProduceHandler(
            self.partitions, HandClock(), self.worker, None, Traffic(), RequestStats(), None,
            TransactionalWrites(self.partitions, self.coordinator, lambda: verification),
            internal_writable=internal_writable,
        )  # fmt: skip

    def log(self, index=0):
        return self.partitions.get("t", index).log

    def ask(self, *parts, version=OLD, transactional_id="id", topic="t", client="client"):
        """Send batches to partitions; return what the handler returns."""
        topic_id = b"t" * 16 if version >= TOPIC_IDS_FROM else bytes(16)
        data = [PartitionProduceData(index, records) for index, records in parts]
        request = ProduceRequest(
            transactional_id, -1, 100, [TopicProduceData(topic, topic_id, partition_data=data)]
        )
        return self._handler(request, context(version, client))

    def send(self, *parts, **settings):
        """Send batches and return the codes that are answered at once."""
        return codes_of(self.ask(*parts, **settings))

    def end(self, producer_id=7, epoch=0, index=0):
        """Write a marker as an older coordinator does."""
        batch, header = marker(producer_id, epoch, aborted=False)
        self.log(index).append_marker(batch, header, 0, 0)


def codes_of(response):
    return [ErrorCode(one.error_code) for one in response.responses[0].partition_responses]


def batch(sequence=0, producer_id=7, epoch=0):
    return make_batch([b"v"], producer=(producer_id, epoch, sequence), transactional=True)


def only(partition=0):
    return (PartitionKey("t", partition),)


def test_the_coordinator_is_asked_once_for_all_new_partitions_of_a_request():
    kit = Kit()
    assert kit.send((0, batch()), (1, batch())) == [NONE, NONE]
    assert kit.coordinator.asked == [("id", ProducerIdentity(7, 0), (*only(0), *only(1)), False)]
    assert (kit.log(0).log_end_offset, kit.log(1).log_end_offset) == (1, 1)


def test_a_partition_with_records_of_the_transaction_takes_more_without_asking():
    kit = Kit()
    kit.send((0, batch(0)))
    kit.coordinator.code = ErrorCode.TRANSACTION_ABORTABLE
    assert kit.send((0, batch(1))) == [NONE]
    assert len(kit.coordinator.asked) == 1


def test_after_a_marker_the_coordinator_is_asked_again():
    kit = Kit()
    kit.send((0, batch(0)))
    kit.end()
    kit.send((0, batch(1)))
    assert len(kit.coordinator.asked) == 2


def test_another_epoch_is_another_transaction():
    kit = Kit()
    kit.send((0, batch(epoch=0)))
    kit.coordinator.code = ErrorCode.PRODUCER_FENCED
    assert kit.send((0, batch(epoch=1))) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert kit.log().log_end_offset == 1


@pytest.mark.parametrize(
    ("version", "add"),
    [(OLD, False), (KNOWS_ABORTABLE, False), (ADDS, True), (TOPIC_IDS_FROM, True)],
)
def test_the_broker_adds_partitions_for_clients_that_rely_on_it(version, add):
    kit = Kit()
    kit.send((0, batch()), version=version)
    assert kit.coordinator.asked[0][-1] is add


@pytest.mark.parametrize(
    ("version", "verdict", "told"),
    [
        (OLD, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (KNOWS_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (OLD, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ADDS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ADDS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ADDS, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (OLD, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(version, verdict, told):
    kit = Kit()
    kit.coordinator.code = verdict
    assert kit.send((0, batch()), version=version) == [told]
    assert kit.log().log_end_offset == 0


def test_one_producers_permit_is_not_anothers():
    """A request may name a partition twice, for a producer that has it and for one that has not."""
    kit = Kit()
    kit.coordinator.codes = {ProducerIdentity(8, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    stranger, owner = (0, batch(producer_id=8)), (0, batch(producer_id=7))
    assert kit.send(stranger, owner) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING, NONE]
    assert kit.log().log_end_offset == 1


def test_without_verification_only_what_must_be_added_is_asked_for():
    kit = Kit(verification=False)
    assert kit.send((0, batch())) == [NONE]
    assert kit.coordinator.asked == []
    kit.send((1, batch()), version=ADDS)
    assert len(kit.coordinator.asked) == 1


def test_an_internal_topic_is_neither_written_to_nor_taken_into_the_transaction():
    kit = Kit()
    refused = [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert kit.send((0, batch()), topic=OFFSETS_TOPIC, version=ADDS) == refused
    assert kit.coordinator.asked == []


def test_not_even_a_tool_writes_to_an_internal_topic_in_a_transaction():
    kit = Kit(internal_writable=True)
    answer = kit.send((0, batch()), topic=OFFSETS_TOPIC, client="__admin_client")
    assert answer == [ErrorCode.INVALID_TXN_STATE]


@pytest.mark.parametrize(
    ("client", "writable", "told"),
    [
        ("client", False, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__admin_client", False, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("client", True, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__admin_client", True, NONE),
    ],
)
def test_a_client_writes_to_an_internal_topic_only_where_the_setting_allows_it(
    client, writable, told
):
    kit = Kit(internal_writable=writable)
    assert kit.send((0, make_batch()), topic=OFFSETS_TOPIC, client=client) == [told]
    assert kit.partitions.get(OFFSETS_TOPIC, 0).log.log_end_offset == (told is NONE)


@pytest.mark.parametrize("transactional_id", [None, ""])
def test_a_transactional_batch_needs_a_transactional_id(transactional_id):
    kit = Kit()
    refused = [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert kit.send((0, batch()), (1, make_batch()), transactional_id=transactional_id) == refused
    assert (kit.log(0).log_end_offset, kit.log(1).log_end_offset) == (0, 0)


def test_plain_batches_beside_transactional_ones_need_nobody():
    kit = Kit()
    kit.coordinator.code = ErrorCode.TRANSACTION_ABORTABLE
    answer = kit.send((0, make_batch()), (1, batch()), version=KNOWS_ABORTABLE)
    assert answer == [NONE, ErrorCode.TRANSACTION_ABORTABLE]


def test_what_is_no_batch_and_what_is_not_here_is_refused_as_ever():
    kit = Kit()
    damaged = bytearray(batch())
    damaged[11] = 0
    answer = kit.send((0, bytes(damaged)), (9, batch()))
    assert answer == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert kit.coordinator.asked == []


class TestWaiting:
    """The coordinator takes its time, and the log goes on meanwhile."""

    def run(self, steps):
        asyncio.run(steps())

    def test_the_batch_is_kept_until_the_answer_is_there(self):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            buffer = bytearray(batch())
            produced = asyncio.ensure_future(kit.ask((0, memoryview(buffer))))
            buffer[:] = bytes(len(buffer))
            kit.coordinator.answer()
            assert codes_of(await produced) == [NONE]

        self.run(steps)

    def test_a_permit_is_spent_by_a_marker_of_its_producer(self):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch()))
            kit.end()
            kit.coordinator.answer()
            assert codes_of(await produced) == [ErrorCode.NOT_ENOUGH_REPLICAS]
            assert kit.log().log_end_offset == 1

        self.run(steps)

    def test_a_permit_is_not_spent_by_markers_of_others(self):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch()))
            kit.end(producer_id=8)
            kit.coordinator.answer()
            assert codes_of(await produced) == [NONE]

        self.run(steps)

    def test_where_epochs_tell_transactions_apart_the_marker_of_the_last_one_is_awaited(self):
        """It carries the epoch of the next, which the client may use before it is written."""

        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch(epoch=4)), version=ADDS)
            kit.end(epoch=4)
            kit.coordinator.answer()
            assert codes_of(await produced) == [NONE]

        self.run(steps)

    def test_where_epochs_tell_transactions_apart_a_later_marker_fences(self):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch(epoch=4)), version=ADDS)
            kit.end(epoch=5)
            kit.coordinator.answer()
            assert codes_of(await produced) == [ErrorCode.INVALID_PRODUCER_EPOCH]

        self.run(steps)

    def test_a_permit_does_not_outlive_its_log(self):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch()))
            key, topic_id = PartitionKey("t", 0), kit.partitions.get("t", 0).topic_id
            kit.partitions.remove(key)
            other = log_kit.Broker().manager.open_or_create(key, topic_id, LogConfig())
            kit.partitions.add(make_partition(key, topic_id, other))
            kit.coordinator.answer()
            assert codes_of(await produced) == [ErrorCode.NOT_ENOUGH_REPLICAS]

        self.run(steps)

    @pytest.mark.parametrize("version", [OLD, ADDS])
    def test_a_permit_does_not_outlive_the_leadership(self, version):
        async def steps():
            kit = Kit()
            kit.coordinator.waits = True
            produced = kit.ask((0, batch()), version=version)
            partition = kit.partitions.get("t", 0)
            give_role(partition, Role(ME + 1, 1, 1, (ME, ME + 1), (ME, ME + 1)))
            give_role(partition, Role(ME, 2, 2, (ME,), (ME,)))
            kit.coordinator.answer()
            assert codes_of(await produced) == [ErrorCode.NOT_ENOUGH_REPLICAS]

        self.run(steps)

    def test_a_marker_that_comes_while_records_are_worked_on_spends_the_permit(self):
        async def steps():
            kit = Kit(config=LogConfig(compression_type=Codec.ZSTD.label))
            produced = asyncio.ensure_future(kit.ask((0, batch())))
            await asyncio.sleep(0)
            kit.end()
            kit.worker.free.set()
            assert codes_of(await produced) == [ErrorCode.NOT_ENOUGH_REPLICAS]

        self.run(steps)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [(OLD, ErrorCode.NOT_COORDINATOR), (ADDS, ErrorCode.CONCURRENT_TRANSACTIONS)],
)
def test_batches_behind_one_that_was_turned_away_wait_for_it(version, verdict):
    kit = Kit()
    kit.coordinator.code = verdict
    kit.send((0, batch(0)), version=version)
    kit.coordinator.code = NONE
    refused = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert kit.send((0, batch(1)), version=version) == refused
    assert kit.send((0, batch(0)), version=version) == [NONE]
    assert kit.send((0, batch(1)), version=version) == [NONE]


def test_nobody_waits_for_a_batch_that_was_refused_for_good():
    kit = Kit()
    kit.coordinator.code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    kit.send((0, batch(0)))
    kit.coordinator.code = NONE
    assert kit.send((0, batch(1))) == [NONE]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING.text),
    ],
)
def test_a_producer_that_the_coordinator_refuses_is_told_nothing_of_the_log(code, message):
    kit = Kit()
    kit.coordinator.code = code
    (refused,) = kit.ask((0, batch())).responses[0].partition_responses
    assert (refused.error_code, refused.error_message) == (code, message)
    assert (refused.base_offset, refused.log_append_time_ms) == (-1, -1)
    assert refused.log_start_offset == -1
