"""The cluster as a client sees it: found, followed when it changes, given up when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from kafka_harness.ports import free_port
from kits.leaks import run_without_leaks
from kits.scripted_broker import (
    FIND_COORDINATOR,
    HEARTBEAT,
    METADATA,
    ScriptedBroker,
    silence,
)
from moldau.client.errors import (
    ClientClosed,
    ConnectionLost,
    CorruptAnswer,
    InvalidState,
    InvalidTopic,
    NoBrokerReachable,
    RequestTimedOut,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from moldau.engine.cluster import Cluster, CoordinatorKind, Lane, Node
from moldau.engine.ports import system_ports
from moldau.engine.retry import raise_for, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.metadata import (
    Coordinator,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from moldau.protocol.messages.topics import CreateTopicsRequest

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 10,
         "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 10}  # fmt: skip


def make_cluster(servers, **settings):
    made = ConnectionSettings(bootstrap_servers=servers, **{**QUICK, **settings})
    return Cluster(made, system_ports(made))


@contextlib.asynccontextmanager
async def following(servers, **settings):
    cluster = make_cluster(servers, **settings)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


async def until(cluster, condition):
    """Wait until an image fulfils a condition; the test's own time-out ends it otherwise."""
    reached = asyncio.Event()

    def look(image):
        if condition(image):
            reached.set()

    cluster.on_change(look)
    look(cluster.image)
    await reached.wait()


