"""A topic keeps its id, also if the next controller has never heard of it (KAFKA-14190)."""

from __future__ import annotations

from kits.metadata_samples import topic_id
from kits.stores_on_zookeeper import run_with_two_stores
from kits.zookeeper_nodes import encode_topic
from moldau.cluster.changes import PartitionCreated, TopicCreated
from moldau.cluster.model import Partition
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.tool_requests import TopicNodeIncomplete
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

CREATED = [
    TopicCreated("t", topic_id(7)),
    PartitionCreated(topic_id(7), Partition(0, (1,), (1,), 1)),
]
ERASED = encode_topic(TopicNode((Assignment((1,)),), None, version=1))


def test_a_controller_that_never_knew_an_id_finds_its_copy():
    async def test(kept, first, second):
        kept.stores = {1: first}  # the second broker hears nothing of the first
        tenure = await first.claim()
        await tenure.commit(first.image.version, CREATED)
        await first.lives.session.set_data(paths.topic("t"), ERASED)
        kept.end_session(1)
        kept.stores = {2: second}
        await second.start()
        await second.claim()
        assert second.image.topics["t"].id == topic_id(7)
        events = [await second.following.next_event() for _ in range(2)]
        assert TopicNodeIncomplete("t", topic_id(7)) in events

    run_with_two_stores(1, test, start_both=False)


def test_a_topic_of_the_same_name_does_not_get_the_id_of_an_older_one():
    async def test(kept, first, second):
        session = first.lives.session
        kept.stores = {1: first}  # the second broker hears nothing of the first
        tenure = await first.claim()
        await tenure.commit(first.image.version, CREATED)
        # What is left of a deletion that was not finished, and a topic that a tool creates then.
        await session.delete(paths.state("t", 0))
        await session.delete(paths.partition("t", 0))
        await session.set_data(paths.topic("t"), ERASED)
        kept.end_session(1)
        kept.stores = {2: second}
        await second.start()
        await second.claim()
        assert "t" not in second.image.topics

    run_with_two_stores(1, test, start_both=False)
