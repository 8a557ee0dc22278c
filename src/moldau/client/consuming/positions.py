"""Where a consumer is in each of its partitions, and what must be found out before it may fetch.

A partition goes through these stages; a seek, a reset or a new leader sends it back:

    UNKNOWN --committed offset--> VALIDATING --log unchanged--> READY (fetch, hand out)
       `----none: the policy----> RESETTING --offset found--------^

Two offsets are kept apart. `offset` is behind the last record the user is done with: what may be
committed, what a crash goes back to. `fetch_offset` is behind the last record fetched, which waits
in a buffer. Whatever makes the buffer worthless (seek, reset, truncation, revocation) counts up
`revision`, and answers to questions asked under an older revision are dropped.

Pure: no clock, no loop. The consumer's loop owns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from moldau.client.consumer_settings import ResetKind, ResetPolicy
from moldau.client.errors import InvalidState
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.fetch_requests import NO_REPLICA
from moldau.engine.metadata import NO_EPOCH

NO_OFFSET: Final = -1
NO_FLIGHT: Final = -1

EARLIEST: Final = ResetPolicy(ResetKind.EARLIEST)
LATEST: Final = ResetPolicy(ResetKind.LATEST)


class Stage(Enum):
    """What a partition waits for."""

    UNKNOWN = "unknown"
    """Its committed offset, or without one the policy."""
    RESETTING = "resetting"
    """The offset its policy names."""
    VALIDATING = "validating"
    """The leader's word that the log still is what was read (KIP-320)."""
    READY = "ready"
    """Nothing: it is fetched unless paused."""


