"""A client's request in an envelope: what the controller does with it, and what comes back."""

import asyncio
import functools
import struct

import pytest

from kits.log_kit import HandClock
from kits.request_kit import context, session
from moldau.base.errors import ProtocolError
from moldau.base.limits import PLAIN_REQUEST_BYTES
from moldau.base.memory_budget import MemoryBudget
from moldau.engine.errors import ClientClosed, ConnectionLost
from moldau.observe.requests import RequestMetrics
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import (
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterBrokerRequest,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.protocol.registry import api_of, decode_response, encode_request
from moldau.security.session import Principal
from moldau.server.network.dispatch import Dispatcher, Route
from moldau.server.nodes import forwarding
from moldau.server.nodes.envelope import encode_principal, seal
from moldau.server.nodes.forwarding import ENVELOPE_BYTES, FORWARDED, Forwarder
from moldau.server.nodes.inner_requests import EnvelopeHandler

CREATE_TOPICS, METADATA = 19, 3
VERSION = 7
CORRELATION_ID = 77
FRAME_LIMIT = 1 << 20
ALICE = Principal("User", "alice")
CLIENT = session("192.0.2.7", 50123, principal=ALICE)


def in_a_loop(test):
    """Run a coroutine function as a test."""

    @functools.wraps(test)
    def run(*arguments, **values):
        asyncio.run(asyncio.wait_for(test(*arguments, **values), 30))

    return run


def frame(request=None, version=VERSION, correlation_id=CORRELATION_ID):
    request = request or CreateTopicsRequest([CreatableTopic("words", 1, 1)])
    parts = encode_request(api_of(type(request)), version, correlation_id, "tool", request)
    return b"".join(parts)[4:]


def created(response_data):
    return decode_response(api_of(CreateTopicsRequest), VERSION, memoryview(response_data))


class Controller:
    """A dispatcher of CreateTopics behind an envelope handler."""

    def __init__(self, answer=None):
        self.seen = []
        self.answer = answer or CreateTopicsResponse(topics=[CreatableTopicResult("words")])
        dispatcher = Dispatcher(
            [Route(CREATE_TOPICS, "0-7", self.handle, RequestMetrics(), ())],
            HandClock(),
            lambda: None,
        )
        self.envelopes = EnvelopeHandler(
            dispatcher.handle, FORWARDED, MemoryBudget(), frame_limit=1 << 20
        )

    def handle(self, request, asked):
        self.seen.append((request, asked))
        return self.answer

    async def open(self, envelope):
        return await self.envelopes(envelope, context(asker=session(listener="CONTROLLER")))


class Channel:
    """A way to the controller whose answers a test has written."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.sent = []
        self.looks = 0

    async def call(self, request):
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_elsewhere(self):
        self.looks += 1


class TestController:
    @in_a_loop
    async def test_the_request_is_answered_as_its_client_would_be(self):
        controller = Controller()
        answer = await controller.open(seal(frame(), CLIENT))
        assert answer.error_code == ErrorCode.NONE
        assert struct.unpack_from(">i", answer.response_data) == (CORRELATION_ID,)
        assert created(answer.response_data) == controller.answer

    @in_a_loop
    async def test_the_handler_learns_who_the_client_is(self):
        controller = Controller()
        await controller.open(seal(frame(), CLIENT))
        ((request, asked),) = controller.seen
        assert request.topics[0].name == "words"
        assert (asked.version, asked.client_id) == (VERSION, "tool")
        assert asked.session.principal == ALICE
        assert asked.session.peer.host == "192.0.2.7"

    @in_a_loop
    async def test_an_answer_that_takes_a_while_is_waited_for(self):
        async def later():
            await asyncio.sleep(0.01)
            return CreateTopicsResponse(topics=[CreatableTopicResult("late")])

        answer = await Controller(later()).open(seal(frame(), CLIENT))
        assert created(answer.response_data).topics[0].name == "late"

    @in_a_loop
    async def test_large_requests_wait_for_their_turn_and_are_all_answered(self):
        many = CreateTopicsRequest([CreatableTopic(f"t{n}", 1, 1) for n in range(20_000)])
        controller = Controller()
        answers = await asyncio.gather(
            *(controller.open(seal(frame(many), CLIENT)) for _ in range(3))
        )
        assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 3
        assert len(controller.seen) == 3

    @in_a_loop
    async def test_a_bug_is_an_error_of_the_envelope(self):
        async def broken():
            raise ZeroDivisionError

        answer = await Controller(broken()).open(seal(frame(), CLIENT))
        assert answer == EnvelopeResponse(None, ErrorCode.UNKNOWN_SERVER_ERROR)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x00",
            struct.pack(">hhi", METADATA, 1, 1),
            frame(version=VERSION)[:-3],
            struct.pack(">hhi", CREATE_TOPICS, 99, 1) + bytes(20),
            struct.pack(">hhi", CREATE_TOPICS, VERSION, 1),
        ],
    )
    @in_a_loop
    async def test_what_is_no_request_of_the_controller_is_refused(self, data):
        controller = Controller()
        answer = await controller.open(EnvelopeRequest(data, None, b""))
        assert answer == EnvelopeResponse(None, ErrorCode.INVALID_REQUEST)
        assert controller.seen == []

    @pytest.mark.parametrize(
        ("principal", "host"),
        [(b"", b""), (b"\x00\x09", b""), (encode_principal(ALICE) + b"x", b""), (None, b"12345")],
    )
    @in_a_loop
    async def test_a_client_that_cannot_be_read_is_refused(self, principal, host):
        answer = await Controller().open(EnvelopeRequest(frame(), principal, host))
        assert answer == EnvelopeResponse(None, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)

    @in_a_loop
    async def test_one_of_whom_nothing_is_said_is_anonymous(self):
        controller = Controller()
        await controller.open(EnvelopeRequest(frame(), None, b""))
        ((_, asked),) = controller.seen
        assert str(asked.session.principal) == "User:ANONYMOUS"


class TestForwarder:
    @in_a_loop
    async def test_the_controllers_answer_is_framed_and_passed_on(self):
        channel = Channel(EnvelopeResponse(b"answer"))
        parts = await Forwarder(channel, HandClock(), frame_limit=FRAME_LIMIT)(frame(), CLIENT)
        assert b"".join(parts) == struct.pack(">i", 6) + b"answer"
        assert channel.sent == [seal(frame(), CLIENT)]

    @in_a_loop
    async def test_it_looks_for_another_controller_and_asks_again(self):
        channel = Channel(
            ConnectionLost("gone"),
            EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER),
            EnvelopeResponse(b"answer"),
        )
        parts = await Forwarder(channel, HandClock(), frame_limit=FRAME_LIMIT)(frame(), CLIENT)
        assert b"".join(parts).endswith(b"answer")
        assert channel.looks == 1  # the channel itself has looked elsewhere after the first

    @pytest.mark.parametrize(
        "answer",
        [EnvelopeResponse(None, ErrorCode.INVALID_REQUEST), ClientClosed("stopping")],
    )
    @in_a_loop
    async def test_what_no_other_controller_would_change_ends_the_connection(self, answer):
        with pytest.raises(ProtocolError):
            await Forwarder(Channel(answer), HandClock(), frame_limit=FRAME_LIMIT)(frame(), CLIENT)

    @pytest.mark.parametrize("frame_limit", [FRAME_LIMIT, 100 << 20])
    @in_a_loop
    async def test_what_no_controller_would_read_is_not_sent(self, frame_limit):
        """It would hang up on everybody whose requests wait on the same connection."""
        read_max = min(frame_limit, PLAIN_REQUEST_BYTES)
        channel = Channel(EnvelopeResponse(b"answer"))
        forwarder = Forwarder(channel, HandClock(), frame_limit=frame_limit)
        with pytest.raises(ProtocolError, match="cannot be forwarded"):
            await forwarder(bytes(read_max), CLIENT)
        await forwarder(bytes(read_max - ENVELOPE_BYTES), CLIENT)
        (sent,) = channel.sent
        (*parts,) = encode_request(api_of(EnvelopeRequest), 0, 1, "broker-1-forwarding", sent)
        assert sum(map(len, parts)) <= read_max

    @pytest.mark.parametrize(
        ("request_", "tries"),
        [
            (CreateTopicsRequest([CreatableTopic("words", 1, 1)], timeout_ms=5_000), 5),
            (CreateTopicsRequest([CreatableTopic("words", 1, 1)], timeout_ms=1), 1),
            (CreateTopicsRequest([CreatableTopic("words", 1, 1)], timeout_ms=600_000), 60),
            (CreateTopicsRequest([CreatableTopic("words", 1, 1)], timeout_ms=0), 60),
            (CreateTopicsRequest([CreatableTopic("a" * 20_000, 1, 1)], timeout_ms=5_000), 60),
            (UnregisterBrokerRequest(1), 60),
        ],
    )
    @in_a_loop
    async def test_it_gives_up_once_the_client_waits_no_more(self, request_, tries, monkeypatch):
        """Of what is large or names no time-out it is not known, and it takes a minute."""
        monkeypatch.setattr(forwarding, "RETRY_S", 0.0)
        clock = HandClock()

        class Silent(Channel):
            async def call(self, request):
                self.sent.append(request)
                clock.now_ms += 1_000
                raise ConnectionLost("gone")

        channel = Silent()
        asked = frame(request_, version=0 if isinstance(request_, UnregisterBrokerRequest) else 7)
        with pytest.raises(ProtocolError, match="gone"):
            await Forwarder(channel, clock, frame_limit=FRAME_LIMIT)(asked, CLIENT)
        assert len(channel.sent) == tries
