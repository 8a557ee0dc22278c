"""The journal refuses to write what it could not read back."""

from __future__ import annotations

import pytest

from moldau.base.errors import InvariantViolated
from moldau.base.files import read_whole
from moldau.cluster.journal import Journal
from moldau.records.builder import BatchBuilder
from moldau.sim.disk import SimDisk
from moldau.sim.world import World

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"


@pytest.fixture
def disk():
    with World(7) as world:
        disk = SimDisk(world.random("disk"))
        disk.make_folder("/data")
        yield disk


@pytest.fixture
def journal(disk):
    journal = Journal(disk, FOLDER)
    list(journal.load(0))
    journal.resume(0)
    journal.begin_epoch(5)
    return journal


def batch():
    builder = BatchBuilder(base_offset=0, leader_epoch=5)
    builder.append(0, None, b"value")
    return builder.build()


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_epoch_is_not_used_twice(journal, epoch):
    with pytest.raises(InvariantViolated, match=f"leader epoch {epoch} after 5"):
        journal.begin_epoch(epoch)
    journal.begin_epoch(6)
    assert journal.last_epoch == 6


def test_every_batch_has_offsets_of_its_own(journal, disk):
    journal.append(batch(), 1)
    before = read_whole(disk, LOG)
    for next_offset in (0, 1):
        with pytest.raises(InvariantViolated, match=f"a batch from 1 ends at {next_offset}"):
            journal.append(batch(), next_offset)
    assert read_whole(disk, LOG) == before
