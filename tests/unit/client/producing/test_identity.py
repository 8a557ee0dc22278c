"""Who an idempotent producer is: asked for until it is known, whatever a broker says meanwhile."""

from __future__ import annotations

import pytest

from kits.faulty_log import INIT_PRODUCER_ID, Fault, FaultyLog
from kits.leaks import run_without_leaks
from moldau.client.errors import ClusterAuthorizationFailed, DeliveryTimedOut
from moldau.client.producer import AsyncProducer
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdResponse

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 4,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 4,
    "linger_ms": 0,
}


class Forgetful(FaultyLog):
    """Answers the question for an id with what a test gives it, then honestly."""

    def __init__(self, *answers):
        super().__init__(1, lambda: Fault.NONE)
        self.answers = list(answers)
        self._answers[INIT_PRODUCER_ID] = self._say

    def _say(self, asked):
        if self.answers:
            self.answers.pop(0)(asked)
        else:
            self._init_producer_id(asked)


def garbage(asked):
    asked.frame(b"\xff" * 90)


def test_an_answer_that_cannot_be_read_does_not_end_the_producer():
    async def scenario():
        async with (
            Forgetful(garbage, garbage) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            assert (await producer.send("t", b"1")).offset == 0
            assert (await producer.send("t", b"2")).offset == 1
            assert not broker.answers

    run_without_leaks(scenario())


def test_a_broker_that_never_says_it_properly_costs_the_records_and_nothing_else():
    async def scenario():
        async with (
            Forgetful(*[garbage] * 10_000) as broker,
            AsyncProducer(
                broker.address, request_timeout_ms=50, delivery_timeout_ms=100, **QUICK
            ) as producer,
        ):
            with pytest.raises(DeliveryTimedOut):
                await producer.send("t", b"lost")
            broker.answers.clear()
            assert (await producer.send("t", b"kept")).offset == 0

    run_without_leaks(scenario())


def test_a_refusal_ends_the_producer():
    def refuse(asked):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        asked.answer(InitProducerIdResponse(0, code, -1, -1))

    async def scenario():
        async with Forgetful(refuse) as broker, AsyncProducer(broker.address, **QUICK) as producer:
            with pytest.raises(ClusterAuthorizationFailed):
                await producer.send("t", b"1")
            with pytest.raises(ClusterAuthorizationFailed):
                producer.send("t", b"2")

    run_without_leaks(scenario())
