"""Whatever a broker does, who waits is told by name, nothing hangs and nothing is left behind."""

from __future__ import annotations

import asyncio
import struct

import pytest

from kits.leaks import run_without_leaks
from kits.scripted_broker import (
    API_VERSIONS,
    HEARTBEAT,
    METADATA,
    ScriptedBroker,
    encoded_body,
    silence,
)
from moldau.base.network import Address
from moldau.client.errors import (
    BrokerError,
    ConnectionLost,
    CorruptAnswer,
    RequestTimedOut,
    UnsupportedVersion,
)
from moldau.engine.connection import RESPONSE_SIZE_MAX, ClientConnection
from moldau.engine.handshake import Expected
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.metadata import ApiVersionsResponse, MetadataRequest
from moldau.protocol.messages.topics import CreateTopicsRequest

METADATA_VERSION = 12
HEARTBEAT_VERSION = 4


async def connected(broker, **settings):
    made = ConnectionSettings(**settings)
    address = Address("127.0.0.1", broker.port)
    return await ClientConnection.open(system_ports(made).network, address, made)


def negative_size(asked):
    asked.writer.write(struct.pack(">i", -5) + b"x" * 100)


def endless_frame(asked):
    asked.writer.write(struct.pack(">i", RESPONSE_SIZE_MAX + 1) + b"x" * 100)


def wrong_correlation_id(asked):
    asked.frame(b"\0" * 50, correlation_id=asked.header.correlation_id + 1)


def garbage(asked):
    asked.frame(b"\xff" * 400)


def negative_count(asked):
    # header tags, throttle time, then an array of -7 brokers: as a varint it claims four billion
    asked.frame(b"\0" + bytes(4) + b"\xfa\xff\xff\xff\x0f" + bytes(200))


def cut_short(asked):
    asked.frame(b"\0" + bytes(4) + b"\x05")


def followed_by_more(asked):
    asked.writer.write(_longer(asked.encoded(_honest(asked)), b"tail"))


def unasked_for(asked):
    asked.answer(_honest(asked))
    asked.frame(b"\0" * 20, correlation_id=77)


def _honest(asked):
    return ScriptedBroker().metadata(asked.request)


def _longer(frame, more):
    return struct.pack(">i", len(frame) - 4 + len(more)) + frame[4:] + more


def hello_of_another_protocol(asked):
    asked.writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    "lie",
    [negative_size, endless_frame, wrong_correlation_id, garbage, negative_count, cut_short,
     followed_by_more, hello_of_another_protocol],
)  # fmt: skip
def test_a_lie_is_a_corrupt_answer_for_its_request_and_a_lost_connection_for_those_behind(lie):
    async def scenario():
        async with ScriptedBroker(metadata=lie) as broker:
            connection = await connected(broker)
            waiting = [connection.send(MetadataRequest(), METADATA_VERSION) for _ in range(3)]
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in told] == [
                CorruptAnswer,
                ConnectionLost,
                ConnectionLost,
            ]
            assert str(broker.port) in str(told[0])
            assert not connection.is_open

    run_without_leaks(scenario())


def test_an_answer_that_nobody_asked_for_ends_the_connection():
    async def scenario():
        async with ScriptedBroker(metadata=unasked_for) as broker:
            connection = await connected(broker)
            lost = asyncio.Event()
            connection.on_lost = lambda _: lost.set()
            await connection.call(MetadataRequest([]))
            await lost.wait()
            with pytest.raises(ConnectionLost, match="without a request"):
                connection.send(MetadataRequest(), METADATA_VERSION)

    run_without_leaks(scenario())


def test_a_broker_that_vanishes_in_the_middle_of_a_frame_is_a_lost_connection():
    async def half(asked):
        asked.writer.write(asked.encoded(_honest(asked))[:-3])
        await asked.writer.drain()
        asked.writer.transport.abort()

    async def scenario():
        async with ScriptedBroker(metadata=half) as broker:
            connection = await connected(broker)
            with pytest.raises(ConnectionLost):
                await connection.call(MetadataRequest([]))

    run_without_leaks(scenario())


def test_silence_times_out_the_first_and_loses_the_others():
    async def scenario():
        async with ScriptedBroker(metadata=silence) as broker:
            connection = await connected(broker)
            waiting = [
                connection.send(MetadataRequest(), METADATA_VERSION, timeout_ms=50)
                for _ in range(2)
            ]
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in told] == [RequestTimedOut, ConnectionLost]
            assert "Metadata" in str(told[0])

    run_without_leaks(scenario())


