"""Answers whose records stay in the receive buffer until they are released."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import ProtocolError
from moldau.base.network import Address
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from moldau.protocol.registry import api_of, encode_response

VERSION = 17
API = api_of(FetchRequest)
RECORDS = b"r" * 1000


class LendingStream:
    """A stream that counts the buffers it has lent."""

    peer = Address("broker", 9092)
    unsent = 0

    def __init__(self, *, lends=True):
        self.lends = lends
        self.lent = self.given_back = 0

    def lend(self):
        if not self.lends:
            return None
        self.lent += 1
        return self.give_back

    def give_back(self):
        self.given_back += 1

    def send(self, parts): ...

    def expect(self, size): ...

    def abort(self): ...


def framed(correlation_id):
    told = FetchablePartitionResponse(0, aborted_transactions=None, records=(RECORDS,))
    topics = [FetchableTopicResponse(topic_id=b"t" * 16, partitions=[told])]
    parts = encode_response(API, VERSION, correlation_id, FetchResponse(responses=topics))
    return bytearray(b"".join(parts))


def records(answer):
    return bytes(answer.message.responses[0].partitions[0].records)


class Asking:
    """A connection with a request that has been sent."""

    def __init__(self, **options):
        self.stream = LendingStream(**options)
        self.connection = ClientConnection(ConnectionSettings())
        self.connection._accept(self.stream)

    async def ask(self):
        asking = asyncio.ensure_future(self.connection.call_in_place(FetchRequest(), VERSION))
        await asyncio.sleep(0)
        return asking


def run(scenario, **options):
    async def connected():
        one = Asking(**options)
        await scenario(one)
        one.connection.close()

    asyncio.run(connected())


def test_records_are_those_of_the_buffer_until_they_are_released():
    async def scenario(one):
        asking = await one.ask()
        buffer = framed(0)
        assert one.connection.received(memoryview(buffer)) == len(buffer)
        answer = await asking
        assert records(answer) == RECORDS
        buffer[buffer.index(b"r")] = ord("R")
        assert records(answer).startswith(b"R")
        assert one.stream.given_back == 0
        answer.release()
        answer.release()
        assert one.stream.given_back == 1

    run(scenario)


def test_records_are_copied_where_the_buffer_is_not_lent():
    async def scenario(one):
        asking = await one.ask()
        buffer = framed(0)
        one.connection.received(memoryview(buffer))
        buffer[:] = bytes(len(buffer))
        answer = await asking
        assert records(answer) == RECORDS
        answer.release()

    run(scenario, lends=False)


def test_only_the_last_answer_in_a_buffer_is_lent():
    async def scenario(one):
        first, second = await one.ask(), await one.ask()
        buffer = framed(0) + framed(1)
        one.connection.received(memoryview(buffer))
        assert one.stream.lent == 1
        (await second).release()
        buffer[:] = bytes(len(buffer))
        assert records(await first) == RECORDS

    run(scenario)


@pytest.mark.parametrize("has_come", [False, True])
def test_an_answer_that_nobody_wants_any_more_is_not_kept(has_come):
    async def scenario(one):
        asking = await one.ask()
        if not has_come:
            asking.cancel()
            await asyncio.sleep(0)
        one.connection.received(memoryview(framed(0)))
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        assert one.stream.lent == one.stream.given_back == has_come

    run(scenario)


def test_a_buffer_with_what_is_no_answer_is_given_back():
    async def scenario(one):
        asking = await one.ask()
        with pytest.raises(ProtocolError):
            one.connection.received(memoryview(b"\0\0\0\x06\0\0\0\0\0\0"))
        assert one.stream.lent == one.stream.given_back == 1
        asking.cancel()

    run(scenario)
