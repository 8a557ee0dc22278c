"""A broker on ZooKeeper: its node, from its registration to its sign-off."""

from __future__ import annotations

import asyncio

import pytest

from kits.stores_on_zookeeper import StoresOnZooKeeper
from moldau.base.errors import UserError
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.changes import BrokerRegistered
from moldau.cluster.model import Broker, Endpoint
from moldau.cluster.zookeeper.client.port import CreateNode, DeleteNode, NodeKind
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, decode_broker, encode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import encode_cluster_id
from moldau.cluster.zookeeper.nodes.log_dir_nodes import decode_log_dir_event
from moldau.cluster.zookeeper.registration import register_broker
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.nodes.membership import State
from moldau.server.zookeeper.membership import ZooKeeperMembership
from moldau.sim.world import World

ENDPOINT = Endpoint("PLAINTEXT", "host", 9092, 0)
PATIENCE_S = 30.0


class Scene:
    """One broker's membership, and somebody else's session."""

    def __init__(self, world, kept):
        self.kept = kept
        self.store = kept.store(1)
        self.other = kept.store(2)
        self.kept_epochs = []
        self.failed = ()
        self.left = [2, 0]
        self.answers = True
        self.shut_downs = []
        self.membership = ZooKeeperMembership(
            self.store, self.shut_down, world.clock, PATIENCE_S, self.keep, lambda: self.failed
        )

    async def keep(self, epoch):
        self.kept_epochs.append(epoch)

    async def shut_down(self, broker_id, broker_epoch):
        self.shut_downs.append((broker_id, broker_epoch))
        if not self.answers:
            await asyncio.Event().wait()
        left = self.left.pop(0) if self.left else 0
        if isinstance(left, Exception):
            raise left
        return left

    async def register(self, previous_epoch=5):
        await self.membership.register(
            BrokerRegistration(
                BrokerId(1), bytes(16), (ENDPOINT,), (), None, previous_epoch, "cluster"
            )
        )

    async def join(self):
        """Serve, after the controller has said that it knows the broker."""
        running = asyncio.ensure_future(self.membership.run())
        self.tell_registration()
        await self.membership.unfenced()
        return running

    async def node(self):
        await self.other.lives.session.sync()
        return await self.other.lives.session.read(paths.broker(1))

    def tell_registration(self):
        """Let the controller say that it knows the broker."""
        epoch = self.membership.broker_epoch
        broker = Broker(BrokerId(1), epoch, epoch.to_bytes(16), (ENDPOINT,), fenced=False)
        image = self.store.image.apply([BrokerRegistered(broker)], self.store.image.version + 1)
        self.store.take_step([BrokerRegistered(broker)], image)


@pytest.fixture(params=range(3))
def scene(request):
    def run(test):
        with World(request.param) as world:

            async def main():
                made = Scene(world, StoresOnZooKeeper(world))
                await made.store.start()
                await made.other.start()
                running = None
                try:
                    running = await test(made)
                finally:
                    if running is not None:
                        running.cancel()
                        await asyncio.gather(running, return_exceptions=True)
                    await made.store.close()
                    await made.other.close()

            world.run(main())

    return run


def test_a_broker_is_its_node_and_serves_when_the_controller_knows_it(scene):
    async def test(made):
        await made.register()
        node = await made.node()
        assert node.stat.czxid == made.membership.broker_epoch
        assert decode_broker(paths.broker(1), node.data).endpoints == (ENDPOINT,)
        assert made.kept_epochs == []
        assert made.membership.state is State.FENCED
        running = asyncio.ensure_future(made.membership.run())
        waiting = asyncio.ensure_future(made.membership.unfenced())
        await asyncio.sleep(1)
        assert not waiting.done()
        made.tell_registration()
        await waiting
        assert made.membership.state is State.RUNNING
        assert made.kept_epochs == [made.membership.broker_epoch]
        return running

    scene(test)


