"""The tester tested: a broker with a mistake is caught by the simulation within a few seeds.

Each mutant breaks one rule in the running code, as a slip of the pen would. `caught` runs seeds
until one fails, and the failure must be a finding of the checks, not an accident of the mutant.
"""

from __future__ import annotations

import asyncio
import re

import pytest

from moldau.cluster.journal import Journal
from moldau.protocol.messages.data import PartitionProduceResponse
from moldau.replication.partition import Partition
from moldau.server.fetching import Fetch
from moldau.server.handlers.produce import ProduceHandler
from moldau.sim.history import Violation
from moldau.sim.scenarios import Failed, run_seed
from moldau.storage import producer_history, producers, recovery, scan
from moldau.storage.directory import LogDirectory
from moldau.storage.epochs import LeaderEpochs
from moldau.storage.flushing import Flush
from moldau.storage.indexes import OffsetIndex

SEEDS = range(25)
"""How long a mutant may live."""


def answers_before_it_appends(patch):
    append = ProduceHandler._append

    def later(self, partition, incoming):
        copy = incoming._replace(batch=bytes(incoming.batch))
        asyncio.get_running_loop().call_later(0.01, append, self, partition, copy)
        return PartitionProduceResponse(
            partition.key.partition, 0, partition.log.log_end_offset, -1, 0
        )

    patch.setattr(ProduceHandler, "_append", later)


def promises_more_than_the_log_has(patch):
    def advance(self):
        self.high_watermark = self.log.log_end_offset + 1
        self.notify()

    patch.setattr(Partition, "advance", advance)


def remembers_one_batch_of_a_producer(patch):
    def duplicate(producer, header):
        last = producer.batches[-1] if producer.batches else None
        same = last is not None and last.last_sequence == header.last_sequence
        return last if same else None

    patch.setattr(producers, "_duplicate", duplicate)


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


def commits_metadata_without_a_sync(patch):
    patch.setattr(Journal, "sync", lambda self: None)


def hands_old_checkpoints_to_new_topics(patch):
    patch.setattr(LogDirectory, "_forget", lambda self, key: None)


def appends_a_retried_batch_again(patch):
    patch.setattr(producers.ProducerStates, "check", lambda self, header, origin=None: None)


def stops_waiting_readers_one_too_early(patch):
    read = Fetch._read

    def reads_on(self, reader, left, *, first):
        fetched = read(self, reader, left, first=first)
        return fetched._replace(log_start_offset=max(fetched.log_start_offset - 1, 0))

    patch.setattr(Fetch, "_read", reads_on)


MUTANTS = [
    (answers_before_it_appends, "P[2489]|I5"),
    (promises_more_than_the_log_has, "P[79]|I1"),
    (remembers_one_batch_of_a_producer, "P4"),
    (appends_a_retried_batch_again, "P4"),
    (forgets_producers_at_a_start, "P4|I8"),
    (trusts_what_it_finds_after_a_crash, "P[28]|I5|E9"),
    (looks_up_offsets_one_batch_late, "I5|P[27]"),
    (keeps_no_leader_epochs, "I6"),
    (holds_durable_what_it_has_not_synced, "P1"),
    (commits_metadata_without_a_sync, "P[48]"),
    (hands_old_checkpoints_to_new_topics, "P[128]"),
]


@pytest.mark.parametrize(
    ("mutant", "finding"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS]
)
def test_a_broker_with_a_mistake_is_caught(mutant, finding, monkeypatch):
    mutant(monkeypatch)
    for seed in SEEDS:
        try:
            run_seed(seed)
        except Failed as failure:
            assert isinstance(failure.__cause__, Violation), failure
            assert re.match(finding, str(failure.__cause__)), failure
            return
    pytest.fail(f"{mutant.__name__} lives")


assert producer_history  # imported so that its names are patched where they are used
