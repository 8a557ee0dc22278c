"""What the leader of a quorum of several tells of it. Pure."""

from __future__ import annotations

from math import inf

from moldau.cluster.quorum_description import DescribedNode, DescribedReplica, QuorumDescription
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.states import Leader, Progress
from moldau.cluster.raft.voters import ReplicaKey


def describe(life: Life, now_s: float, now_ms: int) -> QuorumDescription | None:
    """Return what this node knows as the leader; None if it does not lead.

    The core's times are those of a clock that only runs on; they are told by the time of day.
    """
    state = life.state
    if not isinstance(state, Leader):
        return None

    def wall_ms(time_s: float) -> int:
        return -1 if time_s == -inf else now_ms - round((now_s - time_s) * 1000)

    def told(key: ReplicaKey, progress: Progress) -> DescribedReplica:
        fetched_ms, caught_up_ms = wall_ms(progress.fetched_s), wall_ms(progress.caught_up_s)
        heard_ms = fetched_ms if progress.end_offset >= 0 else -1
        return DescribedReplica(*key, progress.end_offset, heard_ms, caught_up_ms)

    voting, oldest_s = set(life.voters.keys), now_s - life.timeouts.observer_memory_s
    replicas = [
        told(key, progress)
        for key, progress in state.replicas.items()
        # A voter that was removed because it is lost is no observer: nobody has heard of it.
        if key in voting or (progress.end_offset >= 0 and progress.fetched_s >= oldest_s)
    ]
    own = life.voters.find(life.me)
    if own is not None:
        replicas.append(DescribedReplica(*own.key, life.log.end_offset, now_ms, now_ms))
    return QuorumDescription(
        life.me.node,
        life.epoch,
        life.high_watermark,
        sorted(one for one in replicas if ReplicaKey(one.node_id, one.directory_id) in voting),
        sorted(one for one in replicas if ReplicaKey(one.node_id, one.directory_id) not in voting),
        [DescribedNode(one.key.node, one.endpoints) for one in life.voters.voters],
    )
