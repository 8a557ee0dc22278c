"""The pieces of an update become changes and the next image, or are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import topic_id
from moldau.base.ids import ZERO_TOPIC_ID, BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Partition, ResourceType
from moldau.cluster.zookeeper.commands import incoming
from moldau.cluster.zookeeper.commands.incoming import (
    UpdateOutOfOrder,
    Updates,
    updated_image,
)
from moldau.cluster.zookeeper.commands.pieces import PIECE_WEIGHT_MAX
from moldau.cluster.zookeeper.commands.statements import UpdateRefused
from moldau.protocol.messages.replication import (
    UpdateMetadataBroker,
    UpdateMetadataBrokerFeature,
    UpdateMetadataConfigEntry,
    UpdateMetadataConfigResource,
    UpdateMetadataEndpoint,
    UpdateMetadataFeature,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ID, OTHER, AGAIN = topic_id(1), topic_id(2), topic_id(3)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
EVERY_BROKER = ConfigResource(ResourceType.BROKER, "")


def broker(number, epoch=70):
    return Broker(BrokerId(number), epoch, epoch.to_bytes(16), fenced=False)


IMAGE = MetadataImage(cluster_id="c").apply(
    [
        FeatureLevelSet("f", 2),
        BrokerRegistered(broker(1)),
        BrokerRegistered(broker(2)),
        TopicCreated("t", ID),
        PartitionCreated(ID, Partition(0, (1, 2), (1, 2), 1, 5, 9)),
        PartitionCreated(ID, Partition(1, (2, 1), (1, 2), 1, 5, 9)),
        TopicCreated("u", OTHER),
        PartitionCreated(OTHER, Partition(0, (1,), (1,), 1)),
        ConfigChanged(TOPIC, "k", "v"),
        ConfigChanged(EVERY_BROKER, "b", "w"),
        ProducerIdsAllocated(BrokerId(1), -1, 3000),
    ],
    100,
)


def piece(**fields):
    given = {"controller_id": 9, "controller_epoch": 4, "base_version": 100, "version": 101}
    return UpdateMetadataRequest(**{**given, "is_last": True, **fields})


def state(index, replicas=(1, 2), leader=1, epoch=5, partition_epoch=10, isr=(1,), **more):
    return UpdateMetadataPartitionState(
        partition_index=index,
        leader=leader,
        leader_epoch=epoch,
        zk_version=partition_epoch,
        isr=list(isr),
        replicas=list(replicas),
        **more,
    )


def topic(*states, name="t", topic_id=ID):
    return UpdateMetadataTopicState(name, topic_id, list(states))


def configs(*entries, kind=2, name="t"):
    return UpdateMetadataConfigResource(
        kind, name, [UpdateMetadataConfigEntry(*entry) for entry in entries]
    )


def stated(number, epoch=70, **more):
    return UpdateMetadataBroker(id=number, epoch=epoch, rack=None, **more)


def run(work):
    try:
        while True:
            next(work)
    except StopIteration as stop:
        return stop.value


def take(*requests, image=IMAGE):
    """The changes of an update that comes in these pieces."""
    updates = Updates()
    for request in requests[:-1]:
        assert updates.take(request, image.version) is None
    update = updates.take(requests[-1], image.version)
    assert update is not None
    changes, after = run(updated_image(image, update))
    assert after == image.apply(changes, update.version)
    return changes


def test_an_update_names_its_controller_and_versions():
    update = Updates().take(piece(), 100)
    assert (update.controller_id, update.controller_epoch) == (9, 4)
    assert (update.base_version, update.version, update.is_full) == (100, 101, False)


def test_an_update_without_statements_raises_the_version():
    changes, after = run(updated_image(IMAGE, Updates().take(piece(), 100)))
    assert changes == []
    assert after == replace(IMAGE, version=101)


def test_statements_become_changes():
    changes = take(
        piece(
            features=[UpdateMetadataFeature("f", 0), UpdateMetadataFeature("g", 1)],
            live_brokers=[stated(1, 71)],
            removed_brokers=[2],
            removed_topics=[OTHER],
            topic_states=[
                topic(state(0), state(2)),
                topic(state(0), name="v", topic_id=AGAIN),
            ],
            configs=[
                configs(("k", None), ("l", b"x")),
                configs(("b", b"y"), kind=4, name=""),
            ],
            next_producer_id=4000,
        )
    )
    assert changes == [
        FeatureLevelSet("f", 0),
        FeatureLevelSet("g", 1),
        BrokerRegistered(broker(1, 71)),
        TopicRemoved(OTHER),
        PartitionCreated(ID, Partition(0, (1, 2), (1,), 1, 5, 10)),
        PartitionCreated(ID, Partition(2, (1, 2), (1,), 1, 5, 10)),
        TopicCreated("v", AGAIN),
        PartitionCreated(AGAIN, Partition(0, (1, 2), (1,), 1, 5, 10)),
        ConfigChanged(TOPIC, "k", None),
        ConfigChanged(TOPIC, "l", "x"),
        ConfigChanged(EVERY_BROKER, "b", "y"),
        ProducerIdsAllocated(BrokerId(-1), -1, 4000),
        BrokerUnregistered(BrokerId(2), 70),
    ]


def test_listeners_do_not_hear_of_what_is_so_already():
    assert not take(
        piece(
            features=[UpdateMetadataFeature("f", 2), UpdateMetadataFeature("off", 0)],
            live_brokers=[stated(1)],
            topic_states=[topic(state(0, partition_epoch=9, isr=(1, 2)))],
            configs=[configs(("k", b"v"), ("l", None))],
            next_producer_id=3000,
        )
    )


def test_a_topic_made_again_has_none_of_the_old_configs():
    changes = take(
        piece(
            removed_topics=[ID],
            topic_states=[topic(state(0), topic_id=AGAIN)],
            configs=[configs(("k", b"v"), ("l", None))],
        )
    )
    assert changes == [
        TopicRemoved(ID),
        TopicCreated("t", AGAIN),
        PartitionCreated(AGAIN, Partition(0, (1, 2), (1,), 1, 5, 10)),
        ConfigChanged(TOPIC, "k", "v"),
    ]


def full(**fields):
    given = {
        "base_version": -1,
        "version": 500,
        "features": [UpdateMetadataFeature("f", 2)],
        "live_brokers": [stated(1), stated(2)],
        "topic_states": [
            topic(
                state(0, partition_epoch=9, isr=(1, 2)),
                state(1, partition_epoch=9, isr=(1, 2), replicas=(2, 1)),
            ),
            topic(state(0, (1,), epoch=0, partition_epoch=0), name="u", topic_id=OTHER),
        ],
        "configs": [configs(("k", b"v")), configs(("b", b"w"), kind=4, name="")],
        "next_producer_id": 3000,
    }
    return piece(**{**given, **fields})


def test_a_full_update_of_the_same_changes_nothing():
    assert not take(full())


def test_what_a_full_update_does_not_state_is_gone():
    changes = take(
        full(features=[], live_brokers=[], topic_states=[], configs=[], next_producer_id=3000)
    )
    assert changes == [
        FeatureLevelSet("f", 0),
        TopicRemoved(ID),
        TopicRemoved(OTHER),
        ConfigChanged(EVERY_BROKER, "b", None),
        BrokerUnregistered(BrokerId(1), 70),
        BrokerUnregistered(BrokerId(2), 70),
    ]


def test_a_full_update_comes_to_any_older_image():
    empty = MetadataImage()
    assert len(take(full(), image=empty)) == 11


def test_pieces_are_put_together():
    changes = take(
        piece(piece=0, is_last=False, topic_states=[topic(state(2))]),
        piece(piece=1, is_last=False, topic_states=[topic(state(3))]),
        piece(piece=2, configs=[configs(("l", b"x"))]),
    )
    assert [change.partition.index for change in changes[:2]] == [2, 3]
    assert changes[2:] == [ConfigChanged(TOPIC, "l", "x")]


def test_a_repeated_piece_is_taken_once():
    first = piece(piece=0, is_last=False, topic_states=[topic(state(2))])
    second = piece(piece=1, is_last=False, topic_states=[topic(state(3))])
    changes = take(first, first, second, second, piece(piece=2))
    assert [change.partition.index for change in changes] == [2, 3]


def test_a_repeated_update_changes_nothing():
    updates = Updates()
    update = updates.take(piece(topic_states=[topic(state(2))]), 100)
    changes, after = run(updated_image(IMAGE, update))
    assert changes
    assert run(updated_image(after, update)) == ([], after)
    # The last piece of one that came in several has nothing to be put together with any more.
    assert updates.take(piece(piece=3), 101) is None


@pytest.mark.parametrize(
    "other",
    [
        {"controller_id": 8},
        {"controller_epoch": 5},
        {"base_version": 99},
        {"version": 102},
        {"piece": 2},
    ],
)
def test_a_piece_that_does_not_follow_is_refused(other):
    updates = Updates()
    updates.take(piece(is_last=False), 100)
    with pytest.raises(UpdateOutOfOrder):
        updates.take(piece(**{"piece": 1, **other}), 100)


def test_a_first_piece_drops_what_was_begun():
    updates = Updates()
    updates.take(piece(is_last=False, topic_states=[topic(state(2))]), 100)
    begun = piece(controller_id=8, controller_epoch=5, is_last=False)
    assert updates.take(begun, 100) is None
    with pytest.raises(UpdateOutOfOrder):
        updates.take(piece(piece=1), 100)
    update = updates.take(piece(controller_id=8, controller_epoch=5, piece=1), 100)
    assert (update.controller_id, update.topics) == (8, {})


def test_an_update_that_was_refused_does_not_go_on():
    updates = Updates()
    updates.take(piece(is_last=False), 100)
    with pytest.raises(UpdateRefused):
        updates.take(piece(piece=1, topic_states=[topic(state(-1))]), 100)
    with pytest.raises(UpdateOutOfOrder):
        updates.take(piece(piece=1), 100)


def test_an_update_from_another_base_is_refused():
    update = Updates().take(piece(base_version=99), 100)
    with pytest.raises(UpdateOutOfOrder, match="from version 99, but 100 is here"):
        run(updated_image(IMAGE, update))


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        pytest.param({"version": -1}, "without a version", id="of-kafka"),
        pytest.param({"base_version": 102}, "from version 102", id="base-after-version"),
        pytest.param({"base_version": -2}, "from version -2", id="no-base"),
        pytest.param({"controller_id": -1}, "below 0", id="no-controller"),
        pytest.param({"controller_epoch": -1}, "below 0", id="no-epoch"),
        pytest.param({"piece": -1}, "below 0", id="no-piece"),
        pytest.param({"next_producer_id": -1}, "below 0", id="no-producer-id"),
        pytest.param(
            {"removed_topics": [ID] * (PIECE_WEIGHT_MAX + 1)}, "too large", id="large-piece"
        ),
        pytest.param(
            {"topic_states": [topic(*map(state, range(PIECE_WEIGHT_MAX)))]},
            "too large",
            id="large-topic",
        ),
        pytest.param(
            {"topic_states": [topic(state(0, range(100_000)))]}, "too large", id="many-replicas"
        ),
        pytest.param(
            {"configs": [configs(("k", b"v" * 17_000_000))]}, "too large", id="long-config"
        ),
        pytest.param(
            {"live_brokers": [stated(1, endpoints=[UpdateMetadataEndpoint()] * 1_000)]},
            "too large",
            id="many-listeners",
        ),
        pytest.param({"topic_states": [topic(name="")]}, "none", id="no-name"),
        pytest.param({"topic_states": [topic(name="a/b")]}, "none", id="bad-name"),
        pytest.param({"configs": [configs(name="..")]}, "none", id="bad-name-of-configs"),
        pytest.param({"topic_states": [topic(topic_id=ZERO_TOPIC_ID)]}, "no id", id="no-id"),
        pytest.param(
            {"topic_states": [topic(), topic(name="w")]}, "same id", id="two-names-of-one-id"
        ),
        pytest.param(
            {"topic_states": [topic(state(0)), topic(state(0))]}, "twice", id="partition-twice"
        ),
        pytest.param({"topic_states": [topic(state(-1))]}, "below 0", id="number-below-0"),
        pytest.param({"topic_states": [topic(state(0, epoch=-1))]}, "below 0", id="epoch-below-0"),
        pytest.param(
            {"topic_states": [topic(state(0, partition_epoch=-1))]},
            "below 0",
            id="partition-epoch-below-0",
        ),
        pytest.param({"topic_states": [topic(state(0, ()))]}, "no replicas", id="no-replicas"),
        pytest.param(
            {"topic_states": [topic(state(0, (1, 1)))]}, "twice", id="the-same-replica-twice"
        ),
        pytest.param({"topic_states": [topic(state(0, (1, -1)))]}, "no broker", id="no-broker"),
        pytest.param({"topic_states": [topic(state(0, leader=3))]}, "leader 3", id="other-leader"),
        pytest.param(
            {"topic_states": [topic(state(0, leader=-2))]}, "leader -2", id="kafkas-deletion"
        ),
        pytest.param({"topic_states": [topic(state(0, isr=(3,)))]}, "no replica", id="other-isr"),
        pytest.param(
            {"topic_states": [topic(state(0, adding_replicas=[3]))]}, "no replica", id="adding"
        ),
        pytest.param(
            {"topic_states": [topic(state(0, removing_replicas=[3]))]}, "no replica", id="removing"
        ),
        pytest.param(
            {"topic_states": [topic(state(0, eligible_leaders=[-1]))]}, "no broker", id="eligible"
        ),
        pytest.param(
            {"topic_states": [topic(state(0, last_known_leaders=[2, 2]))]}, "twice", id="last-known"
        ),
        pytest.param({"live_brokers": [stated(-1)]}, "broker -1", id="broker-below-0"),
        pytest.param({"live_brokers": [stated(1, -1)]}, "epoch -1", id="broker-epoch-below-0"),
        pytest.param({"live_brokers": [stated(1), stated(1)]}, "twice", id="broker-twice"),
        pytest.param(
            {"live_brokers": [stated(1, endpoints=[UpdateMetadataEndpoint(65536)])]},
            "listener without",
            id="no-port",
        ),
        pytest.param(
            {"live_brokers": [stated(1, endpoints=[UpdateMetadataEndpoint(security_protocol=4)])]},
            "listener without",
            id="no-security-protocol",
        ),
        pytest.param(
            {"live_brokers": [stated(1, endpoints=[UpdateMetadataEndpoint()] * 2)]},
            "listener twice",
            id="listener-twice",
        ),
        pytest.param(
            {"live_brokers": [stated(1, features=[UpdateMetadataBrokerFeature("f", 2, 1)])]},
            "feature",
            id="no-levels",
        ),
        pytest.param(
            {"features": [UpdateMetadataFeature("f", -1)]}, "level -1", id="level-below-0"
        ),
        pytest.param(
            {"features": [UpdateMetadataFeature("", 1)]}, "name", id="feature-without-name"
        ),
        pytest.param(
            {"features": [UpdateMetadataFeature("f", 1)] * 2}, "twice", id="feature-twice"
        ),
        pytest.param({"configs": [configs(kind=0)]}, "type 0", id="no-resource"),
        pytest.param({"configs": [configs(("k", b"v"))] * 2}, "twice", id="config-twice"),
        pytest.param({"configs": [configs(("k", b"\xff"))]}, "no text", id="config-no-text"),
        pytest.param(
            {"base_version": -1, "removed_topics": [ID]}, "full update", id="full-and-removed"
        ),
    ],
)
def test_a_request_that_cannot_be_true_is_refused(statements, problem):
    with pytest.raises(UpdateRefused, match=problem):
        Updates().take(piece(**statements), 100)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        pytest.param(piece(topic_states=[topic(state(3))]), "without some", id="gap"),
        pytest.param(
            piece(topic_states=[topic(state(1), name="v", topic_id=AGAIN)]),
            "without some",
            id="gap-in-a-new-topic",
        ),
        pytest.param(
            piece(topic_states=[topic(state(2**31 - 1))]), "without some", id="huge-number"
        ),
        pytest.param(
            piece(topic_states=[topic(state(0, epoch=4))]), "older epoch", id="older-leader-epoch"
        ),
        pytest.param(
            piece(topic_states=[topic(state(0, partition_epoch=8))]),
            "older epoch",
            id="older-partition-epoch",
        ),
        pytest.param(piece(topic_states=[topic(name="w")]), "id of t", id="id-of-another-topic"),
        pytest.param(
            piece(topic_states=[topic(state(0), topic_id=AGAIN)]), "another id", id="name-taken"
        ),
        pytest.param(
            piece(topic_states=[topic(name="v", topic_id=topic_id(n)) for n in (7, 8)]),
            "another id",
            id="two-ids-of-one-name",
        ),
        pytest.param(piece(removed_topics=[AGAIN]), "not there", id="removes-an-unknown-topic"),
        pytest.param(
            piece(removed_topics=[ID], topic_states=[topic(state(0))]),
            "stated as well",
            id="removed-and-stated",
        ),
        pytest.param(piece(removed_brokers=[3]), "not there", id="removes-an-unknown-broker"),
        pytest.param(
            piece(removed_brokers=[1], live_brokers=[stated(1)]),
            "that it states",
            id="broker-removed-and-stated",
        ),
        pytest.param(piece(live_brokers=[stated(1, 69)]), "older epoch", id="older-broker"),
        pytest.param(piece(next_producer_id=2999), "back to 2999", id="producer-ids-back"),
        pytest.param(full(next_producer_id=0), "back to 0", id="no-producer-ids"),
        pytest.param(
            full(topic_states=[topic(state(0))]), "without some", id="fewer-partitions-than-known"
        ),
        pytest.param(
            full(topic_states=[topic(state(0), state(1), state(3))]), "without some", id="full-gap"
        ),
    ],
)
def test_an_update_that_does_not_fit_the_image_is_refused(request_, problem):
    update = Updates().take(request_, 100)
    with pytest.raises(UpdateRefused, match=problem):
        run(updated_image(IMAGE, update))


@pytest.mark.parametrize(
    "older",
    [
        pytest.param({"live_brokers": [stated(2, 69)]}, id="broker"),
        pytest.param({"topic_states": [topic(state(0), state(1, epoch=4))]}, id="leader-epoch"),
        pytest.param({"topic_states": [topic(state(0))]}, id="partition-that-was-added"),
        pytest.param({"next_producer_id": 0}, id="producer-ids"),
    ],
)
def test_a_controller_behind_the_tree_that_a_start_has_read_is_asked_again(older):
    """It has not read the new registration yet, say; an image at version 0 comes from the tree."""
    read_at_start = replace(IMAGE, version=0)
    update = Updates().take(full(**{"next_producer_id": 3000, **older}), 0)
    with pytest.raises(UpdateOutOfOrder):
        run(updated_image(read_at_start, update))


def test_an_update_that_comes_late_is_out_of_order_and_no_mistake():
    with pytest.raises(UpdateOutOfOrder, match="from version 100 back to 99"):
        Updates().take(piece(version=99), 100)
    update = Updates().take(piece(), 100)
    with pytest.raises(UpdateOutOfOrder, match="from version 102 back to 101"):
        run(updated_image(replace(IMAGE, version=102), update))


def test_an_update_has_an_end(monkeypatch):
    monkeypatch.setattr(incoming, "UPDATE_WEIGHT_MAX", 3)
    updates = Updates()
    updates.take(piece(is_last=False, topic_states=[topic(state(2))]), 100)
    with pytest.raises(UpdateRefused, match="too large"):
        updates.take(piece(piece=1, topic_states=[topic(state(3))]), 100)


def test_a_large_update_can_be_paused():
    updates = Updates()
    for number in range(3):
        states = [state(index) for index in range(number * 400, number * 400 + 400)]
        update = updates.take(
            full(
                piece=number,
                is_last=number == 2,
                topic_states=[topic(*states)],
                configs=[],
                features=[],
                live_brokers=[],
            ),
            100,
        )
    pauses = sum(1 for _ in updated_image(IMAGE, update))
    assert pauses >= 12
