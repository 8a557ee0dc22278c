"""Transactional producers from their requests to the markers in their partitions."""

from __future__ import annotations

import asyncio

import pytest

from kits.coordinator_kit import MemoryLog
from kits.slicing import answered, count_pauses, count_turns
from kits.transaction_handler_kit import (
    NONE,
    OFFSETS,
    ORDERS,
    Kit,
    at,
    codes,
    run,
    there,
    topics,
)
from moldau.base.ids import PartitionKey
from moldau.base.limits import PARTITIONS_PER_TRANSACTION
from moldau.cluster.store import OutcomeUnknown, StoreFailed
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions.records import transaction_record
from moldau.coordination.transactions.transaction import LAST_CLIENT_EPOCH, Transaction
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from moldau.records.builder import BatchBuilder
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.transactions.produce_verdicts import produce_error


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


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (StoreFailed("gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OutcomeUnknown("lost"), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ApiError(ErrorCode.NOT_CONTROLLER), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_without_a_producer_id_to_give_a_client_tries_again(failure, code):
    async def work():
        kit = Kit().lead()
        kit.ids.failed, kit.ids.failure = True, failure
        assert (await kit.init()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await kit.init(name=None)).error_code == code

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
        kit.partitions.remove(ORDERS)
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


# Repeats, and amounts


def test_what_is_added_or_described_again_and_again_is_told_once():
    async def work():
        kit = Kit().lead()
        await kit.init()
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="copier",
            v3_and_below_producer_id=4000,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics(*[ORDERS] * 1000),
        )
        response = await there(kit.producers.add_partitions_to_txn(added, at(3)))
        (topic,) = response.results_by_topic_v3_and_below
        assert len(topic.results_by_partition) == 1
        one = AddPartitionsToTxnTransaction("copier", 4000, 0, True, topics(*[ORDERS] * 1000))
        request = AddPartitionsToTxnRequest([one] * 100)
        response = await there(kit.producers.add_partitions_to_txn(request, at(4)))
        ((topic,),) = [each.topic_results for each in response.results_by_transaction]
        assert len(topic.results_by_partition) == 1
        request = DescribeTransactionsRequest(["copier", "nobody"] * 1000)
        described = await there(kit.admin.describe_transactions(request, at(0)))
        told = [one.transactional_id for one in described.transaction_states]
        assert told == ["copier", "nobody"]

    run(work)


def test_transactions_that_do_not_fit_into_an_answer_are_refused(monkeypatch):
    room = "moldau.server.handlers.transaction_admin.AnswerRoom"
    monkeypatch.setattr(room, lambda: AnswerRoom(100))

    async def work():
        kit = Kit().lead()
        await kit.init(name="one")
        await kit.init(name="two")
        request = DescribeTransactionsRequest(["one", "two"])
        described = await there(kit.admin.describe_transactions(request, at(0)))
        codes_told = [one.error_code for one in described.transaction_states]
        assert codes_told == [NONE, ErrorCode.POLICY_VIOLATION]
        listed = await there(kit.admin.list_transactions(ListTransactionsRequest(), at(2)))
        assert listed.error_code == ErrorCode.POLICY_VIOLATION
        assert listed.transaction_states == []

    run(work)


def test_transactions_are_listed_in_turns():
    async def work():
        kit = Kit().lead()
        for number in range(500):
            await kit.init(name=f"copier-{number}")
        listing = kit.admin.list_transactions(ListTransactionsRequest(), at(2))
        assert await count_turns(listing) >= 5

    run(work)


def test_more_partitions_than_a_transaction_may_have_are_refused_in_steps():
    count = PARTITIONS_PER_TRANSACTION + 1
    topics = [AddPartitionsToTxnTopic("orders", list(range(count)))]

    def add():
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="copier",
            v3_and_below_producer_id=4000,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
        return Kit().producers.add_partitions_to_txn(request, at(3))

    assert count_pauses(add()) >= 2 * count
    (topic,) = answered(add()).results_by_topic_v3_and_below
    codes = {one.partition_error_code for one in topic.results_by_partition}
    assert (len(topic.results_by_partition), codes) == (count, {ErrorCode.UNKNOWN_SERVER_ERROR})
