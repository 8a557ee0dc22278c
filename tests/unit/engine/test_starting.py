"""A client that starts before its brokers do: it looks for them, for as long as it was told to."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import NoBrokerReachable
from moldau.client.producer import AsyncProducer
from moldau.testing.virtual import run_virtually

CLIENTS = pytest.mark.parametrize("client", [AsyncAdmin, AsyncConsumer, AsyncProducer])


@CLIENTS
def test_a_broker_that_comes_a_little_later_is_found(client):
    async def story(world):
        await world.broker.stop()
        made = client(**world.client())
        starting = asyncio.ensure_future(made.start())
        await asyncio.sleep(8)
        assert not starting.done()
        await world.broker.start()
        await starting
        await made.close()

    run_virtually(story)


@CLIENTS
@pytest.mark.parametrize("timeout_ms", [0, 3_000])
def test_one_that_does_not_come_in_time_is_named(client, timeout_ms):
    async def story(world):
        await world.broker.stop()
        began = world.now
        made = client(**world.client(), bootstrap_timeout_ms=timeout_ms)
        with pytest.raises(NoBrokerReachable, match=world.bootstrap_servers):
            await made.start()
        took_ms = (world.now - began) * 1000
        assert took_ms <= timeout_ms + 1
        assert timeout_ms - took_ms <= 1_200  # no pause is longer, so no more is left unused

    run_virtually(story)


def test_one_that_hears_and_does_not_answer_does_not_make_it_wait_longer():
    async def story(world):
        await world.broker.stop()
        began = world.now
        made = AsyncProducer(**world.client(), bootstrap_timeout_ms=5_000)
        starting = asyncio.ensure_future(made.start())
        await asyncio.sleep(2)
        world.network.partition(["client"], ["broker"])
        with pytest.raises(NoBrokerReachable):
            await starting
        assert world.now - began <= 5.001

    run_virtually(story)


def test_the_wait_is_said_once(caplog):
    async def story(world):
        await world.broker.stop()
        with pytest.raises(NoBrokerReachable):
            await AsyncProducer(**world.client()).start()

    with caplog.at_level(logging.WARNING, "moldau.engine"):
        run_virtually(story)
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("trying again for 10000 ms: no broker could be reached")


def test_a_start_that_is_cancelled_may_be_tried_again():
    async def story(world):
        await world.broker.stop()
        made = AsyncConsumer(**world.client())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await made.start()
        await world.broker.start()
        await made.start()
        await made.close()

    run_virtually(story)
