"""A voter and the disk of an observer, on virtual time."""

from __future__ import annotations

import pytest

from kits.observed_cluster import ObservedCluster
from moldau.sim.disk import SimDisk
from moldau.sim.world import World


@pytest.fixture
def world():
    with World(9) as made:
        yield made


@pytest.fixture
def disk(world):
    return SimDisk(world.random("observer's disk"))


@pytest.fixture
def cluster(world):
    return ObservedCluster(world, SimDisk(world.random("voter's disk")))


@pytest.fixture
def snapshotting(world):
    """A voter that writes a snapshot after a few commits."""
    return ObservedCluster(world, SimDisk(world.random("disk")), snapshot_after_bytes=1_000)
