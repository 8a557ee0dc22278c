"""Log directories of a cluster's brokers: where replicas lie, and what follows when one is gone."""

from __future__ import annotations

import asyncio

import pytest

from kits.node_kit import Nodes
from moldau.base.errors import StorageError, UserError
from moldau.cluster.model import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    ConfigResource,
    ResourceType,
)
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError
from moldau.sim.disk_faults import Operation

TWO = {"log.dirs": "/data,/more"}


def with_nodes(test):
    """Run a coroutine function of nodes on virtual time."""

    def run(world):
        world.run(test(Nodes(world)))

    return run


async def reached(condition):
    """Return once something holds; virtual time does the waiting."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the nodes do not tell
            await asyncio.sleep(0.05)


def partitions(node, name="t"):
    return node.parts.image().topics[name].partitions


def is_whole(node, count):
    """Tell whether every replica is in sync and in a directory that its broker has."""
    brokers = node.parts.image().brokers
    return all(
        len(one.isr) == count
        and all(one.directory_of(each) in brokers[each].log_directories for each in one.replicas)
        for one in partitions(node)
    )


@with_nodes
async def test_a_broker_of_several_directories_tells_where_its_replicas_lie(nodes):
    voter, broker = nodes.node(1, **TWO), nodes.node(2, **TWO)
    await voter.start()
    await broker.start()
    await voter.parts.controller.create_topic(NewTopic("t", 4, 2))
    assert partitions(voter)[0].directories == (UNASSIGNED_DIRECTORY,) * 2
    await reached(lambda: is_whole(voter, 2))
    for node in (voter, broker):
        homes = {one.directory_of(node.parts.broker_id) for one in partitions(voter)}
        assert homes == set(node.parts.logs.directory_ids)
        assert len(homes) == 2
    await broker.stop()
    await voter.stop()


@with_nodes
async def test_a_replica_that_was_made_anew_in_another_directory_joins_and_leads(nodes):
    voter, broker = nodes.node(1), nodes.node(2)
    await voter.start()
    await broker.start()
    await voter.parts.controller.create_topic(NewTopic("t", assignments={0: [2, 1]}))
    await voter.parts.controller.create_topic(NewTopic("lone", assignments={0: [2]}))
    await reached(lambda: len(broker.parts.partitions) == 2)
    await broker.stop()
    del nodes.disks[2]
    broker = nodes.node(2)
    await broker.start()
    await reached(lambda: is_whole(voter, 2))
    await reached(lambda: partitions(voter, "lone")[0].leader == 2)
    await voter.parts.controller.elect_leaders(None, preferred=True)
    assert partitions(voter)[0].leader == 2
    await broker.stop()
    await voter.stop()


@with_nodes
async def test_an_empty_replica_does_not_lead_those_that_may_have_records(nodes):
    voter, first, second = (nodes.node(number) for number in (1, 2, 3))
    for node in (voter, first, second):
        await node.start()
    await voter.parts.controller.create_topic(NewTopic("t", assignments={0: [2, 3]}))
    # One replica leaves the ISR. Then the disk of the other one, which has all records, is lost.
    await second.stop()
    assert partitions(voter)[0].isr == (2,)
    await first.stop()
    del nodes.disks[2]
    first, second = nodes.node(2), nodes.node(3)
    await second.start()
    await first.start()
    await asyncio.sleep(30)
    assert partitions(voter)[0].leader == NO_LEADER
    # Somebody decides that what the other replica has is enough.
    await voter.parts.controller.elect_leaders({"t": [0]}, preferred=False)
    assert partitions(voter)[0].leader == 3
    await reached(lambda: is_whole(voter, 2))
    for node in (first, second, voter):
        await node.stop()


# A directory fails


def fail_writes(nodes, number, path):
    """Let everything that is written below a path of a node's disk fail from now on."""
    nodes.disks[number].faults.make_read_only(path)


def homes(node, path):
    """Return the partitions whose log lies in one of a node's directories."""
    (directory,) = [one for one in node.parts.logs.directories if one.path == path]
    return {key.partition for key in directory.logs}


