"""A client that has been closed is not started again."""

from __future__ import annotations

import asyncio

import pytest

from kits.leaks import run_without_leaks
from kits.scripted_log import ScriptedLog
from moldau.client.admin import Admin, AsyncAdmin
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.errors import ClientClosed
from moldau.client.producer import AsyncProducer, Producer

ASYNCHRONOUS = (AsyncProducer, AsyncConsumer, AsyncAdmin)
BLOCKING = (Producer, Consumer, Admin)


@pytest.mark.parametrize("kind", ASYNCHRONOUS)
@pytest.mark.parametrize("was_started", [True, False])
def test_with_is_refused_in_asyncio(kind, was_started):
    async def scenario():
        async with ScriptedLog() as broker:
            client = kind(broker.address)
            if was_started:
                await client.start()
            await client.close()
            with pytest.raises(ClientClosed, match="has been closed"):
                async with client:
                    pass
            await client.close()

    run_without_leaks(scenario())


@pytest.mark.parametrize("kind", BLOCKING)
@pytest.mark.parametrize("was_started", [True, False])
def test_with_is_refused_in_threads(kind, was_started):
    def blocking(address):
        client = kind(address)
        if was_started:
            client.start()
        client.close()
        with pytest.raises(ClientClosed, match="has been closed"), client:
            pass
        client.close()

    async def scenario():
        async with ScriptedLog() as broker:
            await asyncio.to_thread(blocking, broker.address)

    run_without_leaks(scenario())
