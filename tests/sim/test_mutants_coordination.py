"""The tester tested: a coordinator with a mistake is caught by the simulation within a few seeds.

As in `test_mutants`, each mutant breaks one rule in the running code, and must be found by a check
of what it broke. The look into the broker's memory (I9) is left out but for two: clients alone must
find the others.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace

import pytest

from kits.coordination_runs import (
    COMPACTION,
    GROUPS,
    KILLS,
    NETWORK,
    TRANSACTIONS,
    run_coordinators,
)
from moldau.coordination.groups.core import GroupCore
from moldau.coordination.groups.group import Group
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import OffsetKey, decode_key
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.loading import Loader
from moldau.coordination.transactions import transaction as rules
from moldau.coordination.transactions.sweeping import Sweeps
from moldau.protocol.errors import ErrorCode
from moldau.replication.partition import Partition
from moldau.server.lifecycle.internal_partitions import LedPartition
from moldau.server.transactions.markers import MarkerWriter
from moldau.server.transactions.verification import TransactionVerifier
from moldau.sim import nemesis, scenarios
from moldau.sim.history import Violation
from moldau.sim.scenarios import Failed
from moldau.storage.compaction.keys import KeyOffsets
from moldau.storage.log import Log

SEEDS = range(20)
"""How long a mutant may live."""


# Groups and offsets


def answers_before_it_writes(patch):
    """The port counts records as appended and committed that it appends later."""
    append = LedPartition.append
    end, committed = LedPartition.log_end_offset, LedPartition.committed_offset
    claimed = Counter()

    def later(self, batch, header):
        claimed[self] += header.count

        def write():
            claimed[self] -= header.count
            append(self, batch, header)

        asyncio.get_running_loop().call_later(0.02, write)

    patch.setattr(LedPartition, "append", later)
    for name, real in (("log_end_offset", end), ("committed_offset", committed)):
        ahead = property(lambda self, real=real: real.fget(self) + claimed[self])
        patch.setattr(LedPartition, name, ahead)


def answers_before_the_disk_has_it(patch):
    committed = property(lambda self: self._partition.high_watermark)
    flush = LedPartition._flush

    async def late(self):
        await asyncio.sleep(0.05)
        await flush(self)

    patch.setattr(LedPartition, "committed_offset", committed)
    patch.setattr(LedPartition, "_flush", late)


def takes_commits_of_any_generation(patch):
    patch.setattr(Group, "check_commit", lambda self, *_, transactional: ErrorCode.NONE)


def knows_no_fenced_instances(patch):
    check = GroupCore.check_member

    def lenient(self, member_id, instance_id):
        code = check(self, member_id, instance_id)
        return ErrorCode.NONE if code is ErrorCode.FENCED_INSTANCE_ID else code

    patch.setattr(GroupCore, "check_member", lenient)


def uses_a_generation_twice(patch):
    begin = GroupCore._begin_generation

    def again(self, turn):
        self.generation = max(1, self.generation - 1)
        begin(self, turn)

    patch.setattr(GroupCore, "_begin_generation", again)


def counts_generations_anew_after_a_start(patch):
    restore = Group._restore

    def anew(self, snapshot):
        restore(self, snapshot._replace(generation=0))

    patch.setattr(Group, "_restore", anew)


def loses_offsets_at_a_load(patch):
    replay = GroupShard.replay

    def forgetful(self, record, producer):
        if not (self._is_loading and isinstance(decode_key(record.key), OffsetKey)):
            replay(self, record, producer)

    patch.setattr(GroupShard, "replay", forgetful)


# Transactions


def loses_a_marker(patch):
    append = MarkerWriter._append

    def lossy(self, key, marker, batch, header):
        if key.partition == 1:
            return self._partitions.get(*key), 0
        return append(self, key, marker, batch, header)

    patch.setattr(MarkerWriter, "_append", lossy)


def ends_before_the_disk_has_its_markers(patch):
    class Careless:
        async def flush(self, log, offset):
            await asyncio.sleep(0)

    begin = MarkerWriter.__init__

    def careless(self, *parts):
        begin(self, *parts)
        self._flusher = Careless()

    patch.setattr(MarkerWriter, "__init__", careless)


def commits_what_was_aborted(patch):
    write = MarkerWriter.write

    def wrong(self, marker, keys):
        return write(self, marker._replace(committed=True), keys)

    patch.setattr(MarkerWriter, "write", wrong)


def serves_what_is_not_decided(patch):
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def keeps_quiet_about_aborts(patch):
    patch.setattr(Log, "aborted_transactions", lambda self, offset, read: ())


def gives_an_epoch_twice(patch):
    def same(transaction, expected, timeout_ms, now_ms, fresh):
        return rules._emptied(transaction, timeout_ms, now_ms)

    patch.setattr(rules, "initialize", same)


def asks_nobody_who_may_write(patch):
    def everybody(self, transactional_id, producer, partitions, *, add):
        return dict.fromkeys(partitions, ErrorCode.NONE)

    patch.setattr(TransactionVerifier, "verify", everybody)


def shows_offsets_of_open_transactions(patch):
    replay = OffsetStore.replay
    patch.setattr(OffsetStore, "replay", lambda self, key, value, _: replay(self, key, value, None))


def keeps_offsets_of_aborted_transactions(patch):
    end = OffsetStore.end_transaction
    patch.setattr(
        OffsetStore,
        "end_transaction",
        lambda self, producer_id, *, committed: end(self, producer_id, committed=True),
    )


def passes_over_markers_at_a_load(patch):
    patch.setattr(Loader, "_take_marker", lambda self, header, batch: None)


def lets_transactions_hang(patch):
    patch.setattr(Sweeps, "_is_timed_out", lambda self, transaction, now: False)


# Compaction


def cleans_the_newest_value_away(patch):
    note = KeyOffsets.note_records

    def ahead(self, data, position, end, count, base_offset):
        note(self, data, position, end, count, base_offset + 1)

    patch.setattr(KeyOffsets, "note_records", ahead)


MUTANTS = [
    (cleans_the_newest_value_away, "P1|P6", COMPACTION, NETWORK),
    (answers_before_it_writes, "P6|G1|G2", GROUPS, ("kill",)),
    (answers_before_the_disk_has_it, "P6|G1|G2|errors", GROUPS, ("power cut",)),
    (takes_commits_of_any_generation, "I10|P6", GROUPS, NETWORK),
    (knows_no_fenced_instances, "I10", GROUPS, KILLS),
    (uses_a_generation_twice, "G1|G2", GROUPS, NETWORK),
    (counts_generations_anew_after_a_start, "G1|G2|I10", GROUPS, KILLS),
    (loses_offsets_at_a_load, "P6", GROUPS, KILLS),
    (loses_a_marker, "P5|P7", TRANSACTIONS, KILLS),
    (ends_before_the_disk_has_its_markers, "P3|P5|P7", TRANSACTIONS, ("power cut",)),
    (commits_what_was_aborted, "P3|P5", TRANSACTIONS, NETWORK),
    (serves_what_is_not_decided, "P3", TRANSACTIONS, NETWORK),
    (keeps_quiet_about_aborts, "P3", TRANSACTIONS, NETWORK),
    (gives_an_epoch_twice, "P5|errors", TRANSACTIONS, KILLS),
    (asks_nobody_who_may_write, "P5|P7", TRANSACTIONS, KILLS),
    (shows_offsets_of_open_transactions, "P5", TRANSACTIONS, KILLS),
    (keeps_offsets_of_aborted_transactions, "P5|P6", TRANSACTIONS, NETWORK),
    (passes_over_markers_at_a_load, "P5|P6|P7", TRANSACTIONS, KILLS),
    (lets_transactions_hang, "P7", TRANSACTIONS, KILLS),
]


async def look_away(broker) -> None:
    pass


def caught(work, faults) -> Failed | None:
    """Run seeds until one fails."""
    for seed in SEEDS:
        try:
            run_coordinators(seed, work, faults, duration_s=3.0)
        except Failed as failure:
            return failure
    return None


@pytest.mark.parametrize(
    ("mutant", "finding", "work", "faults"),
    MUTANTS,
    ids=[mutant.__name__ for mutant, _, _, _ in MUTANTS],
)
def test_a_coordinator_with_a_mistake_is_caught(mutant, finding, work, faults, monkeypatch):
    mutant(monkeypatch)
    for module in (nemesis, scenarios):
        monkeypatch.setattr(module, "check_replayed", look_away)
    failure = caught(work, faults)
    assert failure is not None, "it lives"
    assert isinstance(failure.__cause__, Violation), failure
    assert re.match(finding, str(failure.__cause__)), failure


@pytest.mark.parametrize("mutant", [loses_offsets_at_a_load, passes_over_markers_at_a_load])
def test_a_state_that_is_not_what_the_log_says_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    failure = caught(replace(GROUPS, transactors=TRANSACTIONS.transactors), NETWORK)
    assert failure is not None, "it lives"
    assert str(failure.__cause__).startswith("I9")


@pytest.mark.parametrize("faults", [KILLS, NETWORK], ids=["kills", "network"])
@pytest.mark.parametrize("work", [GROUPS, TRANSACTIONS], ids=["groups", "transactions"])
def test_without_a_mistake_nothing_is_found(work, faults):
    run_coordinators(0, work, faults, duration_s=3.0)