async def with_two_directories(nodes):
    """Start three nodes, the second one with two directories; it leads everything."""
    started = [nodes.node(1), nodes.node(2, **TWO), nodes.node(3)]
    for node in started:
        await node.start()
    wanted = NewTopic("t", assignments={index: [2, 3] for index in range(4)})
    await started[0].parts.controller.create_topic(wanted)
    await reached(lambda: is_whole(started[0], 2))
    assert {one.leader for one in partitions(started[0])} == {2}
    return started


@with_nodes
async def test_others_lead_what_lay_in_a_directory_that_failed(nodes):
    voter, broker, other = await with_two_directories(nodes)
    lost, kept = homes(broker, "/more"), homes(broker, "/data")
    assert len(lost) == len(kept) == 2
    fail_writes(nodes, 2, "/more")
    broker.parts.housekeeping.storage_failed(StorageError("/more/x", "gone"))
    # Long before a session could end: it is told at once.
    await asyncio.sleep(0.15)
    for index, partition in enumerate(partitions(voter)):
        expected = (3, (3,)) if index in lost else (2, (2, 3))
        assert (partition.leader, partition.isr) == expected
    # It stays a member, follows nothing in that directory, and the controller knows only the rest.
    await asyncio.sleep(60)
    assert voter.parts.image().brokers[2].active
    assert [len(one.isr) for one in partitions(voter)].count(1) == 2
    assert voter.parts.image().brokers[2].log_directories == broker.parts.logs.directory_ids
    assert len(broker.parts.logs.directory_ids) == 1
    for node in (broker, other, voter):
        await node.stop()


@with_nodes
async def test_a_directory_that_works_again_after_a_restart_is_used_again(nodes):
    voter, broker, other = await with_two_directories(nodes)
    fail_writes(nodes, 2, "/more")
    broker.parts.housekeeping.storage_failed(StorageError("/more/x", "gone"))
    await reached(lambda: [len(one.isr) for one in partitions(voter)].count(1) == 2)
    await broker.stop()
    nodes.disks[2].faults.heal()
    broker = nodes.node(2, **TWO)
    await broker.start()
    await reached(lambda: is_whole(voter, 2))
    for node in (broker, other, voter):
        await node.stop()


@with_nodes
async def test_a_directory_that_fails_before_its_replicas_were_reported(nodes):
    voter, broker, other = nodes.node(1), nodes.node(2, **TWO), nodes.node(3)
    for node in (voter, broker, other):
        await node.start()
    assign = broker.parts.directory_reports._ask
    is_told = asyncio.Event()

    async def late(*asked):
        await is_told.wait()
        return await assign(*asked)

    broker.parts.directory_reports._ask = late
    wanted = NewTopic("t", assignments={index: [2, 3] for index in range(4)})
    await voter.parts.controller.create_topic(wanted)
    await reached(lambda: len(broker.parts.partitions) == 4)
    lost = homes(broker, "/more")
    broker.parts.housekeeping.storage_failed(StorageError("/more/x", "gone"))
    await asyncio.sleep(5)
    assert {one.leader for one in partitions(voter)} == {2}
    is_told.set()
    await reached(lambda: {one.index for one in partitions(voter) if one.leader == 3} == lost)
    for node in (broker, other, voter):
        await node.stop()


@with_nodes
async def test_a_broker_without_any_directory_ends(nodes):
    voter, broker, other = await with_two_directories(nodes)
    running = asyncio.create_task(broker.run_until(asyncio.Event()))
    for path in ("/more", "/data"):
        fail_writes(nodes, 2, path)
        broker.parts.housekeeping.storage_failed(StorageError(f"{path}/x", "gone"))
    with pytest.raises(UserError, match="/data, /more: all log directories have failed"):
        await running
    await broker.stop()
    assert {one.leader for one in partitions(voter)} == {3}
    assert not voter.parts.image().brokers[2].active
    for node in (other, voter):
        await node.stop()


