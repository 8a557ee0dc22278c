"""Voters whose disks refuse: a leader resigns, and a node whose log is in doubt does not vote.

Three stores with real nodes, on simulated disks; what they ask each other goes straight there.
"""

from __future__ import annotations

import asyncio
import errno

import pytest

from kits.raft_node import key
from kits.sole_voter import created
from kits.stores_in_quorum import (
    CLUSTER_ID,
    FOLDER,
    DirectPeers,
    format_disk,
    quorum_store,
    static_voters,
)
from moldau.base.errors import StorageError
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.quorum import QUORUM_STATE
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.requests import VoteRequest
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.store import OutcomeUnknown
from moldau.cluster.sync_mark import SyncMark
from moldau.protocol.errors import ErrorCode
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World

VOTERS = (1, 2, 3)
LOG = f"{FOLDER}/{METADATA_FOLDER}"
SEGMENT = f"{LOG}/{0:020d}.log"


class Three:
    """Three voters and their disks; what `DirectPeers` asks for is here too."""

    def __init__(self, world):
        self._world = world
        self.chance = world.random("quorum")
        self.disks = {node: SimDisk(world.random(f"disk-{node}")) for node in VOTERS}
        self.stores = {}
        self.failures = {}

    async def delay(self):
        await asyncio.sleep(0.001)

    def is_lost(self, *_):
        return False

    async def start(self, *nodes):
        for node in nodes or VOTERS:
            format_disk(self.disks[node], node)
            executor = SimExecutor(self._world)
            store = quorum_store(
                self.disks[node],
                node,
                static_voters(*VOTERS),
                DirectPeers(self, node),
                self._world,
                executor,
            )
            self.stores[node] = store
            store.on_failed(lambda error, node=node: self.failures.setdefault(node, error))
            await store.start()

    async def leader(self, *, but=None):
        """Return the node that leads, another one than that, and its tenure."""
        while True:
            for node, store in self.stores.items():
                if node != but and (tenure := await store.claim()) is not None:
                    return node, tenure
            await asyncio.sleep(0.02)

    async def until(self, condition):
        for _ in range(1_000):
            if condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("not within 20 seconds")

    async def level(self, node):
        """Return once a node has all that the leader has committed."""
        await self.until(
            lambda: (
                self.stores[node].image.version
                == max(store.committed_offset for store in self.stores.values())
            )
        )

    async def close(self):
        for store in self.stores.values():
            await store.close()


def with_three(test):
    def run(world):
        async def main():
            three = Three(world)
            await three.start()
            await test(three)
            await three.close()

        world.run(main())

    run.__name__ = test.__name__
    return run


async def commit(three, node, tenure, number):
    await tenure.commit(three.stores[node].image.version, [created(number)])


def role(three, node):
    life = three.stores[node].node.life
    return None if life is None else life.state.role


def test_a_commit_of_several_batches_counts_as_one_however_they_become_durable(monkeypatch):
    monkeypatch.setattr("moldau.cluster.commit_batches.BATCH_BYTES_MAX", 200)

    @with_three
    async def commits(three):
        node, tenure = await three.leader()
        heard = []
        store = three.stores[node]
        store.subscribe(lambda changes, image: heard.append((len(changes), image.version)))
        for first in range(0, 300, 30):
            changes = [created(first + number) for number in range(30)]
            await tenure.commit(store.image.version, changes)
            assert heard[-1] == (30, store.image.version)
        assert len(heard) == 10
        for other in VOTERS:
            await three.level(other)
            assert three.stores[other].image == store.image
        assert not three.failures

    for seed in range(5):
        with World(seed) as world:
            commits(world)


@with_three
async def test_a_leader_without_room_resigns_and_takes_part_again(three):
    node, tenure = await three.leader()
    three.disks[node].faults.fill_up(20)
    with pytest.raises(OutcomeUnknown):
        await commit(three, node, tenure, 1)
    assert tenure.is_over
    assert role(three, node) is None
    other, later = await three.leader(but=node)
    await commit(three, other, later, 2)
    assert role(three, node) is None  # it has no life while nothing can be written
    three.disks[node].faults.heal()
    await three.level(node)
    assert role(three, node) is Role.FOLLOWER
    assert set(three.stores[node].image.topics) == {"topic-2"}
    assert not three.failures


