"""Requests whose answers go to a taker, that are rendered, and that leave together."""

from __future__ import annotations

import asyncio
import struct

import pytest

from moldau.base.network import Address
from moldau.client.errors import ConnectionLost
from moldau.engine.connection import JOINED_SIZE_MAX, ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import ProduceRequest, ProduceResponse
from moldau.protocol.registry import api_of, encode_request, encode_response

VERSION = 9
API = api_of(ProduceRequest)
PRODUCE = ProduceRequest(None, -1, 1000, [])


class Taker:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def done(self):
        return False

    def set_result(self, result):
        self.told.append(result)

    def set_exception(self, error):
        self.told.append(error)


class Letters:
    """A template that knows one answer."""

    api, version = API, VERSION

    def render(self, correlation_id, content):
        return [struct.pack(">ii", 4 + len(content), correlation_id), content]

    def read(self, frame):
        return "the usual" if frame[4:] == b"usual" else None


class TakingStream:
    """A stream that takes everything at once."""

    peer = Address("broker", 9092)
    unsent = 0

    def __init__(self):
        self.sent = []
        self.receiver = None

    def send(self, parts):
        self.sent.append([bytes(part) for part in parts])

    def expect(self, size):
        pass

    def abort(self):
        self.receiver.closed(None)


def run(scenario):
    async def connected():
        stream = TakingStream()
        connection = ClientConnection(ConnectionSettings())
        stream.receiver = connection._accept(stream)
        scenario(connection, stream)
        connection.close()

    asyncio.run(connected())


def framed(content):
    return memoryview(struct.pack(">i", len(content)) + content)


def decoded_answer(correlation_id):
    parts = encode_response(API, VERSION, correlation_id, ProduceResponse([], 0))
    return memoryview(b"".join(parts))


def test_a_taker_is_told_as_soon_as_the_answer_is_there():
    def scenario(connection, _):
        taker = Taker()
        connection.send_for(taker, PRODUCE, VERSION)
        connection.received(decoded_answer(0))
        assert [type(one) for one in taker.told] == [ProduceResponse]

    run(scenario)


def test_the_usual_answer_is_read_by_the_template_and_any_other_decoded():
    def scenario(connection, stream):
        takers = Taker(), Taker()
        for taker in takers:
            connection.send_rendered(taker, Letters(), b"content")
        assert stream.sent[1] == [struct.pack(">ii", 11, 1) + b"content"]
        connection.received(framed(struct.pack(">i", 0) + b"usual"))
        connection.received(decoded_answer(1))
        assert takers[0].told == ["the usual"]
        assert [type(one) for one in takers[1].told] == [ProduceResponse]

    run(scenario)


def test_a_taker_is_told_of_a_lost_connection():
    def scenario(connection, stream):
        taker = Taker()
        connection.send_rendered(taker, Letters(), b"content")
        stream.abort()
        assert [type(one) for one in taker.told] == [ConnectionLost]
        with pytest.raises(ConnectionLost):
            connection.send_rendered(taker, Letters(), b"content")

    run(scenario)


def test_corked_requests_leave_together_in_their_order():
    def scenario(connection, stream):
        connection.cork()
        for _ in range(2):
            connection.send_for(Taker(), PRODUCE, VERSION)
        assert not stream.sent
        connection.uncork()
        one, other = (b"".join(encode_request(API, VERSION, n, "", PRODUCE)) for n in (0, 1))
        assert stream.sent == [[one + other]]
        connection.send_for(Taker(), PRODUCE, VERSION)
        assert len(stream.sent) == 2

    run(scenario)


def test_large_content_is_not_copied_into_its_request():
    def scenario(connection, stream):
        content = bytes(JOINED_SIZE_MAX)
        connection.send_rendered(Taker(), Letters(), content)
        assert [len(part) for part in stream.sent[0]] == [8, len(content)]

    run(scenario)


def test_a_broker_that_asked_for_quiet_gets_it_whatever_is_uncorked():
    def scenario(connection, stream):
        connection._keep_quiet(10)
        connection.cork()
        connection.send_for(Taker(), PRODUCE, VERSION)
        connection.uncork()
        assert not stream.sent

    run(scenario)


def test_unanswered_requests_are_done_when_they_have_left_and_not_while_they_are_corked():
    def scenario(connection, _):
        taker = Taker()
        connection.cork()
        connection.send_for(taker, PRODUCE, VERSION, answered=False)
        connection.drained()
        assert not taker.told
        connection.uncork()
        assert taker.told == [None]

    run(scenario)
