"""The sender towards brokers that fail, lie, move leaders or say nothing."""

from __future__ import annotations

import asyncio
from itertools import chain, repeat

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.scripted_broker import HOST, METADATA, PRODUCE, ScriptedBroker, silence
from moldau.client.errors import (
    DeliveryAborted,
    DeliveryTimedOut,
    NotEnoughReplicas,
    TopicAuthorizationFailed,
    UnsupportedCompressionType,
)
from moldau.client.producer import AsyncProducer
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 4,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 4,
    "linger_ms": 0,
}
IMPATIENT = {**QUICK, "request_timeout_ms": 60, "delivery_timeout_ms": 150}


def faults(*first, then=Fault.NONE):
    script = chain(first, repeat(then))
    return lambda: next(script)


def refusing(code, **leader):
    """Answer every partition of a Produce with one code."""

    def answer(asked):
        topics = [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(one.index, code, -1, **leader)
                 for one in topic.partition_data],
            )
            for topic in asked.request.topic_data
        ]  # fmt: skip
        asked.answer(ProduceResponse(topics))

    return answer


def test_a_leader_named_in_the_answer_is_asked_at_once_without_metadata_or_a_pause():
    longer_than_it_may_take = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    settings = {**QUICK, "request_timeout_ms": 10_000, "delivery_timeout_ms": 20_000}

    async def scenario():
        async with FaultyLog(1, faults()) as new, ScriptedBroker(broker_id=2) as old:
            old.peers, old.topics = [old], {"t": [(2, 0)]}
            old.newest[22] = 5
            old._answers[22] = new._init_producer_id

            def moved(asked):
                leader = LeaderIdAndEpoch(new.broker_id, 1)
                endpoint = NodeEndpoint(new.broker_id, HOST, new.port)
                (topic,) = asked.request.topic_data
                told = PartitionProduceResponse(0, 6, -1, current_leader=leader)
                answer = TopicProduceResponse(topic.name, topic.topic_id, [told])
                asked.answer(ProduceResponse([answer], node_endpoints=[endpoint]))

            old._answers[PRODUCE] = moved
            async with AsyncProducer(
                old.address, enable_idempotence=False, **settings | longer_than_it_may_take
            ) as producer:
                await producer.send("t", b"v")
                asked_before = len(old.requests(METADATA))
                assert new.logs[0].values == [b"v"]
                assert asked_before <= 2

    run_without_leaks(scenario())


def test_an_error_for_good_fails_the_batch_and_the_next_is_numbered_anew():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            await producer.send("t", b"0")
            broker._answers[PRODUCE] = refusing(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            with pytest.raises(TopicAuthorizationFailed):
                await producer.send("t", b"lost")
            broker._answers[PRODUCE] = broker._produce
            assert (await producer.send("t", b"1")).offset == 1
            assert broker.logs[0].producers[101].epoch == 1

    run_without_leaks(scenario())


def test_a_broker_that_forgot_the_producer_is_written_to_under_a_raised_epoch():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            await producer.send("t", b"0")
            refusals = iter([ErrorCode.UNKNOWN_PRODUCER_ID])

            async def once(asked):
                code = next(refusals, None)
                if code is None:
                    await broker._produce(asked)
                else:
                    refusing(code)(asked)

            broker._answers[PRODUCE] = once
            assert (await producer.send("t", b"1")).offset == 1
            assert broker.logs[0].values == [b"0", b"1"]

    run_without_leaks(scenario())


def test_records_are_given_up_at_their_deadline_and_say_what_failed_last():
    async def scenario():
        async with (
            FaultyLog(1, faults(then=Fault.NOT_ENOUGH_REPLICAS)) as broker,
            AsyncProducer(broker.address, **IMPATIENT) as producer,
        ):
            with pytest.raises(DeliveryTimedOut, match="in-sync") as caught:
                await producer.send("t", b"v")
            assert isinstance(caught.value.__cause__, NotEnoughReplicas)

    run_without_leaks(scenario())


def test_a_silent_broker_is_given_up_too():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(broker.address, **IMPATIENT) as producer,
        ):
            broker._answers[PRODUCE] = silence
            with pytest.raises(DeliveryTimedOut):
                await producer.send("t", b"v")
            broker._answers[PRODUCE] = broker._produce
            assert (await producer.send("t", b"after")).offset >= 0

    run_without_leaks(scenario())


