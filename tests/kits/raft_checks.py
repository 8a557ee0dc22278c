"""What must never happen in a quorum, checked on what its nodes do: the effects and their disks.

The checks know nothing of how the core decides. They are told of each step while it is carried out
(`kits.raft_model`), and remember what was promised to whom.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import starmap

from moldau.cluster.raft.requests import (
    Batch,
    LeaderChange,
    QuorumAnswer,
    VoteAnswer,
    VoteRequest,
    VotersChange,
)
from moldau.cluster.raft.voters import ReplicaKey


class Violation(AssertionError):  # noqa: N818 - what it is called in every report
    """Something happened that must never happen."""


def _is_same(one: ReplicaKey, other: ReplicaKey) -> bool:
    """Tell whether two keys may mean one replica."""
    return one.names(other) or other.names(one)


def _is_kept(promised: ReplicaKey | None, voted: ReplicaKey | None) -> bool:
    return promised is None or (voted is not None and _is_same(promised, voted))


class Checks:
    """Everything that nodes have promised so far."""

    def __init__(self, check_quorum_s: float) -> None:
        self.check_quorum_s = check_quorum_s
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, object], object] = {}
        self.pre_votes: dict[tuple[int, object], set] = defaultdict(set)
        self.written: dict[tuple[int, int], tuple] = {}
        self.committed: list[Batch] = []
        """What some leader has called committed."""
        self._committed_in: list[int] = []
        """In which epochs."""
        self.contacts: dict[int, dict[int, float]] = {}
        """By leader: when each node last fetched from it."""
        self.seen: Counter[str] = Counter()

    @property
    def committed_end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    # Elections

    def persists(self, node, quorum) -> None:
        old = node.disk.quorum
        if quorum.epoch < old.epoch:
            raise Violation(f"{node} goes back from {old} to {quorum}")
        if quorum.epoch == old.epoch and not _is_kept(old.voted, quorum.voted):
            raise Violation(f"{node} votes for {quorum.voted} after {old}")

    def says(self, node, message) -> None:
        """Check that what a node tells others is durable."""
        durable = node.disk.quorum
        said = message.epoch if isinstance(message, QuorumAnswer) else message.stated_epoch
        if said > durable.epoch:
            raise Violation(f"{node} says {message}, its disk says {durable}")

    def votes_for(self, node, request: VoteRequest, answer: VoteAnswer) -> None:
        if not answer.granted:
            self.seen["refused pre-vote" if request.is_pre_vote else "refused vote"] += 1
            return
        if request.is_pre_vote:
            return
        durable = node.disk.quorum
        if durable.epoch == request.epoch and not _is_kept(request.candidate, durable.voted):
            raise Violation(f"{node} grants {request}, its disk says {durable}")
        promised = self.votes.setdefault((request.epoch, node.key), request.candidate)
        if promised != request.candidate:
            raise Violation(f"{node} votes for {promised} and {request.candidate}")

    def begins_election(self, node, history) -> None:
        """Check that a node was a voter at some time that it knows of."""
        sets = [history.first, *(one.voters for one in history.logged)]
        if all(voters.find(node.key) is None for voters in sets):
            raise Violation(f"{node} is an observer, and begins an election")

    def stands(self, node, epoch: int) -> None:
        """Check that no node raises the epoch which the others would not vote for."""
        granting = {node.key} | self.pre_votes[epoch - 1, node.key]
        voters = node.voters
        # Voters of the settings get their directories when the log names them.
        known = [key for key in voters.keys if any(_is_same(key, one) for one in granting)]
        if not voters.is_majority(known):
            raise Violation(f"{node} stands for epoch {epoch} with {granting} alone")

    def leads(self, node, epoch: int) -> None:
        self.seen["election"] += 1
        if epoch in self.leaders:
            raise Violation(f"{node} leads in epoch {epoch}, as {self.leaders[epoch]} did")
        self.leaders[epoch] = node.id
        self.contacts[node.id] = defaultdict(lambda now=node.model.now_s: now)
        disk = node.disk
        own = {batch.base_offset: batch for batch in disk.log}
        for batch, committed_in in zip(self.committed, self._committed_in, strict=True):
            # An election may become known after a later leader has committed more.
            if (
                batch.base_offset >= disk.start
                and committed_in < epoch
                and own.get(batch.base_offset) != batch
            ):
                raise Violation(f"{node} leads in epoch {epoch} without {batch}")

    def writes(self, node, epoch: int) -> None:
        """Check that only a leader appends, and in its own epoch."""
        if not node.leads or epoch != node.epoch:
            raise Violation(f"{node} appends in epoch {epoch}")

    def begins(self, node, epoch: int, change: LeaderChange) -> None:
        voters = node.voters
        if not voters.is_majority(change.granting):
            raise Violation(f"{node} leads by the votes of {change.granting}")
        given = [voter for (one, voter), to in self.votes.items() if (one, to) == (epoch, node.key)]
        for key in change.granting:
            if not key.names(node.key) and not any(key.names(voter) for voter in given):
                raise Violation(f"{node} leads by a vote that {key} has not given")

    # The log

    def appends(self, node, batch: Batch, previous: Batch | None) -> None:
        """Check that logs which agree in one batch agree in all before it."""
        before = (-1, -1) if previous is None else (previous.base_offset, previous.epoch)
        if not node.disk.log and node.disk.start:
            before = self._before(batch, before)
        where = (batch.base_offset, batch.epoch)
        if self.written.setdefault(where, (batch.content, before)) != (batch.content, before):
            raise Violation(f"{node} has {batch} behind {before}: not {self.written[where]}")

    def _before(self, batch: Batch, before: tuple[int, int]) -> tuple[int, int]:
        known = self.written.get((batch.base_offset, batch.epoch))
        if known is not None:
            return known[1]
        last = [one for one in self.committed if one.end_offset == batch.base_offset]
        return (last[0].base_offset, last[0].epoch) if last else before

    def changes_voters(self, node, change: VotersChange, old, old_offset: int) -> None:
        self.seen["voter change"] += 1
        if old_offset >= self.committed_end:
            raise Violation(f"{node} changes the voters again, before {old_offset} is committed")
        if all(batch.epoch != node.epoch for batch in self.committed):
            raise Violation(f"{node} changes the voters before it has committed anything")
        if change.states_version:
            self.seen["voters of the settings named"] += 1
            if not all(starmap(_is_same, zip(old.keys, change.voters.keys, strict=True))):
                raise Violation(f"{node} names others than {old}: {change.voters}")
        elif len(set(old.keys) ^ set(change.voters.keys)) > 1:
            raise Violation(f"{node} changes several voters at once: {old} to {change.voters}")

    def commits(self, node, offset: int, *, is_leader: bool) -> None:
        if offset <= node.high_watermark:
            raise Violation(f"high watermark of {node} from {node.high_watermark} to {offset}")
        known = self.committed_end
        if offset > known:
            if not is_leader:
                raise Violation(f"{node} follows, and commits {offset} after {known}")
            added = [one for one in node.disk.log if known < one.end_offset <= offset]
            if added[-1].epoch != node.epoch:
                raise Violation(f"{node} commits {added[-1]} in epoch {node.epoch}")
            self._check_durable(node, added[-1])
            self.committed += added
            self._committed_in += [node.epoch] * len(added)
        elif node.disk.start < offset:
            mine = [one for one in node.disk.log if one.end_offset <= offset]
            theirs = {one.base_offset: one for one in self.committed}
            for batch in mine:
                if theirs.get(batch.base_offset) != batch:
                    raise Violation(f"{node} commits {batch}, not {theirs.get(batch.base_offset)}")

    def _check_durable(self, node, batch: Batch) -> None:
        voters = node.voters
        having = [
            key
            for key in voters.keys
            for disk in node.model.disks
            if key.names(disk.key) and disk.has_durable(batch)
        ]
        if not voters.is_majority(having):
            raise Violation(f"{node} commits {batch}, which only {having} have of {voters.keys}")

    def truncates(self, node, offset: int) -> None:
        self.seen["truncation"] += 1
        if offset < node.high_watermark:
            raise Violation(f"{node} cuts at {offset} below {node.high_watermark}")

    # Time

    def time_passes(self, nodes, now_s: float) -> None:
        """Check that no leader goes on for long without a majority that fetches."""
        for node in nodes:
            if not node.leads or node.paused_until_s >= now_s - 0.1:
                continue
            contacts = self.contacts[node.id]
            others = [key.node for key in node.voters.keys if key.node != node.id]
            needed = node.voters.majority - (len(others) < len(node.voters))
            if needed:
                last_s = sorted((contacts[one] for one in others), reverse=True)[needed - 1]
                if now_s - last_s > self.check_quorum_s + 0.1:
                    raise Violation(f"{node} leads, and no majority has fetched since {last_s}")
