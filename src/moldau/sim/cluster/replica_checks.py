"""Checks over all replicas that are too slow for every turn of the loop.

They run now and then while a run goes on, and at its end.
"""

from __future__ import annotations

import asyncio

from moldau.base.ids import PartitionKey
from moldau.replication.delayed import Delayed
from moldau.replication.partition import Partition
from moldau.sim.cluster.nodes import Nodes
from moldau.sim.history import Violation
from moldau.storage.log import Log


def replica_of(nodes: Nodes, broker_id: int, key: PartitionKey) -> Partition | None:
    """Return a partition as one broker holds it; None if it does not."""
    process = nodes.by_id(broker_id).process
    if not process.serving or process.broker is None:
        return None
    return process.broker.parts.partitions.get(*key)


def check_committed_equal(nodes: Nodes, key: PartitionKey) -> None:
    """I3: what is committed is the same on the leader and on every in-sync replica that runs."""
    state = nodes.image.partition(key)
    if state is None or state.leader < 0:
        return
    leader = replica_of(nodes, state.leader, key)
    if leader is None or leader.role.leader_epoch != state.leader_epoch:
        return
    if state.partition_epoch < leader.role.partition_epoch:
        return  # the controller is just ending, and what it decided last was not seen
    end = leader.high_watermark
    expected = _bytes_below(leader.log, end)
    for broker_id in state.isr:
        replica = replica_of(nodes, broker_id, key)
        if replica is None or not nodes.is_registered(broker_id):
            continue
        if _bytes_below(replica.log, end) != expected:
            raise Violation(
                f"I3: {key}: broker {broker_id} in the ISR differs from leader {state.leader} "
                f"below its high watermark {end}"
            )


def _bytes_below(log: Log, end: int) -> bytes:
    """Return the stored batches below an offset; a follower may hold them in other segments."""
    return b"".join(
        segment.handle().read(batch.position, batch.size)
        for segment in log.segments
        for batch in segment.batches()
        if batch.last_offset < end
    )


def check_overdue(nodes: Nodes, known: frozenset[Delayed]) -> frozenset[Delayed]:
    """I13: return what has waited for a commit beyond its time-out; none may do so at two looks."""
    loop = asyncio.get_running_loop()
    overdue = frozenset(
        delayed
        for node in nodes.all
        if node.serving and not node.process.paused and node.process.broker is not None
        for partition in node.process.broker.parts.partitions
        for delayed in _waiting(partition)
        if delayed._timer is not None and delayed._timer.when() < loop.time()  # noqa: SLF001
    )
    if overdue & known:
        raise Violation(f"I13: {len(overdue & known)} operations wait beyond their time-out")
    return overdue


def _waiting(partition: Partition) -> list[Delayed]:
    operations = partition._delayed  # noqa: SLF001 - a look inside is what this is for
    return [] if operations is None else operations._waiting  # noqa: SLF001
