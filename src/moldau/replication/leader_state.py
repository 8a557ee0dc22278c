"""What a leader keeps of its partition's replicas: who is in sync, and which change is pending.

    isr          the in-sync replicas that the controller has committed, as far as the leader knows
    pending      the ISR that the leader has proposed and that has no answer yet
    maximal ISR  every replica that may be in the controller's ISR now: the committed ones, united
                 with a pending expansion. A pending shrink changes nothing: the controller may
                 not have it yet, and could elect the one that is to leave.

The controller may have committed a proposal before its answer is here. So the high watermark counts
the maximal ISR: whoever can be elected has what is committed.

The state is made anew for each leader epoch. What followers have told in an earlier one counts for
nothing: a leader in between, of which this broker need not have heard, may have truncated them
(KAFKA-7164). This module keeps state; `rules` decides what becomes of it. No clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.replication.followers import NEVER_S, Follower
from moldau.replication.role import Role


@dataclass(slots=True, frozen=True, eq=False)
class IsrProposal:
    """An ISR that a leader asks its controller for (AlterPartition).

    It is compared by identity: an answer is for the proposal that was sent, and not for another
    one with equal values.
    """

    leader_epoch: LeaderEpoch
    partition_epoch: int
    """What the proposal changes; the controller refuses it when there was a change in between."""
    isr: tuple[BrokerId, ...]
    broker_epochs: tuple[int, ...]
    """One for each member: what its last fetch told, -1 if unknown. The leader's own is left -1
    here; the sender knows it."""


def maximal_isr(isr: tuple[BrokerId, ...], pending: IsrProposal | None) -> frozenset[BrokerId]:
    """Return every replica that may be in the controller's ISR now."""
    return frozenset(isr if pending is None else isr + pending.isr)


def ends_proposal(partition_epoch: int, new_partition_epoch: int) -> bool:
    """Tell whether what the controller has committed decides over a pending proposal."""
    return new_partition_epoch > partition_epoch


def begins_anew(state: LeaderState | None, role: Role) -> bool:
    """Tell whether a leader forgets what its followers have told: in every new leader epoch."""
    return state is None or state.leader_epoch != role.leader_epoch


class LeaderState:
    """A leader's view of its followers and of the ISR, in one leader epoch."""

    __slots__ = (
        "_broker_id",
        "epoch_start_offset",
        "followers",
        "in_sync",
        "isr",
        "leader_epoch",
        "now_s",
        "outside",
        "partition_epoch",
        "pending",
        "replica_count",
    )

    def __init__(self, broker_id: BrokerId, role: Role, log_end_offset: int, now_s: float) -> None:
        """Begin to lead in this role's epoch with a log that ends here."""
        self._broker_id = broker_id
        self.leader_epoch = role.leader_epoch
        self.epoch_start_offset = log_end_offset
        """Everything below was written by earlier leaders."""
        self.now_s = now_s
        """The latest time that an event has told; an append tells none."""
        self.followers: dict[BrokerId, Follower] = {}
        self.in_sync: tuple[Follower, ...] = ()
        """The followers in the maximal ISR."""
        self.outside: tuple[Follower, ...] = ()
        """The others."""
        self.pending: IsrProposal | None = None
        self.isr: tuple[BrokerId, ...] = ()
        self.partition_epoch = -1
        self.replica_count = 0
        self.follow(role, now_s)

    def follow(self, role: Role, now_s: float) -> None:
        """Take over what the controller has committed, in the same leader epoch.

        A newer partition epoch ends a pending proposal: it was this change, or it is refused. One
        that is known already does not: it may arrive here after the answer to an earlier proposal,
        when the next one is under way.
        """
        if ends_proposal(self.partition_epoch, role.partition_epoch):
            self.pending = None
        known = self.followers
        self.followers = {
            one: known.get(one) or Follower(one, now_s if one in role.isr else NEVER_S)
            for one in role.replicas
            if one != self._broker_id
        }
        self.isr = role.isr
        self.partition_epoch = role.partition_epoch
        self.replica_count = len(role.replicas)
        self._divide()

    def propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        """Count with a change of the ISR from now on; return what to ask the controller for."""
        epochs = [-1 if one == self._broker_id else self.followers[one].broker_epoch for one in isr]
        self.pending = IsrProposal(self.leader_epoch, self.partition_epoch, isr, tuple(epochs))
        self._divide()
        return self.pending

    def revert(self) -> None:
        """Count with the committed ISR again: the controller has refused the proposal."""
        self.pending = None
        self._divide()

    def forget_level(self, refused: tuple[BrokerId, ...]) -> None:
        """Wait no longer for followers that may not join, until they fetch again.

        The log directory of one may have failed: it would hold back the high watermark, although
        it does not fetch any more, for as long as a follower may lag.
        """
        for one in self.outside:
            if one.broker_id in refused:
                one.caught_up_s = NEVER_S

    def _divide(self) -> None:
        maximal = maximal_isr(self.isr, self.pending)
        self.in_sync = tuple(one for one in self.followers.values() if one.broker_id in maximal)
        self.outside = tuple(one for one in self.followers.values() if one.broker_id not in maximal)