@with_nodes
async def test_a_directory_in_which_no_log_can_be_made_fails(nodes):
    voter, broker, other = await with_two_directories(nodes)
    lost = homes(broker, "/more")
    nodes.disks[2].faults.fail(Operation.CREATE, "/more/u-")
    wanted = NewTopic("u", assignments={0: [2, 3], 1: [2, 3]})
    await voter.parts.controller.create_topic(wanted)
    await reached(lambda: len(voter.parts.image().brokers[2].log_directories) == 1)
    assert {one.index for one in partitions(voter) if one.leader == 3} == lost
    await reached(lambda: sorted(one.leader for one in partitions(voter, "u")) == [2, 3])
    for node in (broker, other, voter):
        await node.stop()


@with_nodes
async def test_a_replica_that_could_not_be_made_leads_once_its_disk_is_repaired(nodes):
    voter, broker, other = (nodes.node(number) for number in (1, 2, 3))
    for node in (voter, broker, other):
        await node.start()
    await voter.parts.controller.create_topic(NewTopic("t", assignments={0: [2, 3]}))
    await reached(lambda: len(broker.parts.partitions) == 1)
    # One replica leaves the ISR. The other one has to be made again, and the disk refuses that.
    await other.stop()
    await broker.stop()
    assert partitions(voter)[0].eligible_leaders == (2,)
    disk = nodes.disks[2]
    disk.remove_folder("/data/t-0")
    disk.faults.fail(Operation.CREATE, "/data/t-0")
    broker = nodes.node(2)
    await broker.start()
    with pytest.raises(UserError, match="all log directories have failed"):
        await broker.run_until(asyncio.Event())
    await broker.stop()
    nodes.disks[2].faults.heal()
    broker, other = nodes.node(2), nodes.node(3)
    await broker.start()
    await other.start()
    await reached(lambda: is_whole(voter, 2))
    assert partitions(voter)[0].leader == 2
    for node in (broker, other, voter):
        await node.stop()


# A directory is cordoned


@with_nodes
async def test_a_cordoned_directory_gets_no_new_replicas(nodes):
    cordoned = {**TWO, "cordoned.log.dirs": "/more"}
    voter, broker = nodes.node(1), nodes.node(2, **cordoned)
    await voter.start()
    await broker.start()
    for name in ("t", "u"):
        await voter.parts.controller.create_topic(NewTopic(name, assignments={0: [2], 1: [2]}))
    await reached(lambda: len(broker.parts.partitions) == 4)
    assert homes(broker, "/more") == set()
    more = broker.parts.logs.ids_of(["/more"])
    assert voter.parts.image().brokers[2].cordoned_log_directories == more
    # While it runs: the other one, then none.
    own = ConfigResource(ResourceType.BROKER, "2")
    for paths, expected in (("/data", "/more"), ("", "/more")):
        change = {"cordoned.log.dirs": paths}
        await voter.parts.controller.replace_configs(own, change)
        ids = broker.parts.logs.ids_of(paths.split(","))
        await reached(
            lambda ids=ids: voter.parts.image().brokers[2].cordoned_log_directories == ids
        )
        wanted = NewTopic(f"after-{paths.strip('/')}", assignments={0: [2]})
        await voter.parts.controller.create_topic(wanted)
        await reached(lambda name=wanted.name: broker.parts.partitions.get(name, 0) is not None)
        (home,) = [
            one.path
            for one in broker.parts.logs.directories
            if any(key.topic == wanted.name for key in one.logs)
        ]
        assert home == expected
    await broker.stop()
    await voter.stop()


@with_nodes
async def test_a_broker_with_all_directories_cordoned_gets_no_new_replicas(nodes):
    voter, broker = nodes.node(1), nodes.node(2, **{"cordoned.log.dirs": "*"})
    await voter.start()
    await broker.start()
    await reached(lambda: voter.parts.image().brokers[2].cordoned_log_directories)
    await voter.parts.controller.create_topic(NewTopic("t", 4, 1))
    assert {one.leader for one in partitions(voter)} == {1}
    with pytest.raises(ApiError, match="have all their log directories cordoned"):
        await voter.parts.controller.create_topic(NewTopic("u", 1, 2))
    await broker.stop()
    await voter.stop()
