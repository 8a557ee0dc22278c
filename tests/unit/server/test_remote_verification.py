"""Coordinators on other brokers are asked whether a producer may write: what and how often."""

from __future__ import annotations

import asyncio

import pytest

from kits.transaction_handler_kit import NONE, ORDERS, OTHER, Kit, run
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.engine.errors import ConnectionLost, CorruptAnswer
from moldau.protocol.errors import ErrorCode
from moldau.server.transactions import remote_verification
from moldau.server.transactions.produce_verdicts import produce_error
from moldau.server.transactions.remote_verification import PARTITIONS_PER_REQUEST

PRODUCER = ProducerIdentity(7, 3)
NEWER, OLDER = ProducerIdentity(7, 4), ProducerIdentity(7, 2)
SECOND = PartitionKey("orders", 1)
AGAIN = ErrorCode.COORDINATOR_NOT_AVAILABLE


def make():
    kit = Kit()
    kit.coordinator = OTHER
    return kit


def asked(request):
    return [
        (
            one.transactional_id,
            (one.producer_id, one.producer_epoch),
            one.verify_only,
            [(topic.name, topic.partitions) for topic in one.topics],
        )
        for one in request.transactions
    ]


@pytest.mark.parametrize("add", [False, True])
def test_the_coordinator_of_an_id_is_asked_wherever_it_is(add):
    async def work():
        kit = make()
        answer = kit.verifier.verify("id", PRODUCER, (ORDERS, SECOND), add=add)
        question = await kit.others.next()
        assert question.broker_id == OTHER
        assert asked(question.request) == [("id", (7, 3), not add, [("orders", [0, 1])])]
        question.verified(NONE, ErrorCode.INVALID_TXN_STATE)
        assert await answer == {ORDERS: NONE, SECOND: ErrorCode.INVALID_TXN_STATE}

    run(work)


def test_one_partition_is_verified_like_many():
    async def work():
        kit = make()
        answer = kit.verifier.verify_one("id", PRODUCER, ORDERS, add=False)
        (await kit.others.next()).verified(ErrorCode.PRODUCER_FENCED)
        assert await answer is ErrorCode.PRODUCER_FENCED

    run(work)


def test_questions_that_come_meanwhile_leave_in_one_request():
    async def work():
        kit = make()
        first = kit.verifier.verify("a", PRODUCER, (ORDERS,), add=False)
        on_its_way = await kit.others.next()
        others = [
            kit.verifier.verify("b", PRODUCER, (ORDERS,), add=False),
            kit.verifier.verify("c", PRODUCER, (SECOND,), add=True),
            kit.verifier.verify("a", PRODUCER, (SECOND,), add=False),
        ]
        on_its_way.verified(NONE)
        assert await first == {ORDERS: NONE}
        question = await kit.others.next()
        assert asked(question.request) == [
            ("b", (7, 3), True, [("orders", [0])]),
            ("c", (7, 3), False, [("orders", [1])]),
            ("a", (7, 3), True, [("orders", [1])]),
        ]
        question.verified(NONE, ErrorCode.INVALID_TXN_STATE, NONE)
        assert [set((await one).values()) for one in others] == [
            {NONE}, {ErrorCode.INVALID_TXN_STATE}, {NONE},
        ]  # fmt: skip

    run(work)


def test_what_one_producer_asks_in_several_requests_is_asked_together():
    async def work():
        kit = make()
        kit.verifier.verify("busy", PRODUCER, (ORDERS,), add=False)
        on_its_way = await kit.others.next()
        one = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        two = kit.verifier.verify("id", PRODUCER, (SECOND, ORDERS), add=False)
        on_its_way.verified(NONE)
        question = await kit.others.next()
        assert asked(question.request) == [("id", (7, 3), True, [("orders", [0, 1])])]
        question.verified(NONE, AGAIN)
        assert await one == {ORDERS: NONE}
        assert await two == {ORDERS: NONE, SECOND: AGAIN}

    run(work)


def test_of_an_id_only_the_newest_producer_waits():
    async def work():
        kit = make()
        kit.verifier.verify("busy", PRODUCER, (ORDERS,), add=False)
        on_its_way = await kit.others.next()
        replaced = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        kept = kit.verifier.verify("id", NEWER, (ORDERS,), add=False)
        late = kit.verifier.verify("id", OLDER, (ORDERS,), add=False)
        assert await replaced == await late == {ORDERS: ErrorCode.INVALID_PRODUCER_EPOCH}
        on_its_way.verified(NONE)
        question = await kit.others.next()
        assert asked(question.request) == [("id", tuple(NEWER), True, [("orders", [0])])]
        question.verified(NONE)
        assert await kept == {ORDERS: NONE}

    run(work)


