"""The client's engine against a real broker: Moldau, or Kafka where the suite runs on that."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kits.leaks import run_without_leaks
from moldau.client.errors import InvalidTopic, UnknownTopicOrPartition
from moldau.engine.cluster import Cluster, CoordinatorKind, Node
from moldau.engine.ports import system_ports
from moldau.engine.retry import raise_for, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from moldau.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

VERSIONS_OF_1_1 = {
    0: 5, 1: 7, 2: 2, 3: 5, 8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1, 15: 1, 16: 1, 17: 1,
    18: 1, 19: 2, 20: 1, 21: 0, 22: 0, 23: 0, 24: 0, 25: 0, 26: 0, 28: 0, 29: 0, 30: 0, 31: 0,
    32: 1, 33: 0, 34: 0, 35: 0, 36: 0, 37: 0, 38: 0, 39: 0, 40: 0, 41: 0, 42: 0,
}  # fmt: skip
"""The newest versions a broker of Kafka 1.1 serves."""


@contextlib.asynccontextmanager
async def following(servers, **settings):
    made = ConnectionSettings(bootstrap_servers=servers, client_id="engine-test", **settings)
    cluster = Cluster(made, system_ports(made))
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.close()


def fresh_name():
    return f"engine-{uuid.uuid4().hex[:12]}"


async def create(cluster, name, partitions):
    async def attempt():
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 30_000)
        (told,) = (await cluster.call(Node.CONTROLLER, request)).topics
        raise_for(told.error_code, told.error_message)

    await retried(cluster, attempt, cluster.deadline(30_000))


def test_a_cluster_is_learned_and_asked(broker):
    async def scenario():
        dead = "127.0.0.1:1"
        async with following([dead, broker.address]) as cluster:
            ((broker_id, known),) = cluster.image.brokers.items()
            assert str(known.address) == broker.address
            described = await cluster.call(broker_id, DescribeClusterRequest())
            assert described.cluster_id == cluster.image.cluster_id

    run_without_leaks(scenario())


@pytest.mark.parametrize("ceilings", [{}, VERSIONS_OF_1_1], ids=["newest", "as-for-1.1"])
def test_a_topic_is_created_and_found_with_its_leaders(broker, ceilings):
    # Kafka 4 serves nothing as old as that any more (KIP-896).
    if ceilings and kind_under_test() == "kafka":
        pytest.skip("Kafka 4 does not speak to clients of 1.1")
    name = fresh_name()

    async def scenario():
        async with following(broker.address, version_ceilings=ceilings) as cluster:
            await create(cluster, name, 3)
            topic = await cluster.topic(name, cluster.deadline(30_000))
            await retried(cluster, lambda: led(cluster, name), cluster.deadline(30_000))
            assert topic.partition_count == 3
            assert cluster.image.topics[name].available == (0, 1, 2)
            if not ceilings:
                assert cluster.image.names[topic.topic_id] == name

    run_without_leaks(scenario())


async def led(cluster, name):
    if len(cluster.image.topics[name].available) < 3:
        raise_for(5)


def test_a_topic_is_created_by_asking_only_where_that_is_allowed(broker):
    first, second = fresh_name(), fresh_name()

    async def scenario():
        async with following(broker.address, allow_auto_create_topics=False) as cluster:
            with pytest.raises(UnknownTopicOrPartition):
                await cluster.topic(first, cluster.deadline(300))
        async with following(broker.address) as cluster:
            assert (await cluster.topic(second, cluster.deadline(30_000))).partition_count == 1
            with pytest.raises(InvalidTopic):
                await cluster.topic("not a name", cluster.deadline(30_000))

    run_without_leaks(scenario())


@pytest.mark.parametrize("kind", [CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION])
def test_a_coordinator_is_found(broker, kind):
    async def scenario():
        async with following(broker.address) as cluster:
            found = await cluster.coordinator(kind, "somebody", cluster.deadline(30_000))
            assert found in cluster.image.brokers

    run_without_leaks(scenario())


def test_a_broker_that_is_started_again_is_found_again(tmp_path):
    async def scenario(node):
        async with following(node.address) as cluster:
            (broker_id,) = cluster.image.brokers
            await cluster.call(broker_id, MetadataRequest([]))
            node.kill()
            node.launch()

            async def attempt():
                return await cluster.call(broker_id, MetadataRequest([]))

            answer = await retried(cluster, attempt, cluster.deadline(100_000))
            assert answer.cluster_id == cluster.image.cluster_id

    with make_broker(kind_under_test(), tmp_path / "node") as node:
        run_without_leaks(scenario(node), timeout_s=150)