@contextlib.contextmanager
def deaf_port():
    """A port where connections are taken by the kernel and never answered."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(16)
        yield sock.getsockname()[1]


def test_one_living_bootstrap_server_among_dead_and_deaf_ones_is_enough():
    async def scenario():
        async with ScriptedBroker() as broker:
            with deaf_port() as deaf:
                servers = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{deaf}", broker.address]
                async with following(servers) as cluster:
                    assert cluster.image.cluster_id == "scripted"
                    assert set(cluster.image.brokers) == {1}

    run_without_leaks(scenario())


def test_no_living_bootstrap_server_names_all_that_were_tried_and_advises():
    async def scenario():
        servers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        with pytest.raises(NoBrokerReachable) as failure:
            async with following(servers, bootstrap_timeout_ms=200):
                pass
        text = str(failure.value)
        assert all(server in text for server in servers)
        assert "refused" in text
        assert "advertised.listeners" in text

    run_without_leaks(scenario())


def test_a_bootstrap_server_that_is_no_broker_is_named_for_what_it_is():
    async def scenario():
        def http(asked):
            asked.writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with ScriptedBroker(api_versions=http) as broker:
            with pytest.raises(CorruptAnswer):
                async with following(broker.address):
                    pass

    run_without_leaks(scenario())


def test_a_start_that_is_cancelled_leaves_nothing_once_closed():
    async def scenario():
        with deaf_port() as deaf:
            cluster = make_cluster(f"127.0.0.1:{deaf}")
            starting = asyncio.ensure_future(cluster.start())
            await asyncio.sleep(0.02)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            await cluster.close()

    run_without_leaks(scenario())


def test_a_bootstrap_connection_is_kept_for_the_broker_that_lives_there():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            await cluster.call(1, MetadataRequest([]))
            assert broker.connections == 1

    run_without_leaks(scenario())


def test_requests_to_coordinators_do_not_wait_behind_a_long_one():
    async def scenario():
        heartbeat = HeartbeatResponse()
        async with ScriptedBroker(heartbeat=lambda asked: asked.answer(heartbeat)) as broker:
            async with following(broker.address) as cluster:
                broker.on("metadata", silence)
                slow = (await cluster.connection(1)).send(MetadataRequest([]), 12)
                await cluster.call(1, HeartbeatRequest())
                assert not slow.done()
                assert await cluster.connection(1, Lane.COORDINATION) is not None
                assert broker.connections == 2
            with pytest.raises(ClientClosed):
                await slow

    run_without_leaks(scenario())


def test_a_leader_that_moves_is_learned_and_never_taken_back_by_an_older_answer():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
            one.peers = two.peers = [one, two]
            one.topics = {"moving": [(1, 4)]}
            two.topics = {"moving": [(2, 5)]}
            async with following(one.address) as cluster:
                topic = await cluster.topic("moving", cluster.deadline(5_000))
                assert topic.partitions[0].leader == 1
                one.topics = {"moving": [(2, 5)]}
                cluster.request_refresh()
                await until(cluster, lambda image: image.leader("moving", 0).leader == 2)
                one.topics = {"moving": [(1, 4)]}
                await cluster.refresh()
                assert cluster.image.leader("moving", 0).leader == 2
                assert cluster.image.leader("moving", 0).leader_epoch == 5

    run_without_leaks(scenario())


def test_a_leader_named_by_an_answer_is_used_without_asking():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
            one.topics = {"moving": [(1, 4)]}
            async with following(one.address) as cluster:
                await cluster.topic("moving", cluster.deadline(5_000))
                asked = len(one.requests(METADATA))
                endpoint = MetadataResponseBroker(2, "127.0.0.1", two.port)
                cluster.learn_leader("moving", 0, 2, 5, [endpoint])
                leader = cluster.image.leader("moving", 0).leader
                await cluster.call(leader, MetadataRequest([]))
                assert len(one.requests(METADATA)) == asked
                assert len(two.requests(METADATA)) == 1

    run_without_leaks(scenario())


def test_a_lost_connection_has_metadata_refreshed_elsewhere():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
            one.peers = two.peers = [one, two]
            async with following(one.address) as cluster:
                two.peers = [two]
                await one.stop()
                await until(cluster, lambda image: set(image.brokers) == {2})

    run_without_leaks(scenario())


def test_when_all_known_brokers_are_gone_the_bootstrap_servers_are_asked_again():
    async def scenario():
        async with ScriptedBroker(1) as old, ScriptedBroker(9) as door:
            door.peers = [old]
            async with following(door.address) as cluster:
                assert set(cluster.image.brokers) == {1}
                async with ScriptedBroker(2) as new:
                    door.peers = [new]
                    await old.stop()
                    door.drop_connections()
                    cluster.request_refresh()
                    await until(cluster, lambda image: set(image.brokers) == {2})

    run_without_leaks(scenario())


def test_without_rebootstrapping_the_known_brokers_are_all_there_is():
    async def scenario():
        async with ScriptedBroker(1) as old, ScriptedBroker(9) as door:
            door.peers = [old]
            async with following(door.address, metadata_recovery_strategy="none") as cluster:
                await old.stop()
                door.drop_connections()
                with pytest.raises(NoBrokerReachable, match=str(old.port)):
                    await cluster.call(Node.ANY, MetadataRequest([]))

    run_without_leaks(scenario())


def test_a_broker_that_sends_the_client_back_to_its_bootstrap_servers_is_obeyed():
    async def scenario():
        async with ScriptedBroker(1) as old, ScriptedBroker(9) as door, ScriptedBroker(2) as new:
            door.peers = [old]
            async with following(door.address) as cluster:
                await cluster.call(1, MetadataRequest([]))
                old.on("metadata", lambda asked: asked.answer(MetadataResponse(error_code=129)))
                door.peers = [new]
                door.drop_connections()
                cluster.request_refresh()
                await until(cluster, lambda image: set(image.brokers) == {2})

    run_without_leaks(scenario())


def test_a_broker_that_moves_to_another_address_is_found_there():
    async def scenario():
        async with ScriptedBroker(1) as door, ScriptedBroker(2) as before:
            door.peers = [door, before]
            async with following(door.address) as cluster:
                await cluster.call(2, MetadataRequest([]))
                async with ScriptedBroker(2) as after:
                    door.peers = [door, after]
                    await cluster.refresh()
                    await cluster.call(2, MetadataRequest([]))
                    assert len(after.requests(METADATA)) == 1

    run_without_leaks(scenario())


def test_a_topic_that_is_created_meanwhile_is_found():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            finding = asyncio.ensure_future(cluster.topic("late", cluster.deadline(10_000)))
            await broker.until_asked(METADATA, len(broker.requests(METADATA)) + 1)
            broker.topics["late"] = [(1, 0), (1, 0)]
            topic = await finding
            assert topic.partition_count == 2
            assert topic.available == (0, 1)
            assert cluster.image.names[topic.topic_id] == "late"

    run_without_leaks(scenario())


def test_a_topic_that_nobody_asked_for_yet_is_asked_for_without_a_pause():
    hour_ms = 3_600_000
    patient = {"retry_backoff_ms": hour_ms, "retry_backoff_max_ms": hour_ms}

    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address, **patient) as cluster:
            broker.topics = {"first": [(1, 0)], "second": [(1, 0)], "watched": [(1, 0)]}
            await cluster.topic("first", cluster.deadline(20_000))
            await cluster.topic("second", cluster.deadline(20_000))
            cluster.watch_topics(["watched"])
            await until(cluster, lambda image: "watched" in image.topics)

    run_without_leaks(scenario())


def test_a_topic_that_never_comes_is_unknown_at_the_deadline_and_not_asked_for_again():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            with pytest.raises(UnknownTopicOrPartition, match="nowhere"):
                await cluster.topic("nowhere", cluster.deadline(1_000))
            await cluster.refresh()
            assert broker.requests(METADATA)[-1].topics == []

    run_without_leaks(scenario())


def test_a_forbidden_name_is_refused_at_once_and_asked_for_again_the_next_time():
    async def scenario():
        def refuse(asked):
            told = MetadataResponseTopic(error_code=17, name="bad")
            answer = broker.metadata(asked.request)
            answer.topics = [told for one in answer.topics if one.name == "bad"]
            asked.answer(answer)

        async with (
            ScriptedBroker(metadata=refuse) as broker,
            following(broker.address) as cluster,
        ):
            for _ in range(2):
                with pytest.raises(InvalidTopic, match="bad"):
                    await cluster.topic("bad", cluster.deadline(600_000))
            broker.on("metadata", broker.say_metadata)
            broker.topics["bad"] = [(1, 0)]
            await cluster.topic("bad", cluster.deadline(5_000))

    run_without_leaks(scenario())


def test_a_topic_of_a_cluster_that_cannot_be_asked_times_out_with_the_reason():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            await broker.stop()
            with pytest.raises(RequestTimedOut) as failure:
                await cluster.topic("any", cluster.deadline(100))
            assert isinstance(failure.value.__cause__, (NoBrokerReachable, ConnectionLost))

    run_without_leaks(scenario())


def test_watching_asks_for_the_watched_topics_only_and_forgets_the_others():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            broker.topics = {"a": [(1, 0)], "b": [(1, 0)], "c": [(1, 0)]}
            cluster.watch_topics(["a", "b"])
            await until(cluster, lambda image: set(image.topics) == {"a", "b"})
            cluster.watch_topics(["c"])
            await until(cluster, lambda image: set(image.topics) == {"c"})
            cluster.watch_topics([], all_topics=True)
            await until(cluster, lambda image: set(image.topics) == {"a", "b", "c"})
            assert broker.requests(METADATA)[-1].topics is None

    run_without_leaks(scenario())


def test_an_answer_from_before_the_last_wish_does_not_take_a_topic_away():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            broker.topics = {"a": [(1, 0)]}
            kept = []
            broker.on("metadata", kept.append)
            early = asyncio.ensure_future(cluster.refresh())
            await broker.until_asked(METADATA, 2)
            cluster.watch_topics(["a"])
            cluster.image = cluster.image.merged(
                broker.metadata(MetadataRequest([MetadataRequestTopic(name="a")]))
            )
            kept[0].answer(broker.metadata(MetadataRequest([])))
            await early
            assert set(cluster.image.topics) == {"a"}

    run_without_leaks(scenario())


def test_metadata_is_asked_for_again_when_it_has_become_old():
    async def scenario():
        async with (
            ScriptedBroker() as broker,
            following(broker.address, metadata_max_age_ms=20) as cluster,
        ):
            broker.topics = {"a": [(1, 0)]}
            asked = len(broker.requests(METADATA))
            await broker.until_asked(METADATA, asked + 3)
            assert cluster.image.topics == {}

    run_without_leaks(scenario())


def test_a_hundred_wishes_for_a_refresh_make_one():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            asked = len(broker.requests(METADATA))
            for _ in range(100):
                cluster.request_refresh()
            await broker.until_asked(METADATA, asked + 1)
            await asyncio.sleep(0.05)
            assert len(broker.requests(METADATA)) == asked + 1

    run_without_leaks(scenario())


def test_a_listener_for_metadata_that_fails_does_not_stop_the_others():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            cluster.on_change(lambda image: 1 / 0)
            broker.topics = {"a": [(1, 0)]}
            await cluster.topic("a", cluster.deadline(5_000))
            await until(cluster, lambda image: "a" in image.topics)

    run_without_leaks(scenario())


def test_a_coordinator_is_remembered_until_it_is_forgotten():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:

            def refer(asked):
                asked.answer(
                    FindCoordinatorResponse(
                        coordinators=[Coordinator("g", 2, "127.0.0.1", two.port)]
                    )
                )

            one.on("find_coordinator", refer)
            two.on("heartbeat", lambda asked: asked.answer(HeartbeatResponse()))
            async with following(one.address) as cluster:
                for _ in range(2):
                    found = await cluster.coordinator(
                        CoordinatorKind.GROUP, "g", cluster.deadline(5_000)
                    )
                    await cluster.call(found, HeartbeatRequest())
                assert len(one.requests(FIND_COORDINATOR)) == 1
                cluster.forget_coordinator(CoordinatorKind.GROUP, "g", broker_id=1)
                await cluster.coordinator(CoordinatorKind.GROUP, "g", cluster.deadline(5_000))
                assert len(one.requests(FIND_COORDINATOR)) == 1
                cluster.forget_coordinator(CoordinatorKind.GROUP, "g", broker_id=2)
                await cluster.coordinator(CoordinatorKind.GROUP, "g", cluster.deadline(5_000))
                assert len(one.requests(FIND_COORDINATOR)) == 2
                assert len(two.requests(HEARTBEAT)) == 2

    run_without_leaks(scenario())


def test_a_coordinator_that_is_not_there_yet_is_waited_for():
    async def scenario():
        async with ScriptedBroker() as broker:

            def not_yet(asked):
                broker.on("find_coordinator", broker.say_coordinator)
                asked.answer(FindCoordinatorResponse(error_code=15))

            broker.on("find_coordinator", not_yet)
            async with following(broker.address, version_ceilings={10: 2}) as cluster:
                found = await cluster.coordinator(
                    CoordinatorKind.TRANSACTION, "t", cluster.deadline(5_000)
                )
                assert found == 1
                assert broker.requests(FIND_COORDINATOR)[0].key_type == 1

    run_without_leaks(scenario())


def test_a_broker_that_is_not_known_is_not_guessed_at():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            with pytest.raises(ConnectionLost, match="broker 5"):
                await cluster.call(5, MetadataRequest([]))

    run_without_leaks(scenario())


@pytest.mark.parametrize("host", ["", "no host", "a\0b", "x" * 300, "127.0.0.1"])
def test_an_address_that_cannot_be_is_unreachable_and_nothing_worse(host):
    async def scenario():
        port = 99_999 if host == "127.0.0.1" else 9092

        def elsewhere(asked):
            told = broker.metadata(asked.request)
            told.brokers.append(MetadataResponseBroker(2, host, port))
            asked.answer(told)

        async with (
            ScriptedBroker(metadata=elsewhere) as broker,
            following(broker.address) as cluster,
        ):
            with pytest.raises(ConnectionLost, match="cannot be reached"):
                await cluster.call(2, MetadataRequest([]))

    run_without_leaks(scenario())


def test_an_answer_without_brokers_is_no_knowledge():
    async def scenario():
        async with ScriptedBroker() as broker, following(broker.address) as cluster:
            broker.on("metadata", lambda asked: asked.answer(MetadataResponse()))
            with pytest.raises(NoBrokerReachable):
                await cluster.refresh()
            assert set(cluster.image.brokers) == {1}

    run_without_leaks(scenario())


def test_versions_are_those_of_the_broker_that_is_asked():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
            one.peers = [one, two]
            two.newest[METADATA] = 7
            async with following(one.address) as cluster:
                with pytest.raises(ConnectionLost, match="never"):
                    cluster.version_of(2, MetadataRequest)
                await cluster.connection(2)
                assert cluster.version_of(2, MetadataRequest) == 7
                with pytest.raises(UnsupportedVersion):
                    cluster.version_of(2, CreateTopicsRequest)

    run_without_leaks(scenario())


def test_closing_tells_everybody_who_waits_and_refuses_what_comes_after():
    async def scenario():
        async with ScriptedBroker(heartbeat=silence) as broker:
            cluster = make_cluster(broker.address)
            await cluster.start()
            with pytest.raises(InvalidState):
                await cluster.start()
            waiting = [
                asyncio.ensure_future(cluster.call(1, HeartbeatRequest())),
                asyncio.ensure_future(cluster.topic("never", cluster.deadline(600_000))),
            ]
            await broker.until_asked(HEARTBEAT, 1)
            await cluster.close()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(error) for error in told] == [ClientClosed, ClientClosed]
            for late in (cluster.call(Node.ANY, MetadataRequest([])), cluster.connection(1)):
                with pytest.raises(ClientClosed):
                    await late
            await cluster.close()

    run_without_leaks(scenario())


def test_closing_while_connecting_ends_the_attempt_and_tells_who_waits_for_it():
    async def scenario():
        with deaf_port() as deaf:
            async with ScriptedBroker() as broker:

                def elsewhere(asked):
                    told = broker.metadata(asked.request)
                    told.brokers.append(MetadataResponseBroker(2, "127.0.0.1", deaf))
                    asked.answer(told)

                broker.on("metadata", elsewhere)
                cluster = make_cluster(broker.address)
                await cluster.start()
                waiting = asyncio.ensure_future(cluster.call(2, MetadataRequest([])))
                await asyncio.sleep(0.02)
                await cluster.close()
                with pytest.raises(ClientClosed):
                    await waiting

    run_without_leaks(scenario())


def test_trying_again_follows_a_leader_that_moves():
    async def scenario():
        async with ScriptedBroker(1) as one, ScriptedBroker(2) as two:
            one.peers = two.peers = [one, two]
            one.topics = {"moving": [(1, 0)]}
            one.on("heartbeat", lambda asked: asked.answer(HeartbeatResponse(error_code=6)))
            two.on("heartbeat", lambda asked: asked.answer(HeartbeatResponse()))
            async with following(one.address) as cluster:
                await cluster.topic("moving", cluster.deadline(5_000))

                async def attempt():
                    one.topics = two.topics = {"moving": [(2, 1)]}
                    leader = cluster.image.leader("moving", 0).leader
                    raise_for((await cluster.call(leader, HeartbeatRequest())).error_code)
                    return leader

                assert await retried(cluster, attempt, cluster.deadline(5_000)) == 2
                one.topics = two.topics = {"moving": [(1, 2)]}

    run_without_leaks(scenario())
