"""Everything that a node knows of its quorum, from its start to its end.

The modules that decide are functions of this. It changes in `step` of the core alone, and holds no
rule itself: only what belongs together is changed together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from moldau.base.clock import Random
from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.raft.durable import Outbox
from moldau.cluster.raft.effects import Effect, HighWatermarkMoved
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.resending import Outgoing
from moldau.cluster.raft.states import Resigned, State, Unattached
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import NO_NODE, NodeId, ReplicaKey, Voter, VoterSet


@dataclass(slots=True)
class Life:
    """One life of one node."""

    own: Voter
    """This node, as it would be named in a voter set."""
    cluster_id: str
    timeouts: Timeouts
    random: Random
    log: LogPosition
    voter_history: VoterHistory
    quorum: QuorumState
    """What the node has decided to remember; its write may be under way (`durable`)."""
    high_watermark: Offset
    outgoing: Outgoing
    state: State
    now_s: float
    joins_voters: bool = False
    """Whether it asks to become a voter if it is none (`controller.quorum.auto.join.enable`)."""
    outbox: Outbox = field(default_factory=Outbox)
    failed_elections: int = 0
    """Since there was a leader: the more, the longer the waits."""
    is_stopping: bool = False
    is_stopped: bool = False

    @property
    def me(self) -> ReplicaKey:
        return self.own.key

    @property
    def epoch(self) -> LeaderEpoch:
        return self.quorum.epoch

    @property
    def leader(self) -> NodeId:
        """Who leads in this epoch, as others are told. One that has resigned does not."""
        return NO_NODE if isinstance(self.state, Resigned) else self.quorum.leader

    @property
    def voters(self) -> VoterSet:
        return self.voter_history.newest.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.find(self.me) is not None

    @property
    def may_stand(self) -> bool:
        """Whether this node begins elections.

        One that is to be removed does until that is committed, though its own vote does not count:
        of two voters, it may be the only one that has the record of its removal.
        """
        history = self.voter_history
        is_leaving = history.newest.offset >= self.high_watermark
        return self.is_voter or (is_leaving and history.previous.find(self.me) is not None)

    def emit(self, effect: Effect) -> None:
        self.outbox.put(effect)

    def raise_high_watermark(self, offset: Offset) -> bool:
        """Take note that everything before an offset is committed; return whether that is new.

        It does not sink when another node leads, as Kafka's may: what was committed once is.
        """
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.emit(HighWatermarkMoved(offset))
        return True


def new_life(
    own: Voter,
    cluster_id: str,
    timeouts: Timeouts,
    random: Random,
    log: LogPosition,
    voter_history: VoterHistory,
    quorum: QuorumState,
    now_s: float,
    *,
    joins_voters: bool,
) -> Life:
    """Return what a node knows before it has decided what it is (`transitions.start`)."""
    snapshot = log.newest_snapshot
    committed = max(log.start_offset, snapshot.end_offset if snapshot is not None else 0)
    return Life(
        own=own,
        cluster_id=cluster_id,
        timeouts=timeouts,
        random=random,
        log=log,
        voter_history=voter_history,
        quorum=quorum,
        high_watermark=Offset(committed),
        outgoing=Outgoing(timeouts.retry),
        state=Unattached(now_s),
        now_s=now_s,
        joins_voters=joins_voters,
    )