def test_a_time_out_of_one_request_may_be_longer_than_the_usual():
    released = asyncio.Event()

    async def late(asked):
        await released.wait()
        asked.answer(_honest(asked))

    async def scenario():
        async with ScriptedBroker(metadata=late, heartbeat=silence) as broker:
            connection = await connected(broker)
            patient = connection.send(MetadataRequest(), METADATA_VERSION, timeout_ms=20_000)
            # Behind it, since the broker answers in order, nobody can be overdue before it is.
            behind = connection.send(HeartbeatRequest(), HEARTBEAT_VERSION, timeout_ms=20)
            await asyncio.sleep(0.1)
            assert not patient.done()
            assert not behind.done()
            released.set()
            await patient
            connection.close()
            with pytest.raises(ConnectionLost):
                await behind

    run_without_leaks(scenario())


def test_an_answer_after_the_time_out_reaches_nobody():
    async def scenario():
        kept = []
        async with ScriptedBroker(metadata=kept.append) as broker:
            connection = await connected(broker)
            with pytest.raises(RequestTimedOut):
                await connection.send(MetadataRequest([]), METADATA_VERSION, timeout_ms=50)
            kept[0].answer(_honest(kept[0]))
            again = await connected(broker)
            broker.on("metadata", broker.say_metadata)
            assert (await again.call(MetadataRequest([]))).cluster_id == "scripted"
            again.close()

    run_without_leaks(scenario())


def test_a_caller_that_gave_up_does_not_disturb_the_answers_of_others():
    async def scenario():
        async with ScriptedBroker() as broker:
            connection = await connected(broker)
            first = connection.send(MetadataRequest([]), METADATA_VERSION)
            second = connection.send(MetadataRequest([]), METADATA_VERSION)
            first.cancel()
            assert (await second).cluster_id == "scripted"
            assert connection.in_flight == 0
            connection.close()

    run_without_leaks(scenario())


def test_an_old_broker_that_refuses_the_newest_hello_is_asked_in_its_own_version():
    async def scenario():
        async with ScriptedBroker() as broker:
            broker.newest[API_VERSIONS] = 2
            connection = await connected(broker)
            assert connection.agreed_version(MetadataRequest) == broker.newest[METADATA]
            versions = [asked.header.api_version for asked in broker.asked]
            assert versions == [5, 2]
            connection.close()

    run_without_leaks(scenario())


def test_a_broker_that_refuses_without_naming_versions_is_asked_in_version_0():
    async def scenario():
        def refuse(asked):
            if asked.header.api_version:
                asked.writer.write(asked.encoded(ApiVersionsResponse(35), version=0))
            else:
                broker.say_versions(asked)

        async with ScriptedBroker(api_versions=refuse) as broker:
            connection = await connected(broker)
            assert [asked.header.api_version for asked in broker.asked] == [5, 0]
            connection.close()

    run_without_leaks(scenario())


def test_a_broker_that_is_another_than_expected_says_so_and_is_not_talked_to():
    async def scenario():
        async with ScriptedBroker() as broker:
            broker.on("api_versions", lambda asked: asked.answer(ApiVersionsResponse(129)))
            settings = ConnectionSettings()
            address = Address("127.0.0.1", broker.port)
            network = system_ports(settings).network
            with pytest.raises(BrokerError) as refused:
                await ClientConnection.open(network, address, settings, Expected(7, "mine"))
            assert refused.value.code is ErrorCode.REBOOTSTRAP_REQUIRED
            (hello,) = broker.requests(API_VERSIONS)
            assert (hello.node_id, hello.cluster_id) == (7, "mine")

    run_without_leaks(scenario())


def test_a_broker_without_any_api_is_refused():
    async def scenario():
        async with ScriptedBroker() as broker:
            broker.on("api_versions", lambda asked: asked.answer(ApiVersionsResponse()))
            with pytest.raises(CorruptAnswer):
                await connected(broker)

    run_without_leaks(scenario())


def test_an_api_the_broker_does_not_serve_or_only_in_other_versions_is_refused_by_name():
    async def scenario():
        async with ScriptedBroker() as broker:
            connection = await connected(broker, version_ceilings={METADATA: -1})
            with pytest.raises(UnsupportedVersion, match="CreateTopics"):
                connection.agreed_version(CreateTopicsRequest)
            with pytest.raises(UnsupportedVersion, match=r"serves 0--1, we speak 0-13"):
                connection.agreed_version(MetadataRequest)
            connection.close()

    run_without_leaks(scenario())


