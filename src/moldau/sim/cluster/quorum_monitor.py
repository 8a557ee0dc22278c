"""Checks a quorum after every turn of the loop, from outside, and counts what it goes through.

    I16 an epoch has one leader, for which a majority of the voters has durably voted
    I17 what a node has durably promised stays: epochs do not go back, a vote and a leader stay in
        their epoch
    I18 what is committed at an offset is the same batch on every node, for ever, and is durable on
        a majority of the voters
    I19 high watermarks do not fall in one life, and a leader commits with a record of its own epoch
    I20 a leader that was replaced leads no more after a while
    I21 nobody asks for votes before a majority has granted pre-votes
    I22 when all is quiet, the journals of all nodes end with the same batch

The numbers go on from those of `monitor` and `tree_checks`; I23 is in `heard_changes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.states import (
    Candidate,
    Download,
    Follower,
    Leader,
    Prospective,
    State,
)
from moldau.cluster.raft.voters import ReplicaKey, VoterSet
from moldau.sim.cluster.heard_changes import HeardChanges
from moldau.sim.cluster.metadata_keeping import VOTER_IDS, InQuorum
from moldau.sim.cluster.nodes import Node, Nodes
from moldau.sim.cluster.quorum_disks import NO_PROMISE, Promise, QuorumDisk
from moldau.sim.cluster.quorum_nodes import store_of
from moldau.sim.history import Violation

PATIENCE = 4.0
"""How many times check-quorum may take: fetches that were sent before a fault may arrive late."""

_Key = tuple[int, int, int, int]
"""Base offset, next offset, epoch and checksum of a batch."""


class _Observed(NamedTuple):
    """One node as it was found last."""

    life: Life
    state: State
    epoch: int
    high_watermark: int
    end_offset: int
    committed: int
    """As far as the store has heard."""
    download: Download | None
    position: int
    """Of the download."""

    def still_shows(self, life: Life, committed: int) -> bool:
        """Tell whether a node is as it was; False also if it may be."""
        download = _download_of(life.state)
        return (
            self.life is life
            and self.state is life.state
            and self.end_offset == life.log.end_offset
            and self.high_watermark == life.high_watermark
            and self.committed == committed
            and self.epoch == life.epoch
            and self.download is download
            and (download is None or self.position == download.position)
        )


def _download_of(state: State) -> Download | None:
    return state.download if isinstance(state, Follower) else None


def _observe(life: Life, committed: int) -> _Observed:
    state = life.state
    download = _download_of(state)
    return _Observed(
        life,
        state,
        life.epoch,
        life.high_watermark,
        life.log.end_offset,
        committed,
        download,
        0 if download is None else download.position,
    )


class QuorumMonitor:
    """Checks what holds at any time, in a run with a quorum."""

    def __init__(
        self, nodes: Nodes, quorum: InQuorum, seen: Counter[str], now: Callable[[], float]
    ) -> None:
        self._nodes = nodes
        self._quorum = quorum
        self._seen = seen
        self._now = now
        self._disks = {node.id: QuorumDisk(node) for node in nodes.all}
        self._observed: dict[int, _Observed] = {}
        self._heard: dict[int, HeardChanges] = {}
        self._promises: dict[ReplicaKey, Promise] = {}
        self._leaders: dict[int, int] = {}
        """By epoch."""
        self._committed: dict[int, _Key] = {}
        """By base offset."""
        self._newest_epoch = 0
        """That has had a leader."""
        self._leading: dict[int, Node] = {}
        """The nodes that believe to lead."""
        self._end = 0
        """Of what is known to be committed."""
        self._replaced_s: dict[int, float] = {}
        """Since when a node leads an epoch that is over, while it runs."""

    def look(self, nodes: Sequence[Node]) -> None:
        """Check everything that has changed since the last look; no other node has.

        To be called after every turn: a leader that was replaced may lead too long while its node
        does nothing.
        """
        for node in nodes:
            store = store_of(node.process)
            self._check_heard(node, store)
            life = None if store is None else store.node.life
            old = self._observed.get(node.id)
            if store is None or life is None:
                if old is not None:
                    self._note_end_of_download(old, None)
                    del self._observed[node.id]
                    self._leading.pop(node.id, None)
                self._replaced_s.pop(node.id, None)
            elif old is None or not old.still_shows(life, store.committed_offset):
                now = _observe(life, store.committed_offset)
                if now != old:
                    self._take(node, old, now)
        for node in self._leading.values():
            self._check_replaced(node)
        for node in nodes:
            self._check_promise(node)

    def _take(self, node: Node, old: _Observed | None, now: _Observed) -> None:
        self._observed[node.id] = now
        self._look_at(node, old, now)
        if isinstance(now.state, Leader):
            self._leading[node.id] = node
        else:
            self._leading.pop(node.id, None)

    def _check_heard(self, node: Node, store: RaftStore | None) -> None:
        heard = self._heard.get(node.id)
        if store is not None and (heard is None or heard.store is not store):
            heard = self._heard[node.id] = HeardChanges(node.name, store)
        if heard is not None:
            heard.check()

    def _look_at(self, node: Node, old: _Observed | None, now: _Observed) -> None:
        if isinstance(now.state, Leader) and (old is None or old.state is not now.state):
            self._check_elected(node, now)
        if old is not None:
            self._note_end_of_download(old, now)
            if old.life is now.life:
                self._compare(node, old, now)
        known = 0 if old is None or old.life is not now.life else old.committed
        if now.committed > known:
            self._check_committed(node, now.life.voters, known, now.committed)

    # Elections and promises

    def _check_elected(self, node: Node, now: _Observed) -> None:
        epoch = now.epoch
        leader = self._leaders.setdefault(epoch, node.id)
        if leader != node.id:
            raise Violation(f"I16: {node.name} leads in epoch {epoch}, and so did node {leader}")
        voters = now.life.voters
        voted = [key for key in voters.keys if self._has_voted(key, epoch, node)]
        if not voters.is_majority(voted):
            raise Violation(f"I16: {node.name} leads in epoch {epoch} by {voted}")
        self._newest_epoch = max(self._newest_epoch, epoch)
        self._nodes.trace.note("leads the quorum", node.name, f"epoch {epoch}")
        self._seen["quorum election"] += 1

    def _has_voted(self, voter: ReplicaKey, epoch: int, node: Node) -> bool:
        if self._is_lost(voter):
            return True
        promise = self._disks[voter.node].durable_promise()
        return promise.epoch > epoch or promise[::2] == (epoch, node.id)

    def _is_lost(self, voter: ReplicaKey) -> bool:
        """Tell whether a voter's disk is gone: what it has said before may arrive afterwards."""
        return not voter.names(self._quorum.replica(voter.node))

    def _check_promise(self, node: Node) -> None:
        if node.id not in VOTER_IDS:
            return  # it may have a new disk
        replica = self._quorum.replica(node.id)
        now, old = self._disks[node.id].durable_promise(), self._promises.get(replica, NO_PROMISE)
        if now is old:
            return
        self._promises[replica] = now
        is_kept = now.epoch > old.epoch or (
            now.epoch == old.epoch
            and old.voted in (-1, now.voted)
            and old.leader in (-1, now.leader)
        )
        if not is_kept:
            raise Violation(f"I17: {node.name} has promised {old}, and now {now}")

    def _check_replaced(self, node: Node) -> None:
        now = self._observed[node.id]
        if now.epoch >= self._newest_epoch or node.process.paused:
            self._replaced_s.pop(node.id, None)
            return
        since_s = self._replaced_s.setdefault(node.id, self._now())
        if self._now() > since_s + PATIENCE * now.life.timeouts.check_quorum_s:
            raise Violation(
                f"I20: {node.name} leads in epoch {now.epoch} since {since_s:.3f}, when epoch"
                f" {self._newest_epoch} had a leader"
            )

    # The log

    def _compare(self, node: Node, old: _Observed, now: _Observed) -> None:
        if now.high_watermark < old.high_watermark or now.committed < old.committed:
            raise Violation(
                f"I19: {node.name}: back from {old.high_watermark} to {now.high_watermark},"
                f" from {old.committed} to {now.committed}"
            )
        if now.end_offset < old.end_offset:
            self._seen["truncation of the metadata log"] += 1
            self._nodes.trace.note(
                "metadata cut", node.name, f"from {old.end_offset} to {now.end_offset}"
            )
        state = now.state
        if isinstance(state, Candidate) and not isinstance(old.state, Prospective | Candidate):
            raise Violation(f"I21: {node.name} raises the epoch to {now.epoch}, asking nobody")
        if (
            isinstance(state, Leader)
            and old.state is state
            and old.high_watermark < now.high_watermark <= state.epoch_start
        ):
            raise Violation(
                f"I19: {node.name} commits {now.high_watermark} in epoch {now.epoch}, which begins"
                f" at {state.epoch_start}"
            )

    def _check_committed(self, node: Node, voters: VoterSet, offset: int, end_offset: int) -> None:
        for batch in self._disks[node.id].batches(offset, end_offset):
            header = batch.header
            key = (header.base_offset, header.next_offset, header.leader_epoch, header.crc)
            known = self._committed.setdefault(header.base_offset, key)
            if known != key:
                raise Violation(f"I18: {node.name} has committed {key}, and {known} was committed")
        if end_offset > self._end:
            self._end = end_offset
            self._check_durable(node, voters, end_offset)

    def _check_durable(self, node: Node, voters: VoterSet, end_offset: int) -> None:
        holders = [key for key in voters.keys if self._is_durable(key, end_offset)]
        if not voters.is_majority(holders):
            raise Violation(
                f"I18: {node.name} has committed up to {end_offset}, which {holders} hold"
                f" of {voters.keys}"
            )

    def _is_durable(self, voter: ReplicaKey, end_offset: int) -> bool:
        if self._is_lost(voter):
            return True
        disk = self._disks[voter.node]
        last = next(iter(disk.batches(end_offset - 1, end_offset)), None)
        if last is not None and last.is_durable:
            header = last.header
            known = self._committed.get(header.base_offset)
            return known is not None and known[2:] == (header.leader_epoch, header.crc)
        return disk.durable_snapshot_end() >= end_offset

    def problem_of_journals(self) -> str | None:
        """I22: say how the journals differ; None if they end alike."""
        ends: dict[int, tuple[int, int]] = {}
        for node in self._nodes.all:
            last = None
            for batch in self._disks[node.id].batches(0, 1 << 62):
                last = batch.header
            if last is not None:
                ends[node.id] = (last.next_offset, last.crc)
        return None if len(set(ends.values())) < 2 else f"I22: journals end at {ends}"

    # Snapshots

    def _note_end_of_download(self, old: _Observed, now: _Observed | None) -> None:
        """Count a download that has begun and will not be finished."""
        download = old.download
        if download is None or (now is not None and now.download is download):
            return
        if old.position > 0 and not download.is_complete:
            self._seen["snapshot fetched half way"] += 1
