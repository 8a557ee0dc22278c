"""A voter that an observer can follow, on a disk of its own."""

from __future__ import annotations

import pytest

from kits.observed_cluster import ObservedCluster
from kits.sole_voter import NOTHING_OLDER
from moldau.sim.disk import SimDisk


@pytest.fixture
def voters_disk(world):
    return SimDisk(world.random("voter's disk"))


@pytest.fixture
def cluster(world, voters_disk):
    return ObservedCluster(world, voters_disk)


@pytest.fixture
def snapshotting(world, voters_disk):
    """A voter that writes a snapshot after a few commits, and keeps only the newest."""
    return ObservedCluster(world, voters_disk, snapshot_after_bytes=1_000, retention=NOTHING_OLDER)