def test_a_ceiling_holds_the_client_to_an_older_version():
    async def scenario():
        async with ScriptedBroker() as broker:
            connection = await connected(broker, version_ceilings={METADATA: 4, API_VERSIONS: 1})
            await connection.call(MetadataRequest([]))
            assert [asked.header.api_version for asked in broker.asked] == [1, 4]
            connection.close()

    run_without_leaks(scenario())


def throttled(milliseconds):
    def answer(asked):
        asked.answer(HeartbeatResponse(throttle_time_ms=milliseconds))

    return answer


def test_a_broker_that_throttles_is_left_alone_for_as_long_as_it_asks():
    async def scenario():
        async with ScriptedBroker(heartbeat=throttled(120)) as broker:
            connection = await connected(broker)
            loop = asyncio.get_running_loop()
            before = loop.time()
            await connection.send(HeartbeatRequest(), HEARTBEAT_VERSION)
            assert connection.throttled_until >= before + 0.12
            held = connection.send(HeartbeatRequest(), HEARTBEAT_VERSION)
            await held
            assert loop.time() >= before + 0.12
            assert len(broker.requests(HEARTBEAT)) == 2
            connection.close()

    run_without_leaks(scenario())


def test_a_throttle_time_of_before_kip_219_has_been_waited_for_by_the_broker():
    async def scenario():
        async with ScriptedBroker(heartbeat=throttled(60_000)) as broker:
            connection = await connected(broker)
            for _ in range(3):
                await connection.send(HeartbeatRequest(), 1)
            connection.close()

    run_without_leaks(scenario())


def test_a_throttle_time_beyond_reason_is_honoured_only_as_long_as_an_answer_is_waited_for():
    async def scenario():
        async with ScriptedBroker(heartbeat=throttled(2**31 - 1)) as broker:
            connection = await connected(broker, request_timeout_ms=400)
            for _ in range(2):
                await connection.send(HeartbeatRequest(), HEARTBEAT_VERSION)
            connection.close()

    run_without_leaks(scenario())


def test_what_was_under_way_when_the_broker_asked_for_quiet_is_not_overdue_meanwhile():
    async def scenario():
        answers = []

        def first_throttles_then_waits(asked):
            if not answers:
                throttled(400)(asked)
            answers.append(asked)

        async with ScriptedBroker(heartbeat=first_throttles_then_waits) as broker:
            connection = await connected(broker, request_timeout_ms=400)
            first = connection.send(HeartbeatRequest(), HEARTBEAT_VERSION)
            second = connection.send(HeartbeatRequest(), HEARTBEAT_VERSION)
            await first
            await asyncio.sleep(0.45)
            assert not second.done()
            answers[1].answer(HeartbeatResponse())
            await second
            connection.close()

    run_without_leaks(scenario())


def test_a_connection_that_nobody_uses_is_closed_before_the_broker_does():
    async def scenario():
        async with ScriptedBroker() as broker:
            connection = await connected(broker, connections_max_idle_ms=30)
            lost = asyncio.Event()
            connection.on_lost = lambda _: lost.set()
            await lost.wait()
            assert connection.was_idle
            with pytest.raises(ConnectionLost, match="idle"):
                connection.send(MetadataRequest(), METADATA_VERSION)

    run_without_leaks(scenario())


def test_a_request_without_an_answer_is_over_when_it_is_sent():
    async def scenario():
        async with ScriptedBroker(heartbeat=silence) as broker:
            connection = await connected(broker)
            sent = connection.send(HeartbeatRequest(), HEARTBEAT_VERSION, answered=False)
            assert sent.done()
            assert connection.in_flight == 0
            await connection.call(MetadataRequest([]))
            connection.close()

    run_without_leaks(scenario())


def test_a_body_that_is_cut_anywhere_is_a_corrupt_answer():
    async def scenario():
        async with ScriptedBroker() as broker:
            whole = encoded_body(broker.metadata(MetadataRequest([])), METADATA_VERSION)
            for size in range(0, len(whole), 3):
                cut = b"\0" + whole[:size]
                broker.on("metadata", lambda asked, cut=cut: asked.frame(cut))
                connection = await connected(broker)
                with pytest.raises(CorruptAnswer):
                    await connection.call(MetadataRequest([]), METADATA_VERSION)

    run_without_leaks(scenario())
