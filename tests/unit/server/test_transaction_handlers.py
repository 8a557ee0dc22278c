"""Transactional producers from their requests to the markers in their partitions."""

from __future__ import annotations

import asyncio
import inspect
import logging
from types import SimpleNamespace

import pytest

import log_kit
from coordinator_kit import MemoryLog
from moldau.base.errors import InvariantViolated, StorageError
from moldau.base.ids import PartitionKey, TopicId
from moldau.cluster.store import StoreFailed
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.effects import MarkersLate
from moldau.coordination.transactions.records import transaction_record
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.sweeping import Sweep, TransactionSettings
from moldau.coordination.transactions.transaction import LAST_CLIENT_EPOCH, Transaction
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.records.batch import iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import end_transaction_marker
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.transaction_admin import TransactionAdminHandlers
from moldau.server.handlers.transactions import TransactionHandlers
from moldau.server.markers import MarkerSender, MarkerWriter
from moldau.server.produce_verdicts import produce_error
from moldau.server.transaction_verification import (
    RetrySettings,
    TransactionVerifier,
)
from moldau.storage.flushing import Flusher
from moldau.storage.topic_config import LogConfig

ME, OTHER = 1, 2
ORDERS = PartitionKey("orders", 0)
OFFSETS = PartitionKey("__consumer_offsets", 3)
TOPIC_ID = TopicId(bytes([7] * 16))
NONE = ErrorCode.NONE


class HandIds:
    """Gives producer ids out, unless the store has failed."""

    def __init__(self):
        self.next = 4000
        self.failed = False

    async def take(self):
        if self.failed:
            raise StoreFailed("no disk")
        self.next += 1
        return self.next - 1


class InPlace:
    """Does work at once."""

    async def run(self, work, /, *args):
        return work(*args)


class Kit:
    """One coordinator, its partitions on a simulated disk, and everything between."""

    def __init__(self, *, version=2, **config):
        self.disk = log_kit.Broker(config=LogConfig(**config))
        self.partitions = Partitions()
        self.metadata = {}
        self.failures = []
        self.offsets_ended = []
        self.ids = HandIds()
        self.writer = MarkerWriter(
            self.partitions,
            ME,
            self.disk.clock,
            Flusher(InPlace()),
            lambda index, producer, *, committed: self.offsets_ended.append(
                (index, producer, committed)
            ),
            self.failures.append,
        )
        self.sender = MarkerSender(self.writer, self.image, self.tell)
        settings = TransactionSettings(
            max_timeout_ms=900_000,
            abort_interval_ms=10_000,
            expiration_ms=604_800_000,
            expiration_interval_ms=3_600_000,
            transaction_version=lambda: version,
        )
        self.log = MemoryLog(leader_epoch=9)
        self.runtime = Runtime(
            "__transaction_state",
            1,
            lambda _index, epoch: TransactionShard(epoch, settings),
            self.disk.clock,
            perform=self.sender,
        )
        self.producers = TransactionHandlers(self.runtime, self.ids, self.image, lambda _: 3)
        self.admin = TransactionAdminHandlers(self.runtime, self.writer, self.disk.clock)
        self.verifier = TransactionVerifier(self.runtime, self.disk.clock, RetrySettings(1, 50))
        self.partition(ORDERS)
        self.partition(OFFSETS)

    def tell(self, name, handler):
        self.runtime.tell(name, handler)

    def image(self):
        return SimpleNamespace(partition=self.metadata.get)

    def partition(self, key, *, leader=ME):
        log = self.disk.manager.open_or_create(key, TOPIC_ID, self.disk.config)
        found = Partition(key, TOPIC_ID, log, Role(leader, 0, 0, (ME,), (ME,)))
        self.partitions.add(found)
        self.metadata[key] = found
        return found

    def lead(self):
        self.runtime.lead(self.log)
        return self

    def markers(self, key=ORDERS):
        """The markers in a partition: committed, producer id, epoch, coordinator epoch."""
        log = self.partitions.get(*key).log
        content = log_kit.region_bytes(log.read(0, 100_000, log.log_end_offset))
        found = []
        for position, size, *_ in iter_batches(content):
            batch = content[position : position + size]
            header = parse_header(batch)
            if header.control:
                aborted, coordinator_epoch = end_transaction_marker(batch)
                producer = header.producer_id, header.producer_epoch
                found.append((not aborted, *producer, coordinator_epoch))
        return found

    async def init(self, version=5, name="copier", **fields):
        request = InitProducerIdRequest(name, 60_000, **fields)
        return await self.producers.init_producer_id(request, at(version))

    async def add(self, producer, *keys, version=3, name="copier"):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics(*keys),
        )
        response = await there(self.producers.add_partitions_to_txn(request, at(version)))
        return codes(response.results_by_topic_v3_and_below)

    async def end(self, producer, *, committed=True, version=3, name="copier"):
        request = EndTxnRequest(name, *producer, committed)
        response = await there(self.producers.end_txn(request, at(version)))
        return response.error_code, response.producer_id, response.producer_epoch

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def until(self, state):
        """Return once the transaction is in this state; markers are tried again without a rest."""
        for _ in range(1000):
            if (await self.state()).transaction_state == state:
                return
            await asyncio.sleep(0)
        pytest.fail(f"never {state}")

    async def state(self, name="copier"):
        request = DescribeTransactionsRequest([name])
        (described,) = (
            await there(self.admin.describe_transactions(request, at(0)))
        ).transaction_states
        return described


