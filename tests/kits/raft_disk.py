"""The disk of a modelled node: what was written, and what of it would survive a power cut."""

from __future__ import annotations

from random import Random

from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import Batch
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import ReplicaKey, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.epochs import LeaderEpochs


class Data:
    """Records of the controller; each is another one."""

    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count

    def __repr__(self) -> str:
        return f"Data({self.number})"


class Disk:
    """One metadata directory."""

    def __init__(self, key: ReplicaKey, voters: VoterSet, *, is_static: bool) -> None:
        self.key = key
        self.first_voters = voters
        self.is_static = is_static
        self.quorum = QuorumState()
        self.quorum_writing: QuorumState | None = None
        self.log: list[Batch] = []
        self.durable: list[Batch] = []
        self.start = 0
        self.snapshots: dict[SnapshotId, VoterSet | None] = {}

    @property
    def end(self) -> int:
        return self.log[-1].end_offset if self.log else self.start

    def has_durable(self, batch: Batch) -> bool:
        return self.start >= batch.end_offset or batch in self.durable[-8:] + self.durable[:-8]

    def crash(self, random: Random) -> None:
        """Lose any part of what was not synced."""
        if self.quorum_writing is not None and random.random() < 0.5:
            self.quorum = self.quorum_writing
        self.quorum_writing = None
        shared = 0
        for one, other in zip(self.log, self.durable, strict=False):
            if one != other:
                break
            shared += 1
        if random.random() < 0.5:
            self.log = list(self.durable)
        else:
            self.log = self.log[: random.randint(shared, len(self.log))]
        self.durable = list(self.log)

    def read_quorum(self) -> QuorumState:
        """Return what the file says: without a directory while the settings name the voters."""
        quorum = self.quorum
        if quorum.voted is None or self.voter_history().is_dynamic:
            return quorum
        return quorum._replace(voted=ReplicaKey(quorum.voted.node))

    def voter_history(self) -> VoterHistory:
        history = VoterHistory(self.first_voters, is_static=self.is_static)
        for batch in self.log:
            if batch.voters is not None:
                history.append(batch.voters_offset, batch.voters)
        return history

    def position(self) -> LogPosition:
        epochs = LeaderEpochs()
        for batch in self.log:
            epochs.assign(batch.epoch, batch.base_offset)
        known = sorted(self.snapshots)
        return LogPosition(
            epochs,
            self.start,
            self.end,
            self.end,
            known[0] if known else None,
            known[-1] if known else None,
        )