def test_retries_are_counted_where_they_are_limited():
    async def scenario():
        async with (
            FaultyLog(1, faults(then=Fault.NOT_ENOUGH_REPLICAS)) as broker,
            AsyncProducer(broker.address, retries=2, **QUICK) as producer,
        ):
            with pytest.raises(NotEnoughReplicas):
                await producer.send("t", b"v")
            assert len(broker.requests(PRODUCE)) == 3

    run_without_leaks(scenario())


def test_an_answer_that_leaves_the_partition_out_is_not_taken_for_success():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            told = asyncio.Event()

            def empty(asked):
                asked.answer(ProduceResponse([]))
                broker._answers[PRODUCE] = broker._produce
                told.set()

            broker._answers[PRODUCE] = empty
            assert (await producer.send("t", b"v")).offset == 0
            assert told.is_set()

    run_without_leaks(scenario())


def test_zstd_is_not_sent_to_a_broker_too_old_for_it():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(
                broker.address, compression_type="zstd", version_ceilings={0: 6}, **QUICK
            ) as producer,
        ):
            with pytest.raises(UnsupportedCompressionType):
                await producer.send("t", b"v")

    run_without_leaks(scenario())


def test_closing_with_a_time_out_gives_up_what_a_silent_broker_keeps():
    async def scenario():
        async with FaultyLog(1, faults()) as broker:
            producer = AsyncProducer(broker.address, **QUICK)
            await producer.start()
            broker._answers[PRODUCE] = silence
            delivery = producer.send("t", b"v")
            await producer.close(0.05)
            with pytest.raises(DeliveryAborted):
                await delivery

    run_without_leaks(scenario())


def test_waiting_for_a_delivery_can_be_cancelled_without_the_record_being_lost():
    async def scenario():
        async with (
            FaultyLog(1, faults(then=Fault.SLOW)) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            await producer.send("t", b"0")
            delivery = producer.send("t", b"1")

            async def wait():
                await delivery

            task = asyncio.create_task(wait())
            await asyncio.sleep(0)
            task.cancel()
            await producer.flush()
            assert delivery.metadata().offset == 1
            assert task.cancelled()

    run_without_leaks(scenario())


def test_records_sent_before_their_topic_is_known_keep_their_order():
    async def scenario():
        async with (
            FaultyLog(1, faults()) as broker,
            AsyncProducer(broker.address, **QUICK) as producer,
        ):
            topics, broker.topics = broker.topics, {}
            sent = [producer.send("t", b"%d" % number) for number in range(50)]
            await asyncio.sleep(0.02)
            broker.topics = topics
            sent += [producer.send("t", b"%d" % number) for number in range(50, 100)]
            assert [(await one).offset for one in sent] == list(range(100))
            assert broker.logs[0].values == [b"%d" % number for number in range(100)]

    run_without_leaks(scenario())


def test_a_partition_without_a_leader_is_asked_for_until_it_has_one():
    async def scenario():
        async with FaultyLog(1, faults()) as broker:
            broker.topics["t"] = [(-1, 0)]
            async with AsyncProducer(broker.address, **QUICK) as producer:
                delivery = producer.send("t", b"v")
                await broker.until_asked(METADATA, 6)
                broker.topics["t"] = [(broker.broker_id, 1)]
                assert (await delivery).offset == 0

    run_without_leaks(scenario())


def test_a_leader_that_nobody_knows_is_waited_for_without_haste():
    async def scenario():
        async with FaultyLog(1, faults()) as broker:
            broker.topics["t"] = [(7, 0)]
            async with AsyncProducer(broker.address, **QUICK) as producer:
                delivery = producer.send("t", b"v")
                await broker.until_asked(METADATA, 6)
                broker.topics["t"] = [(broker.broker_id, 1)]
                assert (await delivery).offset == 0

    run_without_leaks(scenario())


def test_a_users_own_partitioner_decides_also_for_records_that_waited():
    class Last:
        def configure(self, configs):
            self.client_id = configs["client_id"]

        def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
            return cluster.partition_count(topic) - 1

        def close(self):
            self.client_id = "closed"

    own = Last()

    async def scenario():
        async with (
            FaultyLog(3, faults()) as broker,
            AsyncProducer(
                broker.address, partitioner_class=own, client_id="me", **QUICK
            ) as producer,
        ):
            assert own.client_id == "me"
            first, second = producer.send("t", b"0"), producer.send("t", b"1", key=b"k")
            assert {(await first).partition, (await second).partition} == {2}
            assert (await producer.send("t", b"2")).partition == 2

    run_without_leaks(scenario())
    assert own.client_id == "closed"
