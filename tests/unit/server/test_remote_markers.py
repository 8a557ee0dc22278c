"""Markers for partitions that other brokers lead: who is asked, when again, and when it is over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits.coordinator_kit import MemoryLog
from kits.transaction_handler_kit import ME, NONE, ORDERS, OTHER, Kit, run
from moldau.base.ids import PartitionKey
from moldau.cluster.model import NO_LEADER
from moldau.coordination.outcome import ProducerIdentity
from moldau.engine.errors import ConnectionLost, CorruptAnswer
from moldau.protocol.compiler import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import WriteTxnMarkersRequest
from moldau.server.transactions import remote_markers
from moldau.server.transactions.markers import Marker
from moldau.server.transactions.remote_markers import PARTITIONS_PER_REQUEST, RemoteMarkers

THIRD = 3
FAR, FARTHER = PartitionKey("far", 0), PartitionKey("far", 1)
MARKER = Marker(ProducerIdentity(7, 2), committed=True, coordinator_epoch=9, transaction_version=2)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    monkeypatch.setattr("moldau.coordination.transactions.marking.RETRY_FIRST_S", 0.0)


def lead(kit, key, leader):
    kit.metadata[key] = SimpleNamespace(leader=leader)


async def decided(kit, *keys, name="copier"):
    """Commit a transaction with these partitions."""
    producer = await kit.init(name=name)
    identity = producer.producer_id, producer.producer_epoch
    await kit.add(identity, *keys, name=name)
    await kit.end(identity, name=name)
    return identity


async def is_ended(kit, name="copier"):
    await kit.settle()
    return (await kit.state(name)).transaction_state == "CompleteCommit"


def asked(request):
    """Who gets which marker: producer id, epoch, committed, coordinator epoch, partitions."""
    return [
        (
            one.producer_id,
            one.producer_epoch,
            one.transaction_result,
            one.coordinator_epoch,
            [(topic.name, topic.partition_indexes) for topic in one.topics],
        )
        for one in request.markers
    ]


def test_a_transaction_is_complete_when_the_leaders_on_all_brokers_have_written():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        lead(kit, FARTHER, THIRD)
        await decided(kit, ORDERS, FAR, FARTHER)
        one, two = await kit.others.next(), await kit.others.next()
        assert {one.broker_id, two.broker_id} == {OTHER, THIRD}
        (first,) = [each for each in (one, two) if each.broker_id == OTHER]
        assert asked(first.request) == [(4000, 0, True, 9, [("far", [0])])]
        one.written(NONE)
        assert not await is_ended(kit)
        assert kit.markers() == [(True, 4000, 0, 9)]
        two.written(NONE)
        assert await is_ended(kit)

    run(work)


RETRIED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


@pytest.mark.parametrize("code", RETRIED)
def test_the_leader_of_then_is_asked_again(code):
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        lead(kit, FARTHER, OTHER)
        await decided(kit, FAR, FARTHER)
        first = await kit.others.next()
        lead(kit, FARTHER, THIRD)
        first.written(NONE, code)
        second = await kit.others.next()
        assert second.broker_id == THIRD
        assert asked(second.request) == [(4000, 0, True, 9, [("far", [1])])]
        assert not await is_ended(kit)
        second.written(NONE)
        assert await is_ended(kit)

    run(work)


LOST = (ConnectionLost("gone"), CorruptAnswer("noise"), OSError("no route"), KeyError("a bug"))


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_lost_answer_is_asked_for_again(error):
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        (await kit.others.next()).fail(error)
        (await kit.others.next()).written(NONE)
        assert await is_ended(kit)

    run(work)


def test_a_bug_in_making_a_request_is_no_end_of_it(monkeypatch):
    message, failures = remote_markers._message, [KeyError("a bug")]

    def once_broken(one):
        if failures:
            raise failures.pop()
        return message(one)

    monkeypatch.setattr(remote_markers, "_message", once_broken)

    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        (await kit.others.next()).written(NONE)
        assert await is_ended(kit)

    run(work)


def test_a_partition_that_an_answer_leaves_out_is_asked_for_again():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        first.request.markers[0].topics.clear()
        first.written()
        (await kit.others.next()).written(NONE)
        assert await is_ended(kit)

    run(work)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_partition_that_has_seen_a_newer_epoch_is_given_up(code):
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        (await kit.others.next()).written(code)
        assert await is_ended(kit)

    run(work)


def test_a_partition_without_a_leader_is_waited_for():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, NO_LEADER)
        await decided(kit, FAR)
        assert not await is_ended(kit)
        lead(kit, FAR, OTHER)
        (await kit.others.next()).written(NONE)
        assert await is_ended(kit)

    run(work)


def test_a_partition_that_is_deleted_meanwhile_is_not_waited_for():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        del kit.metadata[FAR]
        first.written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await kit.until("CompleteCommit")

    run(work)


def test_what_is_decided_meanwhile_leaves_in_one_request():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        for name in ("b", "c"):
            await decided(kit, FAR, name=name)
        await kit.settle()
        assert kit.others.requests.empty()
        first.written(NONE)
        second = await kit.others.next()
        assert [one[0] for one in asked(second.request)] == [4001, 4002]
        second.written(NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await is_ended(kit, "b")
        (await kit.others.next()).written(NONE)
        assert await is_ended(kit, "c")

    run(work)


def test_markers_that_wait_are_dropped_with_their_coordinator():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        await decided(kit, FAR, name="b")
        await kit.settle()
        kit.runtime.resign(0)
        first.written(NONE)
        await kit.sender.settled()
        assert kit.others.requests.empty()

    run(work)


def test_a_new_coordinator_sends_the_markers_again_with_its_epoch():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        kit.runtime.resign(0)
        batches = [batch for _, batch in kit.log.batches]
        kit.runtime.lead(MemoryLog(leader_epoch=10, batches=batches))
        first.written(NONE)
        second = await kit.others.next()
        assert asked(second.request) == [(4000, 0, True, 10, [("far", [0])])]
        second.written(NONE)
        await kit.until("CompleteCommit")

    run(work)


def test_a_shard_is_loaded_again_only_when_its_markers_are_settled(monkeypatch):
    monkeypatch.setattr("moldau.coordination.runtime.RELOAD_FIRST_S", 0.0)

    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        first = await kit.others.next()
        kit.runtime.tell("copier", lambda shard, now: 1 / 0)
        await kit.settle()
        assert kit.runtime.refusals == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)
        assert kit.others.requests.empty()
        first.written(NONE)
        (await kit.others.next()).written(NONE)
        await kit.until("CompleteCommit")

    run(work)


def test_a_stop_does_not_wait_for_other_brokers():
    async def work():
        kit = Kit().lead()
        lead(kit, FAR, OTHER)
        await decided(kit, FAR)
        await kit.settle()
        kit.runtime.resign(0)
        await kit.sender.close()
        assert kit.others.is_closed

    run(work)


def test_a_large_transaction_is_asked_for_in_parts():
    async def work():
        kit = Kit()
        keys = [PartitionKey("far", index) for index in range(2 * PARTITIONS_PER_REQUEST + 1)]
        remote = RemoteMarkers(kit.others)
        writing = asyncio.ensure_future(remote.write(OTHER, MARKER, keys, lambda: True))
        for size in (PARTITIONS_PER_REQUEST, PARTITIONS_PER_REQUEST, 1):
            request = await kit.others.next()
            ((*_, ((_, indexes),)),) = asked(request.request)
            assert len(indexes) == size
            request.written(*[NONE] * size)
        assert await writing == dict.fromkeys(keys, NONE)

    run(work)


@pytest.mark.parametrize(("version", "told"), [(1, 0), (2, 2)])
def test_a_broker_that_does_not_know_the_transaction_version_is_not_told_it(version, told):
    async def work():
        kit = Kit()
        writing = asyncio.ensure_future(
            RemoteMarkers(kit.others).write(OTHER, MARKER, [FAR], lambda: True)
        )
        request = await kit.others.next()
        sent = decode(WriteTxnMarkersRequest, version, encode(request.request, version))
        assert sent.markers[0].transaction_version == told
        request.written(NONE)
        await writing

    run(work)


def test_the_marker_of_a_partition_led_here_is_written_here():
    async def work():
        kit = Kit().lead()
        await decided(kit, ORDERS)
        await kit.until("CompleteCommit")
        assert kit.metadata[ORDERS].leader == ME
        assert kit.others.requests.empty()

    run(work)