class PartitionState:
    """One assigned partition. Compared by identity: assigned again, it is another state."""

    __slots__ = (
        "buffered_size",
        "error",
        "fetch_epoch",
        "fetch_offset",
        "flight_revision",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "missing_since",
        "offset",
        "offset_epoch",
        "partition",
        "paused",
        "policy",
        "preferred_replica",
        "preferred_until",
        "retry_at",
        "revision",
        "stage",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.stage = Stage.UNKNOWN
        self.revision = 0
        self.offset = NO_OFFSET
        self.offset_epoch = NO_EPOCH
        """The leader epoch of the record before `offset`, if known."""
        self.fetch_offset = NO_OFFSET
        self.fetch_epoch = NO_EPOCH
        """The leader epoch of the record before `fetch_offset`, if known."""
        self.leader_epoch = NO_EPOCH
        """The newest term of a leader under which the position is known to be right."""
        self.policy: ResetPolicy | None = None
        """Asked for by the user (`seek_to_end`); else the consumer's policy decides a reset."""
        self.paused = False
        self.flight_revision = NO_FLIGHT
        """Under which revision a fetch of it is on its way."""
        self.buffered_size = 0
        """Fetched bytes that wait for the user."""
        self.high_watermark = NO_OFFSET
        self.last_stable_offset = NO_OFFSET
        self.log_start_offset = NO_OFFSET
        self.preferred_replica = NO_REPLICA
        """A replica nearer than the leader, as the leader said (KIP-392)."""
        self.preferred_until = 0.0
        self.retry_at = 0.0
        """No look-up and no fetch before this time, after something went wrong."""
        self.missing_since: float | None = None
        """Since when the cluster does not know the topic or the partition."""
        self.error: Exception | None = None
        """What only the user can put right: raised at the next call, then tried again."""

    @property
    def has_offset(self) -> bool:
        """Tell whether there is a position at all, validated or not."""
        return self.stage in (Stage.READY, Stage.VALIDATING)

    @property
    def in_flight(self) -> bool:
        """Tell whether a fetch is on its way whose answer will be of use."""
        return self.flight_revision == self.revision

    def landed(self, revision: int) -> None:
        """Take note that a fetch sent under this revision is over; there may be a later one."""
        if self.flight_revision == revision:
            self.flight_revision = NO_FLIGHT

    def seek(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Go on at an offset; with the epoch of the record before it, after validation."""
        self._move(offset, leader_epoch)
        self.stage = Stage.READY if leader_epoch == NO_EPOCH else Stage.VALIDATING

    def reset(self, policy: ResetPolicy | None = None) -> None:
        """Look up where to go on: as this policy says, or the consumer's."""
        self._move(NO_OFFSET, NO_EPOCH)
        self.policy = policy
        self.stage = Stage.RESETTING

    def found(self, offset: int, epoch: int, leader_epoch: int) -> None:
        """Go on at an offset that the leader of this term has just named, with its epoch."""
        self._move(offset, epoch)
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self.stage = Stage.READY

    def validated(self, leader_epoch: int) -> None:
        """Go on: the log is still what was read, says the leader of this term."""
        self.leader_epoch = leader_epoch
        self.stage = Stage.READY
        self.retry_at = 0.0

    def leader_changed(self, leader_epoch: int) -> bool:
        """Note the term of the present leader; tell whether the position must be validated."""
        if self.stage is not Stage.READY or leader_epoch <= self.leader_epoch:
            return False
        self.forget_replica()
        if self.fetch_epoch in (NO_EPOCH, leader_epoch):
            self.leader_epoch = leader_epoch
            return False
        self.stage = Stage.VALIDATING
        return True

    def refetch(self, offset: int, leader_epoch: int) -> None:
        """Forget what is buffered; fetch again from behind what was handed out."""
        self.revision += 1
        self.fetch_offset, self.fetch_epoch = offset, leader_epoch
        self.buffered_size = 0

    def fetched(self, next_offset: int, leader_epoch: int, size: int) -> None:
        """Take note of an answer that brought records."""
        self.fetch_offset = next_offset
        if leader_epoch != NO_EPOCH:
            self.fetch_epoch = leader_epoch
        self.buffered_size += size

    def settle(self, offset: int, leader_epoch: int) -> None:
        """Take note that the user is done with all records below an offset."""
        self.offset = offset
        if leader_epoch != NO_EPOCH:
            self.offset_epoch = leader_epoch

    def forget_replica(self) -> None:
        """Read from the leader again."""
        self.preferred_replica = NO_REPLICA

    def retire(self) -> None:
        """End with the assignment: nothing still under way is for this state any more."""
        self.revision += 1

    def _move(self, offset: int, leader_epoch: int) -> None:
        self.revision += 1
        self.offset = self.fetch_offset = offset
        self.offset_epoch = self.fetch_epoch = leader_epoch
        self.buffered_size = 0
        self.policy = None
        self.retry_at = 0.0
        self.error = None


class Positions:
    """The assigned partitions and their states."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What is assigned."""
        return frozenset(self._states)

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition if it is assigned."""
        return self._states.get(partition)

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition; InvalidState if it is not assigned."""
        found = self._states.get(partition)
        if found is None:
            raise InvalidState(
                f"{partition[0]}-{partition[1]} is not assigned to this consumer",
                advice="assign() it. A group assigns during poll(): call that first, or do this in"
                " on_partitions_assigned of a listener given to subscribe().",
            )
        return found

    def states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Return the states of all of them, or of none: every one must be assigned."""
        return [self.state(partition) for partition in partitions]

    def assign(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Replace the assignment; what stays keeps its place. Return the states that ended."""
        before = self._states
        self._states = {}
        for topic, number in partitions:
            partition = TopicPartition(topic, number)
            kept = before.pop(partition) if partition in before else PartitionState(partition)
            self._states[partition] = kept
        for state in before.values():
            state.retire()
        return list(before.values())

    def to_back(self, state: PartitionState) -> None:
        """Let the others come first from now on: this one has just been served."""
        if self._states.pop(state.partition, None) is not None:
            self._states[state.partition] = state


def committable(offset: int, leader_epoch: int) -> OffsetAndMetadata:
    """Write an offset as it is committed."""
    return OffsetAndMetadata(offset, "", None if leader_epoch == NO_EPOCH else leader_epoch)
