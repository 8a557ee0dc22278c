"""Whatever somebody writes into the nodes of a topic, brokers that know it keep its logs."""

from __future__ import annotations

import asyncio

import pytest

from kits.metadata_samples import topic_id
from kits.zookeeper_cluster import run_on_cluster
from kits.zookeeper_nodes import encode_topic
from moldau.cluster.zookeeper.client.port import CreateNode, DeleteNode, SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

NODE, STATE = paths.topic("t"), paths.state("t", 0)


def assigned(*replicas):
    return b'{"version":1,"partitions":{"0":%b}}' % str(list(replicas)).encode()


def known_everywhere(cluster):
    brokers = [node.process.broker for node in cluster.nodes.all]
    images = [one.parts.store.image for one in brokers if one is not None]
    return len(images) == 3 and all("t" in one.topics for one in images)


def folders(cluster):
    return [
        [name for name in node.process.disk.names("/data") if name.startswith("t-")]
        for node in cluster.nodes.all
    ]


@pytest.mark.parametrize(
    "writes",
    [
        [SetData(NODE, assigned(2, 3))],
        [SetData(NODE, b'{"topic_id":"none","version":3,"partitions":{"0":[1,2,3]}}')],
        [SetData(NODE, encode_topic(TopicNode((Assignment((1, 2, 3)),), topic_id(9))))],
        [DeleteNode(STATE), CreateNode(STATE, b"nonsense")],
    ],
    ids=["other replicas", "no id", "another id", "another state"],
)
def test_the_logs_of_a_topic_outlive_what_is_written_into_its_nodes(writes):
    async def script(cluster):
        cluster.ensemble.write_as_tool(CreateNode(NODE, assigned(1, 2, 3)))
        await cluster.reached(lambda: known_everywhere(cluster))
        await cluster.reached(lambda: folders(cluster) == [["t-0"]] * 3)
        for one in writes:
            cluster.ensemble.write_as_tool(one)
        await asyncio.sleep(5)
        cluster.ensemble.write_as_tool(DeleteNode(paths.CONTROLLER))
        await asyncio.sleep(10)
        assert known_everywhere(cluster)
        assert folders(cluster) == [["t-0"]] * 3

    run_on_cluster(script)
