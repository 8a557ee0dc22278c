"""Brokers on ZooKeeper whose registration is lost before the controller has told them of it."""

from __future__ import annotations

import asyncio

import pytest

from kits.zookeeper_cluster import run_on_cluster
from moldau.cluster.zookeeper.nodes import paths
from moldau.server.nodes.membership import State


async def register_anew(cluster, node):
    """Wait until a broker has a node again, which the controller cannot tell it."""
    known = cluster.broker(node).parts.broker_epoch()
    cluster.ensemble.expire(node.name)
    await cluster.reached(lambda: cluster.broker(node).parts.broker_epoch() > known)
    await cluster.reached(lambda: cluster.registration(node) is not None)


async def start_unheard(cluster, node):
    """Start a broker that registers, and that the controller cannot reach."""
    cluster.silence(cluster.controller, node)
    node.start()
    await cluster.reached(lambda: cluster.registration(node) is not None)
    await cluster.reached(lambda: cluster.broker(node).parts.broker_epoch() >= 0)


async def cut_power(cluster, node):
    node.process.power_cut()
    await cluster.reached(lambda: cluster.registration(node) is None)


async def replace_by_twin(cluster, node):
    """Let another machine take a broker's id while that stands still; then it goes on."""
    first = cluster.epoch_of(node)
    node.process.pause()
    twin = node.make_twin()
    starting = asyncio.create_task(twin.start())
    await cluster.reached(lambda: cluster.epoch_of(node) > first)
    await starting
    node.process.resume()
    await cluster.reached(lambda: cluster.broker(node).parts.membership.state is State.STARTING)
    await asyncio.sleep(0.2)
    return twin


def test_a_registration_that_nobody_has_told_of_is_made_again():
    async def script(cluster):
        node = cluster.others[0]
        cluster.silence(cluster.controller, node)
        await register_anew(cluster, node)
        await register_anew(cluster, node)
        membership = cluster.broker(node).parts.membership
        await cluster.reached(lambda: membership.state is State.FENCED)  # its epoch is on its disk

    run_on_cluster(script)


def test_lost_records_are_told_until_the_controller_knows():
    async def script(cluster):
        node = cluster.others[0]
        await cut_power(cluster, node)
        await start_unheard(cluster, node)
        assert cluster.registration(node).may_lack_records
        await register_anew(cluster, node)
        assert cluster.registration(node).may_lack_records
        cluster.network.heal()
        await cluster.reached(lambda: not cluster.registration(node).may_lack_records)

    run_on_cluster(script)


def test_lost_records_are_told_after_a_kill_too():
    async def script(cluster):
        node = cluster.others[0]
        await cut_power(cluster, node)
        await start_unheard(cluster, node)
        node.process.kill()
        await cluster.reached(lambda: cluster.registration(node) is None)
        await start_unheard(cluster, node)
        assert cluster.registration(node).may_lack_records

    run_on_cluster(script)


def test_a_broker_that_waits_for_its_id_is_not_elected():
    async def script(cluster):
        node, other = cluster.others
        controller = cluster.controller
        twin = await replace_by_twin(cluster, node)
        paused = (controller.process, other.process, twin)
        for process in paused:
            process.pause()
        cluster.ensemble.expire(controller.name)
        await asyncio.sleep(0.5)
        assert cluster.ensemble.find(paths.CONTROLLER) is None
        for process in paused:
            process.resume()
        twin.kill()

    run_on_cluster(script)


@pytest.mark.parametrize("end", ["goes on", "is killed", "stops"])
def test_a_broker_whose_id_another_machine_had_may_lack_records(end):
    async def script(cluster):
        node = cluster.others[0]
        twin = await replace_by_twin(cluster, node)
        twin_epoch = cluster.epoch_of(node)
        cluster.silence(cluster.controller, node)
        if end == "is killed":
            node.process.kill()
        elif end == "stops":
            await node.process.stop()
        twin.kill()
        if end != "goes on":
            node.start()
        await cluster.reached(lambda: cluster.epoch_of(node) > twin_epoch)
        assert cluster.registration(node).may_lack_records
        cluster.network.heal()
        await cluster.reached(lambda: not cluster.registration(node).may_lack_records)

    run_on_cluster(script)


def test_a_broker_that_only_lost_its_session_lacks_nothing():
    async def script(cluster):
        node = cluster.others[0]
        cluster.silence(cluster.controller, node)
        await register_anew(cluster, node)
        assert not cluster.registration(node).may_lack_records

    run_on_cluster(script)


def test_a_stop_in_order_does_not_make_up_for_lost_records():
    async def script(cluster):
        node = cluster.others[0]
        await cut_power(cluster, node)
        await start_unheard(cluster, node)
        broker = cluster.broker(node)
        assert broker.parts.membership.records_epoch == -1
        node.process.kill()
        node.start()
        cluster.network.heal()
        await node.started()
        membership = cluster.broker(node).parts.membership
        assert membership.records_epoch == membership.broker_epoch

    run_on_cluster(script)
