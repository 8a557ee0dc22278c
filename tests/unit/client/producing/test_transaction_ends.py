"""The end of a transaction when the coordinator is late or forgetful."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import ClientError, InvalidTransactionTimeout, ProducerFenced
from moldau.client.producer import AsyncProducer
from moldau.testing.virtual import run_virtually

OLD_TRANSACTIONS = {0: 11, 26: 4, 28: 4}
"""Held to these a producer adds partitions to a transaction by itself, as before KIP-890."""

PROTOCOLS = pytest.mark.parametrize("ceilings", [{}, OLD_TRANSACTIONS], ids=["new", "old"])

FORGETFUL = {
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "10000",
}
"""A coordinator that forgets an id within minutes; by default it takes a week."""


def transactional(world, host="writer", **settings):
    return AsyncProducer(**world.client(host), transactional_id="x", **settings)


async def committed_values(world, count):
    wishes = {"topics": ["t"], "auto_offset_reset": "earliest"}
    async with AsyncConsumer(
        **world.client("reader"), isolation_level="read_committed", **wishes
    ) as consumer:
        values = []
        while len(values) < count:
            values += [record.value for record in await consumer.poll(timeout_ms=60_000)]
        assert await consumer.poll(timeout_ms=1_000) == []
        return values


def test_a_commit_has_its_time_from_when_everything_is_acknowledged():
    async def story(world):
        settings = {"max_block_ms": 10_000, "transaction_timeout_ms": 600_000}
        async with transactional(world, **settings) as producer:
            producer.begin_transaction()
            await producer.send("t", b"1")
            world.network.partition(["writer"], ["broker"])
            producer.send("t", b"2")
            committing = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.sleep(30)
            world.network.heal()
            await committing
        assert await committed_values(world, 2) == [b"1", b"2"]

    run_virtually(story, topics=["t"])


def test_an_error_of_the_coordinator_is_not_its_own_cause():
    """Who looks for what was behind it would look for ever."""

    async def story(world):
        with pytest.raises(InvalidTransactionTimeout) as refused:
            async with transactional(world, transaction_timeout_ms=2**31 - 1):
                pass
        assert refused.value.__cause__ is None
        async with transactional(world) as producer:
            producer.begin_transaction()
            await producer.send("t", b"lost")
            async with transactional(world, "other"):
                with pytest.raises(ProducerFenced) as fenced:
                    await producer.commit_transaction()
        cause = fenced.value.__cause__
        assert isinstance(cause, ClientError)
        assert cause.__cause__ is None

    run_virtually(story, topics=["t"])


@PROTOCOLS
def test_an_abort_is_done_when_the_coordinator_has_forgotten_the_producer(ceilings):
    async def story(world):
        async with transactional(world, version_ceilings=ceilings) as producer:
            await asyncio.sleep(200)
            producer.begin_transaction()
            delivery = producer.send("t", b"lost")
            with pytest.raises(ClientError):
                await producer.commit_transaction()
            assert delivery.exception() is not None
            await producer.abort_transaction()
            async with producer.transaction():
                producer.send("t", b"kept")
        assert await committed_values(world, 1) == [b"kept"]

    run_virtually(story, topics=["t"], settings=FORGETFUL)


@PROTOCOLS
def test_an_abort_finds_out_that_a_forgotten_id_is_anothers_by_now(ceilings):
    async def story(world):
        async with transactional(world, version_ceilings=ceilings) as producer:
            await asyncio.sleep(200)
            async with transactional(world, "other") as other:
                producer.begin_transaction()
                producer.send("t", b"lost")
                with pytest.raises(ClientError):
                    await producer.commit_transaction()
                with pytest.raises(ProducerFenced):
                    await producer.abort_transaction()
                async with other.transaction():
                    other.send("t", b"other's")
        assert await committed_values(world, 1) == [b"other's"]

    run_virtually(story, topics=["t"], settings=FORGETFUL)


@PROTOCOLS
def test_an_abort_is_done_when_the_coordinator_never_heard_of_the_transaction(ceilings):
    async def story(world):
        async with transactional(world, version_ceilings=ceilings) as producer:
            async with producer.transaction():
                producer.send("t", b"1")
            producer.begin_transaction()
            delivery = producer.send("t", b"never")
            producer._core.sender.close_batches()
            producer._core.sender.pump()
            await producer.abort_transaction()
            assert delivery.done()
            async with producer.transaction():
                producer.send("t", b"2")
        assert await committed_values(world, 2) == [b"1", b"2"]

    run_virtually(story, topics=["t"])


@PROTOCOLS
def test_an_abort_is_done_when_the_coordinator_was_not_reached_with_the_beginning(ceilings):
    async def story(world):
        async with transactional(world, version_ceilings=ceilings) as producer:
            async with producer.transaction():
                producer.send("t", b"1")
            world.broker.kill()
            producer.begin_transaction()
            delivery = producer.send("t", b"never")
            producer._core.sender.close_batches()
            await asyncio.sleep(1)
            aborting = asyncio.ensure_future(producer.abort_transaction())
            await asyncio.sleep(1)
            await world.broker.start()
            await aborting
            assert delivery.done()
            async with producer.transaction():
                producer.send("t", b"2")
        assert await committed_values(world, 2) == [b"1", b"2"]

    run_virtually(story, topics=["t"])
