"""However large the nodes of a tree are, no turn of a store's event loop is long."""

from __future__ import annotations

import contextlib
import sys

from kits.metadata_samples import topic_id
from kits.stores_on_zookeeper import run_with_two_stores
from kits.zookeeper_nodes import encode_reassignment, encode_topic
from moldau.cluster.changes import PartitionChanged
from moldau.cluster.model import Partition
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.client.port import CreateNode
from moldau.cluster.zookeeper.events import BrokersSeen
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.tool_requests import ReassignmentWanted
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

COUNT = 2000
CALLS_MAX = 40_000
"""Of one turn, calls and returns. What is done for all partitions at once makes more of them."""


class LongestTurn:
    """Counts the calls of each callback of the event loop; `calls` are those of the longest."""

    def __init__(self) -> None:
        self.calls = 0
        self._now = 0

    def __call__(self, frame, event, _arg) -> None:
        if event == "call" and frame.f_code.co_qualname == "Handle._run":
            self._now = 0
        self._now += 1
        self.calls = max(self.calls, self._now)


@contextlib.contextmanager
def longest_turn():
    turn, before = LongestTurn(), sys.getprofile()
    sys.setprofile(turn)
    try:
        yield turn
    finally:
        sys.setprofile(before)


async def write_large_topic(session):
    replicas = TopicNode((Assignment((1, 2)),) * COUNT, topic_id(1))
    await session.create(paths.topic("t"), encode_topic(replicas))
    await session.create(paths.partitions("t"))
    state = encode_state(state_of(Partition(0, (1, 2), (1, 2), 1), 1))
    for first in range(0, COUNT, 500):
        numbers = range(first, first + 500)
        await session.multi([CreateNode(paths.partition("t", number)) for number in numbers])
        await session.multi([CreateNode(paths.state("t", number), state) for number in numbers])


def test_no_turn_is_long():
    async def test(kept, first, second):
        session = first.lives.session
        await write_large_topic(session)
        wanted = [WantedReplicas("t", number, (2, 1)) for number in range(COUNT)]
        asks = encode_reassignment(wanted)
        del kept.stores[2]  # it would be told in one turn, by the kit
        with longest_turn() as turn:
            tenure = await first.claim()
            await session.create(paths.REASSIGN_PARTITIONS, asks)
            assert isinstance(await first.following.next_event(), BrokersSeen)
            asked = await first.following.next_event()
            change = PartitionChanged(topic_id(1), 7, replicas=(2, 1))
            await tenure.commit(first.image.version, [change])
        assert asked == ReassignmentWanted(tuple(wanted))
        assert len(first.image.topics["t"].partitions) == COUNT
        assert turn.calls < CALLS_MAX

    run_with_two_stores(1, test, start_both=False)
