"""The checks at the end of a run, when all faults are over.

The cluster converges. Then everything is read, and the files on every disk are verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from moldau.base.ids import PartitionKey, TopicId
from moldau.cluster.model import Partition as PartitionState
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.sim.checks import check_files, check_insides, check_no_task_left
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import RETRY_S, NoAnswer
from moldau.sim.cluster.metadata_keeping import FOLDER
from moldau.sim.cluster.nodes import Nodes
from moldau.sim.cluster.reader import ClusterReader
from moldau.sim.cluster.replica_checks import replica_of
from moldau.sim.history import Read, Violation
from moldau.storage.folder_names import partition_of

CONVERGED_WITHIN_S = 60.0
"""Virtual seconds, once all is well: some sessions, the longest back-off and a few requests that
have to time out first."""
LOOK_S = 0.05


async def wait_until_converged(
    nodes: Nodes, now_s: float, problem_of_metadata: Callable[[], str | None]
) -> None:
    """Return once the cluster is whole, and its metadata is without the problem that is looked for.

    A controller that the last fault kept from its work needs a moment for what others have written.
    """
    loop = asyncio.get_running_loop()
    while (problem := _unfinished(nodes) or problem_of_metadata()) is not None:
        if loop.time() > now_s + CONVERGED_WITHIN_S:
            raise Violation(f"{problem}, {CONVERGED_WITHIN_S} s after all faults are over")
        await asyncio.sleep(LOOK_S)


def _unfinished(nodes: Nodes) -> str | None:
    """P7: all brokers serve, every partition is led, every replica is in sync and complete."""
    problem = _unfinished_part(nodes)
    return None if problem is None else f"P7: {problem}"


def _unfinished_part(nodes: Nodes) -> str | None:
    """Say what keeps the cluster from being whole; None if it is."""
    if any(not node.serving for node in nodes.all):
        return "a broker does not run"
    image = nodes.image
    for broker in image.brokers.values():
        if not broker.active:
            return f"broker {broker.id} is fenced"
    for node in nodes.all:
        if not nodes.is_registered(node.id):
            return f"{node.name} is not registered"
        assert node.process.broker is not None
        version = node.process.broker.parts.store.image.version
        if version != image.version:
            return f"{node.name} knows version {version} of {image.version}"
    for topic in image.topics.values():
        for state in topic.partitions:
            problem = _unfinished_partition(nodes, PartitionKey(topic.name, state.index), state)
            if problem is not None:
                return f"{topic.name}-{state.index} {problem}"
    return None


def _unfinished_partition(nodes: Nodes, key: PartitionKey, state: PartitionState) -> str | None:
    if state.leader < 0:
        return f"has no leader: {state}"
    if set(state.isr) != set(state.replicas):
        return f"has the ISR {state.isr} of {state.replicas}"
    replicas = {one: replica_of(nodes, one, key) for one in state.replicas}
    leader = replicas[state.leader]
    if leader is None or not leader.leads:
        return f"is not served by broker {state.leader}"
    end = leader.log_end_offset
    for broker_id, replica in replicas.items():
        if replica is None:
            return f"is not on broker {broker_id}"
        if replica.log_end_offset != end or replica.high_watermark != end:
            return (
                f"ends at {end}, on broker {broker_id} it is committed up to "
                f"{replica.high_watermark} of {replica.log_end_offset}"
            )
    return None


def check_deleted(nodes: Nodes, deleted: Collection[TopicId]) -> None:
    """P8: no broker serves a topic that was deleted, or keeps it for a later start."""
    for node in nodes.all:
        assert node.process.broker is not None
        for partition in node.process.broker.parts.partitions:
            if partition.topic_id in deleted:
                raise Violation(f"P8: {node.name} serves {partition.key}, which was deleted")
        for name in node.process.disk.names(FOLDER):
            key = partition_of(name)
            if key is not None and nodes.image.partition(key) is None:
                raise Violation(f"P8: {node.name} keeps {name}, which was deleted")


class FinalClusterReader(ClusterReader):
    """Reads every partition from its start to its end, when nobody writes any more."""

    async def run(self) -> None:
        for claims in self.targets.claims:
            claims.final(await self._read_all(claims))
        self.close()

    async def _read_all(self, claims: PartitionClaims) -> list[Read]:
        records: list[Read] = []
        while True:
            try:
                leader = await self.leader_of(claims)
                result = await self.fetch(claims, leader, len(records), max_wait_ms=0)
            except NoAnswer:
                # Its knowledge of leaders is from before; they do not change any more.
                self.forget_leader(claims)
                await asyncio.sleep(RETRY_S)
                continue
            found = self.take(claims, len(records), result)
            if found is None:
                self.forget_leader(claims)
                await asyncio.sleep(RETRY_S)
                continue
            records += found
            if len(records) == result.high_watermark:
                return records
            if not found:
                raise Violation(f"P7: {claims.key} gives nothing at {len(records)}")


async def check_and_stop(nodes: Nodes) -> None:
    """Look into every broker, stop all of them in order, and verify what is on their disks."""
    for node in nodes.all:
        assert node.process.broker is not None
        check_insides(node.process.broker)
    for node in reversed(nodes.all):
        await node.process.stop()
        await check_no_task_left(node.process)
        check_files(node.process.disk, FOLDER, INTERNAL_TOPICS)