def test_one_whose_disk_may_have_lost_records_says_so_until_the_controller_knows(scene):
    async def test(made):
        await made.register(previous_epoch=-1)
        assert decode_broker(paths.broker(1), (await made.node()).data).may_lack_records
        running = await made.join()
        node = await made.node()
        assert not decode_broker(paths.broker(1), node.data).may_lack_records
        assert node.stat.czxid == made.membership.broker_epoch
        return running

    scene(test)


def test_one_that_loses_its_node_registers_anew_and_has_lost_nothing(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        first = made.membership.broker_epoch
        await asyncio.sleep(1)
        await made.other.lives.session.delete(paths.broker(1))
        await asyncio.sleep(1)
        assert made.membership.broker_epoch > first
        node = await made.node()
        assert node.stat.czxid == made.membership.broker_epoch
        assert not decode_broker(paths.broker(1), node.data).may_lack_records
        return running

    scene(test)


@pytest.mark.parametrize("lacks", [False, True])
@pytest.mark.parametrize(
    "data", [b"nonsense", b"", encode_broker(BrokerNode((ENDPOINT._replace(port=1),)))]
)
def test_a_node_that_somebody_has_written_is_written_again(scene, data, lacks):
    async def test(made):
        await made.register(previous_epoch=-1)
        first = made.membership.broker_epoch
        if lacks:
            running = asyncio.ensure_future(made.membership.run())
        else:
            running = await made.join()
        await asyncio.sleep(1)
        for _ in range(2):
            await made.other.lives.session.set_data(paths.broker(1), data)
            await asyncio.sleep(60)
            node = await made.node()
            found = decode_broker(paths.broker(1), node.data)
            assert (found.endpoints, found.may_lack_records) == ((ENDPOINT,), lacks)
            assert node.stat.czxid == made.membership.broker_epoch == first
        return running

    scene(test)


def test_an_expired_session_is_a_new_life(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        first = made.membership.broker_epoch
        made.kept.end_session(1)
        while made.membership.broker_epoch == first:  # noqa: ASYNC110 - it says nothing
            await asyncio.sleep(0.1)
        assert (await made.node()).stat.czxid == made.membership.broker_epoch
        return running

    scene(test)


def test_a_broker_that_serves_waits_for_zookeeper_however_long_it_is_away(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        first, lives = made.membership.broker_epoch, made.store.lives
        ended = lives.on_ended

        def go_away():
            ended()
            made.kept.ensemble.stop()

        lives.on_ended = go_away
        made.kept.end_session(1)
        await asyncio.sleep(PATIENCE_S * 3)
        assert not running.done()
        lives.on_ended = ended
        made.kept.ensemble.start()
        while made.membership.broker_epoch == first:  # noqa: ASYNC110 - it says nothing
            await asyncio.sleep(0.1)
        return running

    scene(test)


def test_an_id_that_another_session_holds_is_waited_for_and_then_given_up(scene):
    async def test(made):
        await register_broker(made.other.lives.session, BrokerId(1), -1, BrokerNode(()))
        with pytest.raises(UserError, match="cannot register broker 1: another broker is"):
            await made.register()
        waiting = asyncio.ensure_future(made.register())
        await asyncio.sleep(5)
        await made.other.lives.session.delete(paths.broker(1))
        await waiting

    scene(test)


def test_one_that_may_not_write_its_node_is_told_so_at_once(scene):
    async def test(made):
        made.kept.ensemble.write_as_tool(DeleteNode(paths.BROKER_EPOCHS))
        # It may not have children, as if an access list forbade them.
        odd = CreateNode(paths.BROKER_EPOCHS, kind=NodeKind.EPHEMERAL)
        made.kept.ensemble.write_as_tool(odd)
        with pytest.raises(UserError, match="cannot register broker 1: /brokers/epochs/1: "):
            await made.register()

    scene(test)


def test_a_failed_directory_is_told_once(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        made.failed = (b"directory",)
        for _ in range(3):
            made.membership.directories_changed()
            await asyncio.sleep(1)
        session = made.other.lives.session
        await session.sync()
        (name,) = await session.children(paths.LOG_DIR_EVENTS)
        node = await session.read(f"{paths.LOG_DIR_EVENTS}/{name}")
        assert decode_log_dir_event("/", node.data) == 1
        return running

    scene(test)


def test_a_stop_asks_until_nothing_is_led_any_more(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        made.left = [ApiError(ErrorCode.NOT_CONTROLLER), 2, 1, 0]
        assert await made.membership.sign_off(30.0)
        assert made.shut_downs == [(1, made.membership.broker_epoch)] * 4
        assert made.membership.state is State.STOPPED
        return running

    scene(test)


def test_a_stop_does_not_wait_for_a_controller_that_is_away(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        made.left = [ApiError(ErrorCode.NOT_CONTROLLER)] * 1000
        assert not await made.membership.sign_off(30.0)
        assert len(made.shut_downs) < 200
        return running

    scene(test)


def test_a_stop_does_not_wait_for_a_call_without_an_answer(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        made.answers = False
        async with asyncio.timeout(60.0):  # of simulated time
            assert not await made.membership.sign_off(30.0)
        assert made.shut_downs == [(1, made.membership.broker_epoch)]
        return running

    scene(test)


def test_a_stop_without_zookeeper_is_short(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        made.kept.ensemble.stop()
        while made.store.lives.is_connected:  # noqa: ASYNC110 - it says nothing
            await asyncio.sleep(0.1)
        made.answers = False
        async with asyncio.timeout(10.0):  # of simulated time
            assert not await made.membership.sign_off(30.0)
        made.kept.ensemble.start()
        return running

    scene(test)


def test_one_that_loses_its_session_while_it_joins_registers_once_more(scene):
    async def test(made):
        await made.register()
        first = made.membership.broker_epoch
        running = asyncio.ensure_future(made.membership.run())
        joined = asyncio.ensure_future(made.membership.unfenced())
        made.kept.end_session(1)
        while made.membership.broker_epoch == first:  # noqa: ASYNC110 - it says nothing
            await asyncio.sleep(0.1)
        assert not joined.done()
        made.tell_registration()
        await joined
        return running

    scene(test)


@pytest.mark.parametrize("cluster_id", [None, "other"])
def test_one_that_finds_another_cluster_does_not_register_again(scene, cluster_id):
    async def test(made):
        await made.register()
        running = await made.join()
        made.kept.ensemble.write_as_tool(DeleteNode(paths.CLUSTER_ID))
        if cluster_id is not None:
            data = encode_cluster_id(cluster_id)
            made.kept.ensemble.write_as_tool(CreateNode(paths.CLUSTER_ID, data))
        made.kept.end_session(1)
        with pytest.raises(UserError, match=f"and is {cluster_id or 'gone'} now: this broker"):
            await running

    scene(test)


def test_brokers_whose_parent_node_was_deleted_register_again(scene):
    async def test(made):
        await made.register()
        running = await made.join()
        first = made.membership.broker_epoch
        for path in (paths.broker(1), paths.BROKER_IDS):
            made.kept.ensemble.write_as_tool(DeleteNode(path))
        while made.membership.broker_epoch == first:
            if running.done():
                await running  # it raises why
            await asyncio.sleep(0.1)
        assert (await made.node()).stat.czxid == made.membership.broker_epoch
        return running

    scene(test)


def test_an_earlier_life_at_the_same_address_is_not_waited_for(scene):
    async def test(made):
        earlier = BrokerNode((ENDPOINT,))
        await register_broker(made.other.lives.session, BrokerId(1), -1, earlier)
        await made.store.lives.session.sync()
        began_s = asyncio.get_running_loop().time()
        await made.register()
        assert asyncio.get_running_loop().time() - began_s < 5
        assert (await made.node()).stat.czxid == made.membership.broker_epoch

    scene(test)
