"""Topics whose deletion tools ask for in ZooKeeper, with whatever somebody has put below them."""

from __future__ import annotations

import pytest

from kits.zookeeper_cluster import run_on_cluster
from moldau.cluster.zookeeper.client.port import CreateNode
from moldau.cluster.zookeeper.nodes import paths

NODE, MARK, CONFIG = paths.topic("t"), paths.delete_topic("t"), "/config/topics/t"


@pytest.mark.parametrize(
    "strays",
    [
        (),
        (f"{MARK}/stray",),
        (f"{NODE}/stray", f"{NODE}/stray/below", f"{CONFIG}/stray"),
        (f"{paths.state('t', 0)}/stray", f"{paths.partitions('t')}/7", f"{MARK}/stray"),
    ],
)
def test_a_topic_is_deleted_and_costs_the_controller_nothing(strays):
    async def script(cluster):
        def write(path, data=b""):
            cluster.ensemble.write_as_tool(CreateNode(path, data))

        def epoch():
            return cluster.ensemble.find(paths.CONTROLLER_EPOCH).data

        write(CONFIG, b'{"version":1,"config":{}}')
        write(NODE, b'{"version":1,"partitions":{"0":[1,2,3]}}')
        await cluster.reached(lambda: cluster.ensemble.find(paths.state("t", 0)) is not None)
        before = epoch()
        for path in (MARK, *strays):
            write(path)
        await cluster.reached(lambda: cluster.ensemble.find(MARK) is None)
        left = [one for one in cluster.ensemble.nodes() if one.startswith((NODE, CONFIG))]
        assert (left, epoch()) == ([], before)

    run_on_cluster(script)
