"""What a node of a quorum has promised is read from what a power cut leaves, and at once."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace

import pytest

from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.quorum import QUORUM_STATE
from moldau.sim.cluster.metadata_keeping import METADATA_DIRECTORY
from moldau.sim.cluster.quorum_disks import NO_PROMISE, Promise, QuorumDisk
from moldau.sim.disk import SimDisk

FOLDER = f"{METADATA_DIRECTORY}/{METADATA_FOLDER}"
PATH = f"{FOLDER}/{QUORUM_STATE}"


@pytest.fixture
def machine():
    """A machine with a folder for its metadata, under `process.disk`."""
    disk = SimDisk(random.Random(1))
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    disk.sync_folder(METADATA_DIRECTORY)
    return SimpleNamespace(process=SimpleNamespace(disk=disk))


def write(disk, epoch, *, leader=-1, voted=-1, synced=True):
    """Put another file in the place of the promise; `synced` makes its name durable."""
    state = {"leaderEpoch": epoch, "leaderId": leader, "votedId": voted}
    disk.remove(f"{PATH}.tmp")  # a power cut may have left one
    file = disk.open(f"{PATH}.tmp", create=True)
    file.append([json.dumps(state).encode()])
    file.sync()
    disk.rename(f"{PATH}.tmp", PATH)
    if synced:
        disk.sync_folder(FOLDER)


def test_a_new_disk_promises_nothing(machine):
    assert QuorumDisk(machine).durable_promise() is NO_PROMISE


def test_each_promise_is_seen_as_soon_as_it_is_durable(machine):
    disk = QuorumDisk(machine)
    for epoch in range(1, 4):
        write(machine.process.disk, epoch, voted=epoch)
        assert disk.durable_promise() == Promise(epoch, -1, epoch)


def test_a_promise_does_not_count_before_its_name_is_durable(machine):
    disk = QuorumDisk(machine)
    write(machine.process.disk, 1, voted=2)
    write(machine.process.disk, 2, voted=3, synced=False)
    assert disk.durable_promise() == Promise(1, -1, 2)
    machine.process.disk.sync_folder(FOLDER)
    assert disk.durable_promise() == Promise(2, -1, 3)


def test_a_promise_that_was_taken_away_is_seen_at_once(machine):
    disk = QuorumDisk(machine)
    write(machine.process.disk, 5, leader=1)
    assert disk.durable_promise() == Promise(5, 1)
    machine.process.disk.remove_folder(METADATA_DIRECTORY)
    machine.process.disk.sync_folder("/")
    assert disk.durable_promise() == NO_PROMISE


def test_another_disk_is_looked_at_anew(machine):
    disk = QuorumDisk(machine)
    write(machine.process.disk, 5, leader=1)
    assert disk.durable_promise() == Promise(5, 1)
    machine.process.disk = SimDisk(random.Random(2))
    assert disk.durable_promise() == NO_PROMISE


def test_what_a_power_cut_makes_durable_is_seen(machine):
    disk = QuorumDisk(machine)
    found = set()
    for epoch in range(1, 30):
        write(machine.process.disk, epoch, synced=False)
        machine.process.disk = machine.process.disk.power_cut()
        found.add(disk.durable_promise().epoch == epoch)
    assert found == {True, False}
