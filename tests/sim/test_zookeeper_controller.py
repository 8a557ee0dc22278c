"""Controllers on ZooKeeper that lose their connection or their place while they work."""

from __future__ import annotations

import asyncio

import pytest

from kits.zookeeper_cluster import run_on_cluster
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode


def test_a_change_of_unknown_outcome_is_no_error_of_a_disk():
    async def script(cluster):
        await asyncio.sleep(1)  # the controller has read what all brokers have written
        node = cluster.controller
        controller = cluster.broker(node).parts.controller
        cluster.ensemble.cut(node.name)
        creating = asyncio.create_task(controller.create_topic(NewTopic("t")))
        await asyncio.sleep(0.1)
        cluster.ensemble.lose_connection(node.name, arriving=True)
        cluster.ensemble.heal(node.name)
        with pytest.raises(ApiError) as refusal:
            await creating
        assert refusal.value.code is ErrorCode.REQUEST_TIMED_OUT
        await cluster.reached(lambda: "t" in cluster.nodes.image.topics)

    run_on_cluster(script)