def test_a_question_of_another_kind_takes_the_place_of_the_one_that_waits():
    async def work():
        kit = make()
        kit.verifier.verify("busy", PRODUCER, (ORDERS,), add=False)
        on_its_way = await kit.others.next()
        replaced = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        kept = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=True)
        assert await replaced == {ORDERS: AGAIN}
        on_its_way.verified(NONE)
        (await kit.others.next()).verified(NONE)
        assert await kept == {ORDERS: NONE}

    run(work)


TROUBLE = (
    lambda asked: asked.fail(ConnectionLost("gone")),
    lambda asked: asked.fail(CorruptAnswer("noise")),
    lambda asked: asked.fail(OSError("no route")),
    lambda asked: asked.fail(KeyError("a bug")),
    lambda asked: asked.verified(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    lambda asked: asked.verified(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    lambda asked: asked.verified(ErrorCode.NOT_COORDINATOR),
    lambda asked: asked.verified(ErrorCode.OPERATION_NOT_ATTEMPTED),
)


@pytest.mark.parametrize("answer", TROUBLE, ids=range(len(TROUBLE)))
@pytest.mark.parametrize(("add", "version"), [(False, 9), (True, 12)])
def test_trouble_with_the_coordinator_is_no_objection_and_the_producer_tries_again(
    answer, add, version
):
    async def work():
        kit = make()
        verdicts = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=add)
        answer(await kit.others.next())
        code = produce_error((await verdicts)[ORDERS], version)
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS
        again = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=add)
        (await kit.others.next()).verified(NONE)
        assert await again == {ORDERS: NONE}

    run(work)


def test_a_bug_in_making_a_question_is_no_end_of_it(monkeypatch):
    def broken(question):
        raise KeyError("a bug")

    async def work():
        kit = make()
        with monkeypatch.context() as patch:
            patch.setattr(remote_verification, "_message", broken)
            assert await kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False) == {
                ORDERS: AGAIN
            }
        again = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        (await kit.others.next()).verified(NONE)
        assert await again == {ORDERS: NONE}

    run(work)


def test_adding_waits_a_moment_for_the_last_transaction_to_end_and_gives_up_in_time():
    async def work():
        kit = make()
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        answer = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=True)
        (await kit.others.next()).verified(busy)
        (await kit.others.next()).verified(NONE)
        assert await answer == {ORDERS: NONE}
        answer = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=True)
        (await kit.others.next()).verified(busy)
        question = await kit.others.next()
        kit.disk.clock.now_ms += 50
        question.verified(busy)
        assert await answer == {ORDERS: busy}
        answer = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        (await kit.others.next()).verified(busy)
        assert await answer == {ORDERS: busy}

    run(work)


def test_a_producer_that_leaves_leaves_the_others_alone():
    async def work():
        kit = make()
        left = kit.verifier.verify("a", PRODUCER, (ORDERS,), add=False)
        stays = kit.verifier.verify("b", PRODUCER, (ORDERS,), add=False)
        left.cancel()
        (await kit.others.next()).verified(NONE, NONE)
        assert await stays == {ORDERS: NONE}

    run(work)


def test_many_partitions_are_asked_for_in_parts():
    async def work():
        kit = make()
        keys = tuple(PartitionKey("orders", one) for one in range(PARTITIONS_PER_REQUEST + 1))
        answer = kit.verifier.verify("id", PRODUCER, keys, add=False)
        for size in (PARTITIONS_PER_REQUEST, 1):
            question = await kit.others.next()
            ((*_, ((_, indexes),)),) = asked(question.request)
            assert len(indexes) == size
            question.verified(*[NONE] * size)
        assert await answer == dict.fromkeys(keys, NONE)

    run(work)


def test_a_stop_ends_the_questions_that_wait():
    async def work():
        kit = make()
        answer = kit.verifier.verify("id", PRODUCER, (ORDERS,), add=False)
        await asyncio.sleep(0)
        await kit.verifier._remote.close()
        assert await answer == {ORDERS: AGAIN}

    run(work)