def topics(*keys):
    return [AddPartitionsToTxnTopic(key.topic, [key.partition]) for key in keys]


def codes(results):
    return {
        (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    }


def at(version):
    return SimpleNamespace(version=version)


async def there(answer):
    return await answer if inspect.isawaitable(answer) else answer


def run(work):
    asyncio.run(work())


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    monkeypatch.setattr("moldau.coordination.transactions.marking.RETRY_FIRST_S", 0.0)


# Producers


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_of_the_older_protocol_from_its_beginning_to_its_markers(committed):
    async def work():
        kit = Kit().lead()
        begun = await kit.init()
        producer = (begun.producer_id, begun.producer_epoch)
        assert (begun.error_code, producer) == (NONE, (4000, 0))
        assert await kit.add(producer, ORDERS) == {ORDERS: NONE}
        request = AddOffsetsToTxnRequest("copier", *producer, "group")
        offsets = await there(kit.producers.add_offsets_to_txn(request, at(3)))
        assert offsets.error_code == NONE
        assert (await kit.state()).transaction_state == "Ongoing"
        assert (await kit.end(producer, committed=committed))[0] == NONE
        await kit.settle()
        assert kit.markers(ORDERS) == kit.markers(OFFSETS) == [(committed, 4000, 0, 9)]
        assert kit.offsets_ended == [(3, ProducerIdentity(4000, 0), committed)]
        assert kit.partitions.get(*ORDERS).high_watermark == 1
        state = await kit.state()
        assert state.transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
        await kit.sender.close()

    run(work)


def test_with_epochs_per_transaction_the_end_tells_who_to_go_on_as():
    async def work():
        kit = Kit().lead()
        await kit.init()
        producer = ProducerIdentity(4000, 0)
        verdicts = await there(kit.verifier.verify("copier", producer, [ORDERS], add=True))
        assert verdicts == {ORDERS: NONE}
        assert await kit.end(producer, version=5) == (NONE, 4000, 1)
        await kit.settle()
        assert kit.markers() == [(True, 4000, 1, 9)]
        assert await kit.end(producer, version=5) == (NONE, 4000, 1)

    run(work)


def test_a_producer_without_a_transactional_id_gets_a_producer_id_of_its_own():
    async def work():
        kit = Kit()
        given = await kit.init(name=None)
        assert (given.error_code, given.producer_id, given.producer_epoch) == (NONE, 4000, 0)
        kit.ids.failed = True
        assert (await kit.init(name=None)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(work)


def test_requests_that_contradict_themselves_are_refused():
    async def work():
        kit = Kit().lead()
        for fields in ({"name": ""}, {"producer_id": 7}, {"producer_epoch": 7}):
            refused = await kit.init(**fields)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
        invalid = ErrorCode.INVALID_REQUEST
        assert await kit.add((1, 1), ORDERS, name="") == {ORDERS: invalid}
        assert (await kit.end((1, 1), name=""))[0] == invalid
        request = AddOffsetsToTxnRequest("", 1, 1, "group")
        response = await there(kit.producers.add_offsets_to_txn(request, at(3)))
        assert response.error_code == invalid
        assert (await kit.state("")).error_code == invalid

    run(work)


def test_a_broker_that_does_not_coordinate_says_so():
    async def work():
        kit = Kit()
        elsewhere = ErrorCode.NOT_COORDINATOR
        assert (await kit.init()).error_code == elsewhere
        assert await kit.add((1, 1), ORDERS) == {ORDERS: elsewhere}
        assert (await kit.end((1, 1)))[0] == elsewhere
        assert (await kit.state()).error_code == elsewhere
        producer = ProducerIdentity(1, 1)
        for add in (False, True):
            verdicts = await there(kit.verifier.verify("copier", producer, [ORDERS], add=add))
            assert verdicts == {ORDERS: elsewhere}
        assert kit.ids.next == 4000

    run(work)


def test_old_clients_are_told_of_fencing_in_words_they_know():
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.init()
        fenced, old = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        named = {"producer_id": 4000, "producer_epoch": 0}
        assert (await kit.init(3, **named)).error_code == old
        assert (await kit.init(4, **named)).error_code == fenced
        for version, code in ((1, old), (2, fenced)):
            assert await kit.add((4000, 0), ORDERS, version=version) == {ORDERS: code}
            assert (await kit.end((4000, 0), version=version))[0] == code
            request = AddOffsetsToTxnRequest("copier", 4000, 0, "group")
            response = await there(kit.producers.add_offsets_to_txn(request, at(version)))
            assert response.error_code == code

    run(work)


def test_one_partition_that_cannot_be_added_keeps_the_others_out():
    async def work():
        kit = Kit().lead()
        await kit.init()
        nowhere, not_attempted = PartitionKey("nowhere", 1), ErrorCode.OPERATION_NOT_ATTEMPTED
        assert await kit.add((4000, 0), ORDERS, nowhere) == {
            ORDERS: not_attempted,
            nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await kit.add((4000, 0), ORDERS, OFFSETS) == {
            ORDERS: not_attempted,
            OFFSETS: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        assert (await kit.state()).transaction_state == "Empty"

    run(work)


def test_brokers_add_and_verify_partitions_of_many_transactions():
    async def work():
        kit = Kit().lead()
        await kit.init(name="one")
        await kit.init(name="two")
        asked = [
            AddPartitionsToTxnTransaction("one", 4000, 0, False, topics(ORDERS, OFFSETS)),
            AddPartitionsToTxnTransaction("two", 4001, 0, True, topics(ORDERS)),
            AddPartitionsToTxnTransaction("three", 1, 0, False, topics(ORDERS)),
        ]
        request = AddPartitionsToTxnRequest(asked)
        response = await there(kit.producers.add_partitions_to_txn(request, at(4)))
        assert {
            one.transactional_id: codes(one.topic_results)
            for one in response.results_by_transaction
        } == {
            "one": {ORDERS: NONE, OFFSETS: NONE},
            "two": {ORDERS: ErrorCode.TRANSACTION_ABORTABLE},
            "three": {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        }

    run(work)


def test_a_producer_id_is_fetched_where_epochs_are_used_up_and_only_there():
    async def work():
        kit = Kit().lead()
        await kit.init()
        for _ in range(3):
            await kit.init()
        assert kit.ids.next == 4001
        worn = Transaction(
            transactional_id="copier",
            producer_id=4000,
            producer_epoch=LAST_CLIENT_EPOCH,
            timeout_ms=60_000,
            last_update_ms=0,
        )
        builder = BatchBuilder()
        builder.append(0, *transaction_record(worn, 2))
        kit.log = MemoryLog(leader_epoch=10, batches=[builder.build()])
        kit.lead()
        await kit.settle()
        await there(
            kit.verifier.verify_one(
                "copier", ProducerIdentity(4000, LAST_CLIENT_EPOCH), ORDERS, add=True
            )
        )
        kit.ids.failed = True
        last = (4000, LAST_CLIENT_EPOCH)
        assert (await kit.end(last, version=5))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        kit.ids.failed = False
        assert await kit.end(last, version=5) == (NONE, 4001, 0)

    run(work)


def test_without_a_producer_id_to_give_a_transactional_client_tries_again():
    async def work():
        kit = Kit().lead()
        kit.ids.failed = True
        assert (await kit.init()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(work)


def test_an_end_is_answered_when_it_is_committed():
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.add((4000, 0), ORDERS)
        kit.log.commits = False
        ended = asyncio.ensure_future(kit.end((4000, 0)))
        await kit.settle()
        assert not ended.done()
        assert kit.markers() == []
        kit.log.commit()
        assert (await ended)[0] == NONE

    run(work)


# Verification


def test_verifying_waits_for_the_last_transaction_to_end_and_gives_up_in_time():
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.add((4000, 0), ORDERS)
        del kit.metadata[ORDERS]
        kit.metadata[ORDERS] = kit.partitions.remove(ORDERS)
        await kit.end((4000, 0), version=5)
        await kit.settle()
        producer = ProducerIdentity(4000, 1)
        waiting = kit.verifier.verify("copier", producer, [OFFSETS], add=True)
        kit.disk.clock.now_ms += 100
        assert await waiting == {OFFSETS: ErrorCode.CONCURRENT_TRANSACTIONS}
        waiting = kit.verifier.verify_one("copier", producer, OFFSETS, add=True)
        kit.partition(ORDERS)
        assert await waiting is NONE
        assert await there(kit.verifier.verify_one("copier", producer, OFFSETS, add=False)) is NONE
        later = kit.verifier.verify_one("copier", producer, ORDERS, add=False)
        assert later is ErrorCode.TRANSACTION_ABORTABLE

    run(work)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (NONE, {10: NONE, 12: NONE}),
        (ErrorCode.PRODUCER_FENCED, dict.fromkeys((3, 12), ErrorCode.INVALID_PRODUCER_EPOCH)),
        (
            ErrorCode.TRANSACTION_ABORTABLE,
            {10: ErrorCode.INVALID_TXN_STATE, 11: ErrorCode.TRANSACTION_ABORTABLE},
        ),
        (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            {11: ErrorCode.NOT_ENOUGH_REPLICAS, 12: ErrorCode.CONCURRENT_TRANSACTIONS},
        ),
        (ErrorCode.NOT_COORDINATOR, dict.fromkeys((3, 13), ErrorCode.NOT_ENOUGH_REPLICAS)),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            dict.fromkeys((3, 13), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ),
    ],
)
def test_a_verdict_is_told_in_words_that_a_producer_knows(code, told):
    assert {version: produce_error(code, version) for version in told} == told


# Markers


def test_a_partition_that_is_away_is_waited_for_and_a_deleted_one_is_not():
    async def work():
        kit = Kit().lead()
        gone = PartitionKey("gone", 0)
        kit.partition(gone)
        await kit.init()
        await kit.add((4000, 0), ORDERS, gone)
        kit.partitions.remove(ORDERS)
        kit.partitions.remove(gone)
        del kit.metadata[gone]
        await kit.end((4000, 0))
        await kit.settle()
        state = await kit.state()
        assert state.transaction_state == "PrepareCommit"
        assert [(one.topic, one.partitions) for one in state.topics] == [("orders", [0])]
        kit.partition(ORDERS)
        await kit.until("CompleteCommit")
        assert kit.markers() == [(True, 4000, 0, 9)]

    run(work)


def test_a_partition_that_has_seen_a_newer_epoch_is_told_of_in_the_log(caplog):
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.add((4000, 0), ORDERS)
        log_kit.append(
            kit.partitions.get(*ORDERS).log,
            log_kit.make_batch([b"x"], producer=(4000, 5, 0)),
        )
        await kit.end((4000, 0))
        await kit.settle()
        assert (await kit.state()).transaction_state == "CompleteCommit"

    with caplog.at_level(logging.WARNING):
        run(work)
    assert "INVALID_PRODUCER_EPOCH" in caplog.text


def test_a_bug_while_markers_are_written_does_not_hold_the_id_for_ever(caplog):
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.add((4000, 0), ORDERS)
        write, kit.writer.write = kit.writer.write, None
        await kit.end((4000, 0))
        await kit.settle()
        kit.writer.write = write
        await kit.until("CompleteCommit")

    run(work)
    assert "could not be written" in caplog.text


def test_a_timed_out_transaction_is_told_of_in_the_log(caplog):
    async def work():
        kit = Kit().lead()
        await kit.init()
        await kit.add((4000, 0), ORDERS)
        kit.disk.clock.now_ms += 60_001
        kit.runtime.tell("copier", lambda shard, now: shard.timer_fired(Sweep.TIMED_OUT, now))
        await kit.until("CompleteAbort")

    with caplog.at_level(logging.INFO):
        run(work)
    assert "'copier' (producer 4000, epoch 0) is aborted" in caplog.text


def test_only_effects_of_transactions_are_carried_out():
    with pytest.raises(InvariantViolated):
        Kit().sender(object())


def test_a_transaction_that_does_not_come_to_its_end_is_told_to_the_log(caplog):
    keys = frozenset(PartitionKey("orders", index) for index in range(1_000))
    Kit().sender(MarkersLate("copier", keys))
    assert "'copier' is decided" in caplog.text
    assert "1000 partition(s)" in caplog.text
    assert len(caplog.text) < 500


def write_markers(kit, *keys, epoch=0, coordinator_epoch=1, version=0):
    request = WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                7,
                epoch,
                False,
                [WritableTxnMarkerTopic(key.topic, [key.partition]) for key in keys],
                coordinator_epoch,
                version,
            )
        ]
    )

    async def work():
        response = await kit.admin.write_txn_markers(request, at(2))
        (marker,) = response.markers
        assert marker.producer_id == 7
        return {
            (topic.name, one.partition_index): ErrorCode(one.error_code)
            for topic in marker.topics
            for one in topic.partitions
        }

    return asyncio.run(work())


def test_a_hanging_transaction_is_ended_by_its_marker():
    kit = Kit()
    log = kit.partitions.get(*ORDERS).log
    batch = log_kit.make_batch([b"x"], producer=(7, 0, 0), transactional=True)
    log_kit.append(log, batch)
    assert log.first_unstable_offset == 0
    assert write_markers(kit, ORDERS) == {ORDERS: NONE}
    assert kit.markers() == [(False, 7, 0, 1)]
    assert kit.partitions.get(*ORDERS).last_stable_offset == 2


def test_markers_are_refused_with_kafkas_words():
    kit = Kit()
    nowhere, followed = PartitionKey("nowhere", 0), PartitionKey("followed", 0)
    short = PartitionKey("short", 0)
    kit.partition(followed, leader=OTHER)
    kit.partition(short).role = Role(ME, 0, 0, (ME, OTHER), ())
    assert write_markers(kit, nowhere, followed, short, ORDERS, coordinator_epoch=5) == {
        nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        followed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        short: ErrorCode.NOT_ENOUGH_REPLICAS,
        ORDERS: NONE,
    }
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_markers(kit, ORDERS, coordinator_epoch=4) == {ORDERS: fenced}
    assert write_markers(kit, ORDERS, epoch=-1) == {ORDERS: ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.parametrize("while_flushing", [False, True])
def test_a_disk_that_fails_is_told_of(while_flushing):
    kit = Kit(flush_messages=1)

    def fail(*_args, **_named):
        raise StorageError("/data", "broken")

    class Broken:
        """A flusher, or a log, on a disk that is gone."""

        append_marker = staticmethod(fail)

        async def flush(self, *_):
            fail()

    if while_flushing:
        kit.writer._flusher = Broken()
    else:
        partition = kit.partitions.get(*ORDERS)
        log = partition.log
        partition.log = SimpleNamespace(
            append_marker=fail, offline=False, config=log.config, log_end_offset=0
        )
    assert write_markers(kit, ORDERS) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(kit.failures) == 1


def test_a_topic_that_is_flushed_has_its_markers_on_the_disk():
    kit = Kit(flush_messages=1)
    assert write_markers(kit, ORDERS) == {ORDERS: NONE}
    assert kit.partitions.get(*ORDERS).log.recovery_point == 1


# Looking at transactions


def test_transactions_are_described_and_listed():
    async def work():
        kit = Kit().lead()
        await kit.init(name="one")
        await kit.init(name="two")
        await kit.add((4001, 0), ORDERS, name="two")
        described = await kit.state("two")
        assert (described.error_code, described.transaction_state) == (NONE, "Ongoing")
        assert (described.producer_id, described.producer_epoch) == (4001, 0)
        assert described.transaction_timeout_ms == 60_000
        assert described.transaction_start_time_ms == kit.disk.clock.wall_ms()
        assert [(one.topic, one.partitions) for one in described.topics] == [("orders", [0])]
        unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await kit.state("three")).error_code == unknown
        request = ListTransactionsRequest(["Ongoing", "Lost"])
        listed = await there(kit.admin.list_transactions(request, at(2)))
        assert listed.unknown_state_filters == ["Lost"]
        assert [
            (one.transactional_id, one.producer_id, one.transaction_state)
            for one in listed.transaction_states
        ] == [("two", 4001, "Ongoing")]
        request = ListTransactionsRequest(transactional_id_pattern="(")
        refused = await there(kit.admin.list_transactions(request, at(2)))
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    run(work)


def test_a_list_is_whole_or_an_error():
    async def work():
        kit = Kit().lead()
        await kit.init()
        kit.log = kit.log.moved_to(10)
        kit.lead()
        listed = await there(kit.admin.list_transactions(ListTransactionsRequest(), at(2)))
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert listed.transaction_states == []

    run(work)
