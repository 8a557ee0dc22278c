"""Mutants of a cluster on a quorum: elections, promises, commits, and what stands around the core.

Those of the core alone are in `kits.raft_mutants`, with a model that finds them sooner. Here are
those that a whole cluster shows, and those of the shell (`cluster/kraft`), which the model lacks.
"""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from kits.mutants.cluster_runs import in_quorum
from kits.mutants.mutant import Mutant
from moldau.cluster.image_difference import image_difference
from moldau.cluster.kraft import image_follower
from moldau.cluster.kraft.image_follower import ImageFollower
from moldau.cluster.kraft.raft_log import RaftLog
from moldau.cluster.kraft.store import RaftStore
from moldau.cluster.raft import elections, leading, timers, voting
from moldau.cluster.raft.log_position import LogPosition

Patch = pytest.MonkeyPatch

LEADERS = ("kill of the controller", "power cut of the leader", "zombie leader of the quorum")
TAILS = ("uncommitted tail", "kill of the controller")
CUTS = ("leader cut off from voters", "zombie leader of the quorum")
LAGS = ("leader cut off from one voter", "kill of the controller", "kill of a majority")
SNAPSHOTS = ("snapshot half way", "kill")

SMALL_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1",
    "controller.quorum.fetch.max.bytes": "500",
}
QUICK = {
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "400",
}


def answer_before_the_vote_is_durable(patch: Patch) -> None:
    """Let what follows a promise leave while the promise is being written."""
    whole = RaftStore._keep_promise
    under_way = set()

    async def keep_promise(self, quorum, life):
        task = asyncio.ensure_future(whole(self, quorum, life))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    patch.setattr(RaftStore, "_keep_promise", keep_promise)


def commit_an_older_epoch(patch: Patch) -> None:
    """Commit what a majority has, whoever wrote it."""
    whole = leading.committed_offset
    patch.setattr(leading, "committed_offset", lambda voters, ends, _: whole(voters, ends, -1))


def ask_for_no_pre_votes(patch: Patch) -> None:
    patch.setattr(elections, "ask_for_pre_votes", elections.stand)


def vote_for_anybody(patch: Patch) -> None:
    patch.setattr(voting, "is_new_enough", lambda *_: True)


def count_observers(patch: Patch) -> None:
    """Commit what so many nodes have as are a majority of the voters."""

    def committed_offset(voters, ends, epoch_start):
        counted = sorted(ends.values(), reverse=True)[voters.majority - 1 : voters.majority]
        return counted[0] if counted and counted[0] > epoch_start else -1

    patch.setattr(leading, "committed_offset", committed_offset)


def lead_without_a_majority(patch: Patch) -> None:
    """Let a leader go on that no majority fetches from, or that was told to resign."""
    for module in (leading, timers):
        patch.setattr(module, "quorum_deadline_s", lambda *_: inf)
    patch.setattr(leading, "resign", lambda _: None)


def count_what_is_not_synced(patch: Patch) -> None:
    """Take a log for durable as soon as it is written."""
    whole = LogPosition.append

    def append(self, epoch, count):
        base = whole(self, epoch, count)
        self.synced_offset = self.end_offset
        return base

    patch.setattr(LogPosition, "append", append)


def sync_nothing(patch: Patch) -> None:
    """Say that the journal is synced when nothing was asked of the disk."""

    async def sync(self, mark):
        del self, mark

    patch.setattr(RaftLog, "sync", sync)


def apply_what_is_not_committed(patch: Patch) -> None:
    """Take what is in the log for decided."""
    whole = ImageFollower._apply

    async def apply(self):
        self.committed_offset = self._log.journal.next_offset
        await whole(self)

    patch.setattr(ImageFollower, "_apply", apply)


def apply_a_snapshot_to_what_is_there(patch: Patch) -> None:
    """Tell listeners all that a snapshot says, as if they knew none of it."""
    patch.setattr(
        image_follower, "difference_in_pieces", lambda _, image: [list(image.as_changes())]
    )


def tell_a_snapshot_twice(patch: Patch) -> None:
    """Install a snapshot, and tell listeners of it once more."""
    whole = ImageFollower.install

    async def install(self, wanted):
        before = self.image
        await whole(self, wanted)
        self._publish(list(image_difference(before, self.image)), self.image)

    patch.setattr(ImageFollower, "install", install)


ANY = "[IP][0-9]+|E10|not finished"

MUTANTS = {
    "a vote is answered before it is durable": Mutant(
        answer_before_the_vote_is_durable, in_quorum(*LEADERS), ANY
    ),
    "a leader commits records of an older epoch": Mutant(
        commit_an_older_epoch, in_quorum(*TAILS, settings=QUICK), ANY
    ),
    "pre-votes are skipped": Mutant(ask_for_no_pre_votes, in_quorum(*LEADERS), "I21"),
    "a lagging voter is elected": Mutant(
        vote_for_anybody, in_quorum(*LAGS, *TAILS, settings=QUICK), ANY
    ),
    "an observer of the quorum counts": Mutant(
        count_observers, in_quorum(*CUTS, broker_count=5), ANY
    ),
    "a leader without a majority goes on": Mutant(
        lead_without_a_majority, in_quorum(*CUTS, settings=QUICK, fault_length_s=6.0), ANY
    ),
    "the metadata log counts before it is synced": Mutant(
        count_what_is_not_synced, in_quorum(*LEADERS), ANY
    ),
    "the metadata log is not synced": Mutant(sync_nothing, in_quorum(*LEADERS), ANY),
    "metadata is applied before it is committed": Mutant(
        apply_what_is_not_committed, in_quorum(*TAILS), ANY
    ),
    "a snapshot is applied on top of existing metadata": Mutant(
        apply_a_snapshot_to_what_is_there, in_quorum(*SNAPSHOTS, settings=SMALL_SNAPSHOTS), "I23"
    ),
    "a snapshot is reported twice": Mutant(
        tell_a_snapshot_twice, in_quorum(*SNAPSHOTS, settings=SMALL_SNAPSHOTS), "I23"
    ),
}
