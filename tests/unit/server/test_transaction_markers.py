"""Markers: who has them written, which partitions take them, what is told when one does not."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.partition_kit import give_role
from kits.slicing import count_pauses, count_turns, finished
from kits.transaction_handler_kit import (
    ME,
    NONE,
    ORDERS,
    OTHER,
    Kit,
    at,
    run,
)
from moldau.base.errors import InvariantViolated, StorageError
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions.effects import MarkerResult, MarkersLate, WriteMarkers
from moldau.coordination.transactions.sweeping import Sweep
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.replication.partition import Role
from moldau.server.transactions.marker_sending import _in_order
from moldau.server.transactions.markers import MARKERS_PER_TURN, Marker


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    monkeypatch.setattr("moldau.coordination.transactions.marking.RETRY_FIRST_S", 0.0)


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
    give_role(kit.partition(short), Role(ME, 0, 0, (ME, OTHER), ()))
    assert write_markers(kit, nowhere, followed, short, ORDERS, coordinator_epoch=5) == {
        nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        followed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        short: ErrorCode.NOT_ENOUGH_REPLICAS,
        ORDERS: NONE,
    }
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert write_markers(kit, ORDERS, coordinator_epoch=4) == {ORDERS: fenced}
    assert write_markers(kit, ORDERS, epoch=-1) == {ORDERS: ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.mark.parametrize(
    ("producer", "code"),
    [((-1, 0), ErrorCode.INVALID_REQUEST), ((8, -1), ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_a_marker_of_nobody_is_not_written(producer, code):
    kit = Kit()
    topic = WritableTxnMarkerTopic(ORDERS.topic, [ORDERS.partition])
    request = WriteTxnMarkersRequest([WritableTxnMarker(*producer, True, [topic], 1)])
    (marker,) = asyncio.run(kit.admin.write_txn_markers(request, at(1))).markers
    assert marker.topics[0].partitions[0].error_code == code
    assert kit.markers() == []


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
            append_marker=fail, offline=False, config=log.config, producers=log.producers
        )
    assert write_markers(kit, ORDERS) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(kit.failures) == 1


def test_a_topic_that_is_flushed_has_its_markers_on_the_disk():
    kit = Kit(flush_messages=1)
    assert write_markers(kit, ORDERS) == {ORDERS: NONE}
    assert kit.partitions.get(*ORDERS).log.recovery_point == 1


def test_a_marker_is_written_once_to_a_partition_that_is_named_often():
    kit = Kit()
    assert write_markers(kit, *[ORDERS] * 1000) == {ORDERS: NONE}
    assert len(kit.markers()) == 1


def test_markers_of_one_producer_are_told_together():
    kit = Kit()
    topic = WritableTxnMarkerTopic(ORDERS.topic, [ORDERS.partition])
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, False, [topic], 1)] * 100)
    (marker,) = asyncio.run(kit.admin.write_txn_markers(request, at(2))).markers
    ((one,),) = [each.partitions for each in marker.topics]
    assert one.error_code == NONE


def test_the_markers_of_one_request_wait_for_followers_together():
    async def work():
        kit = Kit()
        partition = kit.partitions.get(*ORDERS)
        give_role(partition, Role(ME, 0, 1, (ME, OTHER), (ME, OTHER)))
        topic = WritableTxnMarkerTopic(ORDERS.topic, [ORDERS.partition])
        markers = [WritableTxnMarker(producer, 0, True, [topic], 1) for producer in range(3)]
        request = WriteTxnMarkersRequest(markers)
        written = asyncio.ensure_future(kit.admin.write_txn_markers(request, at(2)))
        await kit.settle()
        assert len(kit.markers()) == 3
        assert not written.done()
        partition.update_follower(OTHER, 3, 0, 0.0)
        assert [one.producer_id for one in (await written).markers] == [0, 1, 2]

    run(work)


def test_many_markers_of_one_request_are_written_and_told_in_turns():
    async def work():
        kit = Kit()
        partition = kit.partitions.get(*ORDERS)
        topic = WritableTxnMarkerTopic(ORDERS.topic, [ORDERS.partition])
        markers = [WritableTxnMarker(7, 0, True, [topic], 1)] * 1_000
        request = WriteTxnMarkersRequest(markers)
        written = asyncio.ensure_future(kit.admin.write_txn_markers(request, at(2)))
        longest = turns_of_telling = 0
        while not written.done():
            before = partition.log.log_end_offset
            await asyncio.sleep(0)
            longest = max(longest, partition.log.log_end_offset - before)
            turns_of_telling += before == 1_000
        assert 0 < longest <= MARKERS_PER_TURN
        assert turns_of_telling >= 10

    run(work)


def test_markers_of_many_partitions_are_written_in_turns():
    kit = Kit()
    keys = [PartitionKey("orders", index) for index in range(500)]
    marker = Marker(ProducerIdentity(7, 0), False, 1, 0)
    assert asyncio.run(count_turns(kit.writer.write(marker, keys))) >= 10


def test_a_marker_is_written_when_the_followers_have_it():
    async def work():
        kit = Kit()
        partition = kit.partitions.get(*ORDERS)
        give_role(partition, Role(ME, 0, 1, (ME, OTHER), (ME, OTHER)))
        marker = Marker(ProducerIdentity(7, 0), True, 1, 0)
        written = asyncio.ensure_future(kit.writer.write(marker, [ORDERS]))
        await kit.settle()
        assert len(kit.markers()) == 1
        assert not written.done()
        partition.update_follower(OTHER, 1, 0, 0.0)
        assert await written == {ORDERS: NONE}
        again = asyncio.ensure_future(kit.writer.write(marker, [ORDERS]))
        await kit.settle()
        give_role(partition, Role(OTHER, 1, 2, (ME, OTHER), (OTHER,)))
        assert await again == {ORDERS: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    run(work)


def test_partitions_of_a_large_transaction_are_looked_up_in_turns():
    kit = Kit()
    keys = frozenset(PartitionKey("orders", index) for index in range(5_000))
    kit.metadata |= dict.fromkeys(keys, SimpleNamespace(leader=ME))
    told = []
    kit.runtime.tell = lambda name, handler: told.append(name)
    effect = WriteMarkers("copier", ProducerIdentity(7, 0), True, 1, 2, keys)
    assert asyncio.run(count_turns(kit.sender._send(effect))) >= 10
    assert told == ["copier"]


def test_results_of_many_markers_are_told_in_turns():
    keys = [PartitionKey("orders", index) for index in range(5_000)]
    effect = WriteMarkers("copier", ProducerIdentity(7, 0), True, 1, 2, frozenset(keys))
    results = dict.fromkeys(keys, MarkerResult.UNAVAILABLE)
    work = Kit().sender._translate(effect, dict.fromkeys(keys, NONE), results)
    assert count_pauses(work) >= 10
    assert results == dict.fromkeys(keys, MarkerResult.WRITTEN)


def test_partitions_are_marked_in_order_however_many_there_are():
    for count in (10, 5_000):
        keys = [PartitionKey("orders", index) for index in range(count)]
        assert list(finished(_in_order(keys[::-1]))) == keys