@with_three
async def test_nobody_waits_for_a_leader_without_room(three):
    node, tenure = await three.leader()
    for other in VOTERS:
        await three.level(other)
    clock = asyncio.get_running_loop()
    refused_s = clock.time()  # simulated
    three.disks[node].faults.fill_up(20)
    with pytest.raises(OutcomeUnknown):
        await commit(three, node, tenure, 1)
    await three.leader(but=node)
    assert clock.time() - refused_s < Timeouts().fetch_s / 2
    assert not three.failures


@with_three
async def test_a_voter_that_cannot_write_its_promise_does_not_vote(three):
    node, tenure = await three.leader()
    mute, other = (one for one in VOTERS if one != node)
    for operation in (Operation.CREATE, Operation.OPEN, Operation.RENAME):
        three.disks[mute].faults.fail(operation, f"{LOG}/{QUORUM_STATE}", code=errno.ENOSPC)
    epoch = three.stores[mute].leader_epoch
    three.stores[node].node.resign()
    await three.until(lambda: role(three, mute) is None)
    later = max(three.stores[one].leader_epoch for one in (node, other))
    answer = await ask_for_vote(three, mute, later + 1)
    assert (answer.error, answer.leader) == (ErrorCode.BROKER_NOT_AVAILABLE, -1)
    assert three.stores[mute]._promised.epoch == epoch
    leader, tenure = await three.leader(but=mute)
    await commit(three, leader, tenure, 1)
    three.disks[mute].faults.heal()
    await three.level(mute)
    assert not three.failures


async def ask_for_vote(three, node, epoch):
    request = VoteRequest(
        CLUSTER_ID, epoch, key(9), static_voters(node).keys[0], LogEnd(0, 1), is_pre_vote=False
    )
    return (await three.stores[node].node.ask(request, 0)).answer


@with_three
async def test_a_sync_that_fails_ends_the_node_and_the_others_go_on(three):
    node, tenure = await three.leader()
    three.disks[node].faults.fail(Operation.SYNC, SEGMENT, times=1)
    with pytest.raises(OutcomeUnknown):
        await commit(three, node, tenure, 1)
    assert isinstance(three.failures[node], StorageError)
    assert SEGMENT in str(three.failures[node])
    other, later = await three.leader(but=node)
    await commit(three, other, later, 2)
    assert list(three.failures) == [node]


@with_three
async def test_a_sync_that_fails_at_the_end_leaves_the_mark_and_holds_up_no_stop(three):
    node, tenure = await three.leader()
    await commit(three, node, tenure, 1)
    stopped = next(one for one in VOTERS if one != node)
    await three.level(stopped)
    end = three.stores[stopped].node.life.log.end_offset
    disk = three.disks[stopped]
    disk.faults.fail(Operation.SYNC, SEGMENT)
    await three.stores[stopped].close()
    assert SyncMark(disk, LOG).offset == end
    disk.faults.heal()
    await three.start(stopped)
    await commit(three, node, tenure, 2)
    await three.level(stopped)
    assert not three.failures


@with_three
async def test_a_damaged_journal_is_named_and_its_voter_does_not_vote(three):
    node, tenure = await three.leader()
    await commit(three, node, tenure, 1)
    damaged = next(one for one in VOTERS if one != node)
    await three.level(damaged)
    end = three.stores[damaged].node.life.log.end_offset
    await three.stores[damaged].close()
    disk = three.disks[damaged]
    disk.flip_bit(SEGMENT, 80)
    SyncMark(disk, LOG).note(end)  # as a kill would have left it
    with pytest.raises(StorageError) as refused:
        await three.start(damaged)
    assert SEGMENT in str(refused.value)
    assert "position 0" in str(refused.value)
    answer = await ask_for_vote(three, damaged, 99)
    assert answer.error is ErrorCode.BROKER_NOT_AVAILABLE
    await commit(three, node, tenure, 2)
