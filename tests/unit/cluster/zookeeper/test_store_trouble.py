"""What strangers write into the tree, and what goes wrong on the way, ends no broker."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest

from kits.metadata_samples import topic_id
from kits.stores_on_zookeeper import run_with_two_stores
from moldau.base.errors import ConfigError, UserError
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
)
from moldau.cluster.model import ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.store import ControllerFenced, StoreFailed
from moldau.cluster.zookeeper.client.port import CreateNode, DeleteNode, NodeKind, NoNode, SetData
from moldau.cluster.zookeeper.election import NOBODY_KNOWN, current_controller
from moldau.cluster.zookeeper.events import BrokersSeen, DirectoryFailed
from moldau.cluster.zookeeper.history import first_version
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    ProducerIdBlock,
    encode_cluster_id,
    encode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import (
    BROKERS,
    ConfigEntity,
    config_path,
    encode_config,
    encode_config_change,
)
from moldau.cluster.zookeeper.nodes.controller_nodes import ControllerNode, encode_controller
from moldau.cluster.zookeeper.nodes.log_dir_nodes import encode_log_dir_event
from moldau.cluster.zookeeper.nodes.tool_requests import DeletionWanted

BROKER = encode_broker(BrokerNode((Endpoint("PLAINTEXT", "h", 9092, 0),)))


@pytest.fixture(params=range(3))
def stores(request):
    """Run a test with the stores of two brokers, of which the first is started."""
    return partial(run_with_two_stores, request.param, start_both=False)


def test_a_controller_node_without_sense_is_somebodys(stores):
    async def test(kept, first, second):
        session = first.lives.session
        await session.create(paths.CONTROLLER, b"nonsense", NodeKind.EPHEMERAL)
        assert await current_controller(session, lambda: None) == NOBODY_KNOWN
        waiting = asyncio.ensure_future(first.seat_free())
        await asyncio.sleep(5)
        assert not waiting.done()
        await session.delete(paths.CONTROLLER)
        await waiting

    stores(test)


@pytest.mark.parametrize("data", [b"nonsense", b'{"brokerid":99}', b'{"brokerid":1}'])
def test_a_seat_that_no_session_holds_is_free(stores, data):
    async def test(kept, first, second):
        await first.lives.session.create(paths.CONTROLLER_EPOCH, b"1")
        await first.lives.session.create(paths.CONTROLLER, data)
        await first.seat_free()
        assert (await first.claim()).epoch == 2

    stores(test)


def test_the_seat_of_a_kraft_controller_is_kept(stores):
    async def test(kept, first, second):
        data = encode_controller(ControllerNode(BrokerId(3000), 1, kraft_controller_epoch=7))
        await first.lives.session.create(paths.CONTROLLER_EPOCH, b"1")
        await first.lives.session.create(paths.CONTROLLER, data)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await first.seat_free()

    stores(test)


def test_an_epoch_without_sense_elects_nobody_until_it_is_mended(stores, caplog):
    async def test(kept, first, second):
        session = first.lives.session
        await session.create(paths.CONTROLLER_EPOCH, b"nonsense")
        for _ in range(3):
            assert await first.claim() is None
        assert len(caplog.records) == 1
        await session.set_data(paths.CONTROLLER_EPOCH, b"7")
        assert (await first.claim()).epoch == 8

    stores(test)


@pytest.mark.parametrize("written", [b"nonsense", b"", b"2", b"2147483646", b"2147483647", None])
def test_the_next_epoch_is_above_all_that_were_heard_of(stores, written):
    """Otherwise brokers refuse the commands of its controller, and of those after it."""

    async def test(kept, first, second):
        first.fence.hear_of(2, 12)
        session = first.lives.session
        if written is not None:
            await session.create(paths.CONTROLLER_EPOCH, written)
        assert (await first.claim()).epoch == 13
        assert first.image.version >= first_version(13)
        assert (await session.read(paths.CONTROLLER_EPOCH)).data == b"13"

    stores(test)


def test_who_was_elected_is_known_unless_zookeeper_does_not_tell(stores):
    async def test(kept, first, second):
        assert await first.newest_elected_epoch() is None
        await first.claim()
        await second.start()
        assert await second.newest_elected_epoch() == 1
        await second.lives.session.set_data(paths.CONTROLLER_EPOCH, b"nonsense")
        assert await first.newest_elected_epoch() is None
        await second.lives.session.set_data(paths.CONTROLLER_EPOCH, b"9")
        assert await first.newest_elected_epoch() == 9
        kept.ensemble.stop()
        assert await first.newest_elected_epoch() is None
        kept.ensemble.start()

    stores(test)


def test_while_nobody_knows_which_producer_ids_were_given_out_there_are_none(stores):
    async def test(kept, first, second):
        session = first.lives.session
        allocated = [ProducerIdsAllocated(BrokerId(1), -1, 6000)]
        await session.set_data(paths.PRODUCER_ID_BLOCK, b"nonsense")
        tenure = await first.claim()
        with pytest.raises(StoreFailed, match="until /latest_producer_id_block in ZooKeeper is"):
            await tenure.commit(first.image.version, allocated)
        level = [FeatureLevelSet("metadata.version", 20)]
        await tenure.commit(first.image.version, level)
        newest = encode_producer_ids(ProducerIdBlock(BrokerId(2), 4000, 4999))
        await session.set_data(paths.PRODUCER_ID_BLOCK, newest)
        await asyncio.sleep(60)  # the controller has seen it by then
        assert first.image.next_producer_id == 5000
        await tenure.commit(first.image.version, allocated)
        assert first.image.next_producer_id == 6000

    stores(test)


def test_a_cluster_id_without_sense_is_told_in_one_line(stores):
    async def test(kept, first, second):
        await first.lives.session.multi([SetData(paths.CLUSTER_ID, b"nonsense")])
        await asyncio.sleep(60)  # all servers have it by then
        with pytest.raises(UserError, match="cannot read the metadata in ZooKeeper: /cluster/id"):
            await second.start()

    stores(test)


def test_a_folder_of_another_cluster_is_refused_with_the_node_that_says_so(stores):
    async def test(kept, first, second):
        await first.lives.session.multi([SetData(paths.CLUSTER_ID, encode_cluster_id("other"))])
        await asyncio.sleep(60)  # all servers have it by then
        with pytest.raises(ConfigError, match="but /cluster/id in ZooKeeper says other"):
            await first.start()

    stores(test)


@pytest.mark.parametrize("cluster_id", [None, "other"])
def test_the_tree_of_another_cluster_is_never_taken_over(stores, cluster_id):
    async def test(kept, first, second):
        await first.claim()
        image = first.image
        kept.end_session(1)
        kept.ensemble.write_as_tool(DeleteNode(paths.CLUSTER_ID))
        if cluster_id is not None:
            data = encode_cluster_id(cluster_id)
            kept.ensemble.write_as_tool(CreateNode(paths.CLUSTER_ID, data))
        await first.seat_free()
        with pytest.raises(UserError, match=f"and is {cluster_id or 'gone'} now: this broker"):
            await first.claim()
        assert first.image is image
        await first.seat_free()  # it was given back

    stores(test)


def test_a_cluster_id_without_sense_ends_no_controller(stores):
    async def test(kept, first, second):
        await first.lives.session.multi([SetData(paths.CLUSTER_ID, b"nonsense")])
        assert await first.claim() is not None

    stores(test)


def test_what_others_write_is_followed_over_lost_connections(stores):
    async def test(kept, first, second):
        await first.claim()
        assert isinstance(await first.following.next_event(), BrokersSeen)
        await second.start()
        session = second.lives.session
        entity = ConfigEntity(BROKERS, "1")
        for number in range(20):
            kept.ensemble.lose_connection("broker-1")
            data = encode_config({"log.cleaner.threads": str(number)})
            if number:
                await session.set_data(config_path(entity), data)
            else:
                await session.create(config_path(entity), data)
            change = encode_config_change(entity)
            await session.create(paths.CONFIG_CHANGE_PREFIX, change, NodeKind.SEQUENTIAL)
            await session.create(
                paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(2), NodeKind.SEQUENTIAL
            )
        resource = ConfigResource(ResourceType.BROKER, "1")
        while first.image.config(resource).get("log.cleaner.threads") != "19":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        while await session.children(paths.LOG_DIR_EVENTS):  # noqa: ASYNC110 - they are removed
            await asyncio.sleep(0.1)
        event = await first.following.next_event()
        while not isinstance(event, DirectoryFailed):
            event = await first.following.next_event()
        assert event.broker_id == 2
        assert first.is_controller

    stores(test)


def test_brokers_that_come_and_go_do_not_wait_for_what_tools_ask_for(stores):
    async def test(kept, first, second):
        await first.claim()
        session = first.lives.session
        for number in range(100):
            await session.create(paths.delete_topic(f"t-{number}"))
        for broker_id in (7, 8):
            await session.create(paths.broker(broker_id), BROKER, NodeKind.EPHEMERAL)
            await session.create(
                paths.LOG_DIR_EVENT_PREFIX, encode_log_dir_event(broker_id), NodeKind.SEQUENTIAL
            )
        await asyncio.sleep(60)  # the controller has seen all of that by then
        found = [await first.following.next_event() for _ in range(103)]
        assert found[0].live.keys() == {7, 8}
        assert {one.broker_id for one in found[1:3]} == {7, 8}
        assert {*found[3:]} == {DeletionWanted(f"t-{number}") for number in range(100)}

    stores(test)


def test_a_bug_in_what_follows_the_tree_leaves_the_seat_to_another(stores, monkeypatch):
    async def test(kept, first, second):
        tenure = await first.claim()
        lost = asyncio.Event()
        tenure.on_lost(lost.set)

        async def fail(*_):
            raise ZeroDivisionError

        monkeypatch.setattr(first.following, "_look_at_brokers", fail)
        await first.lives.session.create(paths.broker(9), b"{}", NodeKind.EPHEMERAL)
        await lost.wait()
        await second.start()
        while await second.claim() is None:  # noqa: ASYNC110 - the seat is being left
            await asyncio.sleep(0.1)

    stores(test)


def test_an_epoch_that_was_written_by_hand_costs_the_seat_and_not_the_cluster(stores):
    async def test(kept, first, second):
        tenure = await first.claim()
        await second.start()
        await second.lives.session.set_data(paths.CONTROLLER_EPOCH, b"40")
        with pytest.raises(ControllerFenced):
            await tenure.commit(first.image.version, [FeatureLevelSet("group.version", 0)])
        while (newer := await second.claim()) is None:  # noqa: ASYNC110 - the seat is being left
            await asyncio.sleep(0.1)
        assert newer.epoch == 41

    stores(test)


@pytest.mark.parametrize("is_active", [False, True])
@pytest.mark.parametrize(
    "path", [paths.ISR_CHANGES, paths.LOG_DIR_EVENTS, "/config/topics", paths.DELETE_TOPICS]
)
def test_a_parent_that_was_deleted_is_created_again(stores, path, is_active):
    async def test(kept, first, second):
        if is_active:
            await first.claim()
        kept.ensemble.write_as_tool(DeleteNode(path))
        await asyncio.sleep(60)  # all servers have it by then
        if is_active and path != "/config/topics":
            await first.seat_free()  # the controller resigned
        elif is_active:
            kept.end_session(1)
            await first.seat_free()
        assert await first.claim() is not None
        assert await first.lives.session.exists(path) is not None

    stores(test)


def test_a_tree_that_refuses_writes_is_told_once(stores, caplog):
    async def test(kept, first, second):
        for one in (DeleteNode(paths.DELETE_TOPICS), DeleteNode("/admin")):
            kept.ensemble.write_as_tool(one)
        # It may not have children, as if an access list forbade them.
        kept.ensemble.write_as_tool(CreateNode("/admin", kind=NodeKind.EPHEMERAL))
        await asyncio.sleep(60)  # all servers have it by then
        for _ in range(3):
            assert await first.claim() is None
        said = "no controller can be elected: /admin/delete_topics: ephemeral"
        assert caplog.text.count(said) == 1

    stores(test)


MADE = [
    TopicCreated("t", topic_id(1)),
    PartitionCreated(topic_id(1), Partition(0, (BrokerId(1),), (BrokerId(1),), BrokerId(1))),
]


def deepest_first(nodes):
    return sorted(nodes, key=lambda path: path.count("/"), reverse=True)


def parents_last(nodes):
    return sorted(nodes, reverse=True)


@pytest.mark.parametrize("order", [deepest_first, parents_last])
def test_no_topic_is_given_up_while_somebody_deletes_the_whole_tree(stores, order):
    async def test(kept, first, second):
        tenure = await first.claim()
        await tenure.commit(first.image.version, MADE)
        for path in order(one for one in kept.ensemble.nodes() if one != "/"):
            with contextlib.suppress(NoNode):  # the seat is given back meanwhile
                kept.ensemble.write_as_tool(DeleteNode(path))
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)
        assert tenure.is_over
        with pytest.raises(UserError, match="and is gone now: this broker stops"):
            await first.claim()
        assert "t" in first.image.topics

    stores(test)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_topic_whose_node_is_gone_for_a_while_was_deleted_by_hand(stores, comes_back):
    async def test(kept, first, second):
        tenure = await first.claim()
        await tenure.commit(first.image.version, MADE)
        nodes = kept.ensemble.nodes()
        below = sorted(one for one in nodes if one.startswith(paths.topic("t")))
        for path in reversed(below):
            kept.ensemble.write_as_tool(DeleteNode(path))
        await asyncio.sleep(1)
        assert "t" in first.image.topics
        for path in below if comes_back else ():
            kept.ensemble.write_as_tool(CreateNode(path, nodes[path].data))
        await asyncio.sleep(60)
        assert ("t" in first.image.topics) == comes_back

    stores(test)


def test_topics_are_not_given_up_because_their_parent_is_gone(stores, caplog):
    async def test(kept, first, second):
        tenure = await first.claim()
        await tenure.commit(first.image.version, MADE)
        kept.end_session(1)
        await first.seat_free()
        below = [one for one in kept.ensemble.nodes() if one.startswith(paths.TOPICS)]
        for path in sorted(below, reverse=True):
            kept.ensemble.write_as_tool(DeleteNode(path))
        await asyncio.sleep(60)  # all servers have it by then
        for _ in range(3):
            assert await first.claim() is None
        assert "t" in first.image.topics
        assert caplog.text.count("it is gone, but topics are known") == 1

    stores(test)
