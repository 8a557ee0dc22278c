"""The tester tested: a broker with a mistake is caught by the simulation within a few seeds.

Each mutant breaks one rule in the running code, as a slip of the pen would, and is run where such
a rule matters. The failure must be a finding of the checks, not an accident of the mutant.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from moldau.cluster.journal import Journal
from moldau.records.compression import Codec
from moldau.replication.partition import Partition
from moldau.server.handlers.produce import ProduceHandler
from moldau.sim.history import Violation
from moldau.sim.scenarios import Failed, run_seed
from moldau.sim.swarm import Coordination
from moldau.sim.workload.producer import ProducerPlan
from moldau.storage import producers, recovery, scan
from moldau.storage.append_result import AppendResult
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.flushing import Flush, Flusher
from moldau.storage.indexes import OffsetIndex

SEEDS = range(36, 56)
"""How long a mutant may live."""

FOCUSED = {"duration_s": 3.0, "coordination": Coordination()}
"""Coordinators have their own mutants (`test_mutants_coordination`)."""


def answers_before_it_appends(patch):
    append = ProduceHandler._append

    def later(self, partition, header, batch, acks):
        batch = bytes(batch)
        asyncio.get_running_loop().call_later(0.01, append, self, partition, header, batch, acks)
        end = partition.log_end_offset
        return AppendResult(end, end + header.last_offset_delta, header.max_timestamp, False)

    patch.setattr(ProduceHandler, "_append", later)


def promises_more_than_the_log_has(patch):
    def advance(self):
        self.high_watermark = self.log.log_end_offset + 1
        self.notify()

    patch.setattr(Partition, "advance", advance)


def forgets_producers_at_a_start(patch):
    def forget(files, folder, states, segments, end):
        states.clear()

    patch.setattr(recovery, "restore_producers", forget)


def trusts_what_it_finds_after_a_crash(patch):
    patch.setattr(scan, "_crc_matches", lambda window, batch: True)


def looks_up_offsets_one_batch_late(patch):
    floor = OffsetIndex.floor
    patch.setattr(OffsetIndex, "floor", lambda self, offset: floor(self, offset + 3))


def keeps_no_leader_epochs(patch):
    patch.setattr(LeaderEpochs, "assign", lambda self, epoch, start_offset: False)


def holds_durable_what_it_has_not_synced(patch):
    patch.setattr(Flush, "run", lambda self: None)


def answers_before_the_disk_has_it(patch):
    async def flush(self, log, offset):
        await asyncio.sleep(0)

    patch.setattr(Flusher, "flush", flush)


def commits_metadata_without_a_sync(patch):
    patch.setattr(Journal, "sync", lambda self: None)


def appends_a_retried_batch_again(patch):
    patch.setattr(producers.ProducerStates, "check", lambda self, header, origin=None: None)


CRASHES = {"faults": ("kill", "orderly restart"), "fault_mean_s": 0.3}
POWER = {"faults": ("power cut",), "fault_mean_s": 0.3}
RESETS = {"faults": ("reset",), "fault_mean_s": 0.1, "reset_chance": 0.01}
RETRIES = (ProducerPlan(-1, True, 5, Codec.NONE, 0.02),) * 3
SYNCED = ({"flush.messages": "1"},) * 2
FLUSHED = ({"flush.ms": "100"},) * 2

MUTANTS = [
    (answers_before_it_appends, "P2|P4|P7|P8|P9|I5", {}),
    (promises_more_than_the_log_has, "P2|P7|P8|P9|I1", {}),
    (appends_a_retried_batch_again, "P4", RESETS | {"producers": RETRIES}),
    (forgets_producers_at_a_start, "P4|I8|E9", CRASHES | {"producers": RETRIES}),
    (trusts_what_it_finds_after_a_crash, "P2|P8|I5|E9", POWER),
    (looks_up_offsets_one_batch_late, "P2|P7|I5", {}),
    (keeps_no_leader_epochs, "I6", {}),
    (holds_durable_what_it_has_not_synced, "P1|P2|P8|E9", POWER | {"topics": FLUSHED}),
    (answers_before_the_disk_has_it, "P1", POWER | {"topics": SYNCED}),
    (commits_metadata_without_a_sync, "P4|P8", POWER | {"topics_change": True}),
]


def caught(focus) -> Failed | None:
    """Run seeds until one fails."""
    for seed in SEEDS:
        try:
            run_seed(seed, adjust=lambda swarm: replace(swarm, **FOCUSED, **focus))
        except Failed as failure:
            return failure
    return None


@pytest.mark.parametrize(
    ("mutant", "finding", "focus"), MUTANTS, ids=[mutant.__name__ for mutant, _, _ in MUTANTS]
)
def test_a_broker_with_a_mistake_is_caught(mutant, finding, focus, monkeypatch):
    mutant(monkeypatch)
    failure = caught(focus)
    assert failure is not None, "it lives"
    assert isinstance(failure.__cause__, Violation), failure
    assert re.match(finding, str(failure.__cause__)), failure


@pytest.mark.parametrize(
    "focus",
    [CRASHES, POWER, RESETS | {"producers": RETRIES[:1]}],
    ids=["crashes", "power cuts", "resets"],
)
def test_without_a_mistake_nothing_is_found(focus):
    run_seed(0, adjust=lambda swarm: replace(swarm, **FOCUSED, **focus))
