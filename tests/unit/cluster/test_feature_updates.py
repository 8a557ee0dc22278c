"""Levels of features go up and down as Kafka's controller lets them, all of a request or none."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from kits.metadata_samples import (
    after,
    bring_up,
    controller,
    lone_partition,
    registration,
    topic_id,
    with_brokers,
)
from kits.sole_voter import LOG, all_records, created, new_store
from moldau.base.files import read_whole
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    ConfigChanged,
    ControllerRegistered,
    FeatureLevelSet,
    PartitionCreated,
    TopicCreated,
)
from moldau.cluster.configs import EVERY_BROKER
from moldau.cluster.controller import Controller
from moldau.cluster.feature_updates import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    QuorumContext,
    raises_kraft_version,
    update_features,
)
from moldau.cluster.features import KraftLevels, levels_in_force, supported_features
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.leader_choice import Election, ElectionRules, choose_leader
from moldau.cluster.model import NO_LEADER, ConfigResource, FeatureRange, Partition, ResourceType
from moldau.cluster.steps import walk_partitions
from moldau.cluster.topics import TopicDefaults
from moldau.protocol.errors import ApiError, ErrorCode

METADATA = "metadata.version"
TRANSACTIONS = "transaction.version"
ELIGIBLE = "eligible.leader.replicas.version"
MINIMUM = "min.insync.replicas"

ALONE = QuorumContext(1, {1}, KraftLevels(0, 0), min_insync_replicas=2)
THREE = QuorumContext(1, {1, 2, 3}, KraftLevels(0, 1), min_insync_replicas=2)


def at_level(level, **others):
    """An image of a cluster with one broker, at this level of the metadata."""
    image = with_brokers([1], image=MetadataImage().apply(FIRST_FEATURES, 6))
    levels = {METADATA: level, **{name.replace("_", "."): one for name, one in others.items()}}
    return after(image, [FeatureLevelSet(name, one) for name, one in levels.items()])


@pytest.fixture
def image():
    return at_level(30)


def updated(image, *updates, quorum=ALONE):
    """The changes of a request; each update is (name, level, type)."""
    wanted = [FeatureUpdate(*update) for update in updates]
    return [step for step in update_features(image, wanted, quorum) if step is not None]


def refusal(image, *updates, quorum=ALONE):
    with pytest.raises(ApiError) as refused:
        updated(image, *updates, quorum=quorum)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    start = "The update failed for all features since the following feature had an error: "
    assert refused.value.message.startswith(start)
    return refused.value.message.removeprefix(start)


# What may be


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        (METADATA, 30, UPGRADE),
        (METADATA, 30, SAFE_DOWNGRADE),
        (TRANSACTIONS, 2, UNSAFE_DOWNGRADE),
        ("group.version", 1, UPGRADE),
        ("kraft.version", 0, UPGRADE),
    ],
)
def test_the_level_in_force_is_accepted_and_nothing_is_written(image, name, level, kind):
    assert updated(image, (name, level, kind)) == []
    assert updated(image, (name, level, kind), quorum=None) == []


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize("level", [0, 1])
def test_a_feature_goes_down_and_up_again(image, level, kind):
    changes = updated(image, (TRANSACTIONS, level, kind))
    assert changes == [FeatureLevelSet(TRANSACTIONS, level)]
    lower = after(image, changes)
    assert lower.features.get(TRANSACTIONS, 0) == level
    assert updated(lower, (TRANSACTIONS, 2, UPGRADE)) == [FeatureLevelSet(TRANSACTIONS, 2)]


def test_a_feature_at_level_0_is_gone(image):
    changes = updated(image, ("group.version", 0, SAFE_DOWNGRADE))
    assert "group.version" not in after(image, changes).features


def test_several_are_changed_in_their_order(image):
    changes = updated(
        image, ("share.version", 0, SAFE_DOWNGRADE), (TRANSACTIONS, 1, SAFE_DOWNGRADE)
    )
    assert changes == [FeatureLevelSet("share.version", 0), FeatureLevelSet(TRANSACTIONS, 1)]


def test_with_one_that_cannot_be_nothing_changes(image):
    assert "cats" in refusal(image, (TRANSACTIONS, 1, SAFE_DOWNGRADE), ("cats", 1, UPGRADE))


# What cannot be


@pytest.mark.parametrize(
    ("name", "level", "kind", "why"),
    [
        (METADATA, 31, UPGRADE, "Local controller 1 only supports versions 7-30"),
        (METADATA, 6, SAFE_DOWNGRADE, "Local controller 1 only supports versions 7-30"),
        (METADATA, 0, SAFE_DOWNGRADE, "Local controller 1 only supports versions 7-30"),
        (METADATA, -1, UPGRADE, "A feature version cannot be less than 0."),
        (METADATA, 30, 0, "The controller does not support the given upgrade type."),
        (TRANSACTIONS, 2, 4, "The controller does not support the given upgrade type."),
        (TRANSACTIONS, 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        (TRANSACTIONS, 1, UPGRADE, "Can't downgrade the version of this feature without setting"),
        (ELIGIBLE, 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", 2, UPGRADE, "Local controller 1 does not support this feature."),
        ("kraft.version", 1, UPGRADE, "This quorum keeps its kraft.version: it is 0."),
        ("cats", 1, UPGRADE, "This controller does not support this feature."),
        ("cats", 0, SAFE_DOWNGRADE, "This controller does not support this feature."),
    ],
)
def test_a_level_that_is_not_there_is_refused(image, name, level, kind, why):
    said = refusal(image, (name, level, kind))
    assert said.startswith(f"Invalid update version {level} for feature {name}. ")
    assert why in said


def test_a_newer_level_is_no_downgrade(image):
    lower = after(image, [FeatureLevelSet(TRANSACTIONS, 1)])
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert "Can't downgrade to a newer version." in refusal(lower, (TRANSACTIONS, 2, kind))


@pytest.mark.parametrize("name", ["group.version", "share.version", "streams.version"])
def test_a_protocol_that_is_not_there_is_not_turned_on(image, name):
    off = after(image, [FeatureLevelSet(name, 0)])
    assert "does not support this feature" in refusal(off, (name, 1, UPGRADE))


@pytest.mark.parametrize("level", [0, 1])
def test_the_version_of_the_quorum_stays(image, level):
    quorum = replace(ALONE, kraft=KraftLevels(1 - level, 1 - level))
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        assert f"it is {1 - level}." in refusal(
            image, ("kraft.version", level, kind), quorum=quorum
        )


def test_the_log_may_name_the_voters_of_the_settings_from_now_on(image):
    registered = after(image, [ControllerRegistered(controller(node)) for node in (2, 3)])
    wanted = ("kraft.version", 1, UPGRADE)
    assert updated(registered, wanted, quorum=THREE) == []
    assert raises_kraft_version([FeatureUpdate(*wanted)], THREE)
    assert not raises_kraft_version([FeatureUpdate(TRANSACTIONS, 1, UPGRADE)], THREE)
    dynamic = replace(THREE, kraft=KraftLevels(1, 1))
    assert updated(registered, wanted, quorum=dynamic) == []
    assert not raises_kraft_version([FeatureUpdate(*wanted)], dynamic)
    assert "it is 1." in refusal(registered, ("kraft.version", 0, UNSAFE_DOWNGRADE), quorum=dynamic)
    assert "controller 2 has not registered" in refusal(image, wanted, quorum=THREE)
    said = refusal(registered, wanted, quorum=replace(THREE, unready_voters=(3,)))
    assert "node 3 has not told the leader its directory and versions" in said


def test_without_a_quorum_levels_stay_as_they_are(image):
    assert "it is 2." in refusal(image, (TRANSACTIONS, 1, SAFE_DOWNGRADE), quorum=None)
    lower = at_level(21)
    assert "it is 21." in refusal(lower, (METADATA, 30, UPGRADE), quorum=None)
    for update in ((METADATA, 31, UPGRADE), ("kraft.version", 1, UPGRADE), (METADATA, 7, UPGRADE)):
        refusal(image, update, quorum=None)


def test_a_name_of_any_length_makes_a_short_refusal(image):
    assert len(refusal(image, ("f" * 30_000, 1, UPGRADE))) < 1_000


# metadata.version


@pytest.mark.parametrize("level", range(7, 31))
def test_the_metadata_go_up_from_any_level(level):
    lower = at_level(level, transaction_version=0, eligible_leader_replicas_version=0)
    for higher in range(level + 1, 31):
        changes = updated(lower, (METADATA, higher, UPGRADE))
        assert changes == [FeatureLevelSet(METADATA, higher)]


LOWEST = {7: 7, 10: 8, 12: 11, 13: 13, 14: 14, 16: 15, 22: 17, 29: 23, 30: 30}
"""How far down Kafka lets each level go: as far as no record has a new form."""


@pytest.mark.parametrize(("level", "lowest"), LOWEST.items())
def test_the_metadata_go_down_as_long_as_records_keep_their_form(level, lowest):
    higher = at_level(level)
    for lower in range(lowest, level):
        assert updated(higher, (METADATA, lower, SAFE_DOWNGRADE)) == [
            FeatureLevelSet(METADATA, lower)
        ]
    for lower in range(7, lowest):
        for kind, why in (
            (SAFE_DOWNGRADE, "it might delete metadata information."),
            (UNSAFE_DOWNGRADE, "Unsafe metadata downgrade is not supported in this version."),
        ):
            said = refusal(higher, (METADATA, lower, kind))
            assert said.startswith(f"Unsupported metadata.version downgrade from {level} to")
            assert said.endswith(why)


def test_a_downgrade_of_the_metadata_has_to_be_called_one():
    assert "without setting the upgrade type" in refusal(at_level(29), (METADATA, 28, UPGRADE))


# What the nodes support


def test_a_broker_that_lacks_a_level_is_named_also_while_it_is_fenced(image):
    image = with_brokers([1, 2], image=image)
    older = replace(image.brokers[2], features=(FeatureRange(METADATA, 7, 30),), fenced=True)
    image = replace(image, brokers={**image.brokers, 2: older})
    image = after(image, [FeatureLevelSet(TRANSACTIONS, 0)])
    said = refusal(image, (TRANSACTIONS, 1, UPGRADE))
    assert said.endswith("Broker 2 does not support this feature.")
    older = replace(older, features=(FeatureRange(TRANSACTIONS, 0, 1),))
    image = replace(image, brokers={**image.brokers, 2: older})
    assert refusal(image, (TRANSACTIONS, 2, UPGRADE)).endswith(
        "Broker 2 only supports versions 0-1"
    )
    assert updated(image, (TRANSACTIONS, 1, UPGRADE))


def test_a_feature_may_be_turned_off_that_not_all_know(image):
    older = replace(image.brokers[1], features=(FeatureRange(METADATA, 7, 30),))
    image = replace(image, brokers={1: older})
    assert updated(image, (TRANSACTIONS, 0, SAFE_DOWNGRADE))


def test_a_broker_that_supports_no_lower_level_keeps_the_metadata_up():
    image = at_level(29)
    newer = replace(image.brokers[1], features=(FeatureRange(METADATA, 28, 30),))
    image = replace(image, brokers={1: newer})
    assert updated(image, (METADATA, 28, SAFE_DOWNGRADE))
    said = refusal(image, (METADATA, 27, SAFE_DOWNGRADE))
    assert said.endswith("Broker 1 only supports versions 28-30")


def with_controller(image, controller_id, *features):
    registered = replace(controller(controller_id), features=features)
    return after(image, [ControllerRegistered(registered)])


def test_a_controller_that_lacks_a_level_is_named(image):
    image = with_controller(image, 2, FeatureRange(METADATA, 7, 30))
    quorum = replace(ALONE, voters={1, 2})
    lower = after(image, [FeatureLevelSet(TRANSACTIONS, 1)])
    said = refusal(lower, (TRANSACTIONS, 2, UPGRADE), quorum=quorum)
    assert said.endswith("Controller 2 does not support this feature.")
    lower = with_controller(lower, 2, FeatureRange(TRANSACTIONS, 0, 2))
    assert updated(lower, (TRANSACTIONS, 2, UPGRADE), quorum=quorum)


def test_what_this_node_registered_in_an_earlier_life_does_not_count(image):
    image = with_controller(image, 1, FeatureRange(METADATA, 7, 21))
    assert updated(image, (TRANSACTIONS, 1, SAFE_DOWNGRADE))


def test_every_voter_has_to_be_registered(image):
    quorum = replace(ALONE, voters={1, 2, 3})
    image = with_controller(image, 2, FeatureRange(TRANSACTIONS, 0, 2))
    said = refusal(image, (TRANSACTIONS, 1, SAFE_DOWNGRADE), quorum=quorum)
    assert said.endswith("controller 3 has not registered, and may not support this feature")
    image = with_controller(image, 3, FeatureRange(TRANSACTIONS, 0, 2))
    assert updated(image, (TRANSACTIONS, 1, SAFE_DOWNGRADE), quorum=quorum)


def test_before_controllers_register_nobody_can_ask_them():
    quorum = replace(ALONE, voters={1, 2, 3})
    assert updated(at_level(14), (METADATA, 15, UPGRADE), quorum=quorum)
    assert "controller 2 has not" in refusal(at_level(15), (METADATA, 16, UPGRADE), quorum=quorum)


# Eligible leaders


def without_eligible_leaders(level=30):
    return at_level(level, eligible_leader_replicas_version=0)


def test_eligible_leaders_need_the_records_for_them():
    lower = without_eligible_leaders(22)
    said = refusal(lower, (ELIGIBLE, 1, UPGRADE))
    assert said.endswith("because it depends on metadata.version level 23")
    together = updated(lower, (ELIGIBLE, 1, UPGRADE), (METADATA, 23, UPGRADE))
    assert together[-2:] == [FeatureLevelSet(ELIGIBLE, 1), FeatureLevelSet(METADATA, 23)]


def test_with_eligible_leaders_all_brokers_have_one_minimum():
    own, other = (ConfigResource(ResourceType.BROKER, name) for name in ("1", "2"))
    image = after(
        without_eligible_leaders(),
        [
            ConfigChanged(own, MINIMUM, "1"),
            ConfigChanged(own, "log.cleaner.threads", "2"),
            ConfigChanged(other, "log.cleaner.threads", "2"),
        ],
    )
    changes = updated(image, (ELIGIBLE, 1, UPGRADE))
    assert changes == [
        ConfigChanged(EVERY_BROKER, MINIMUM, "2"),
        ConfigChanged(own, MINIMUM, None),
        FeatureLevelSet(ELIGIBLE, 1),
    ]
    image = after(image, [ConfigChanged(EVERY_BROKER, MINIMUM, "3")])
    assert updated(image, (ELIGIBLE, 1, UPGRADE)) == changes[1:]


def led_by_nobody(index, isr, eligible, last=()):
    everywhere = (BrokerId(1), BrokerId(2), BrokerId(3))
    return Partition(
        index,
        everywhere,
        isr,
        NO_LEADER,
        eligible_leaders=eligible,
        last_known_leaders=last,
    )


def test_who_may_lead_may_lead_as_well_without_eligible_leaders(image):
    partitions = [
        led_by_nobody(0, (), (3, 2), (3,)),
        led_by_nobody(1, (), (), (3,)),
        led_by_nobody(2, (2,), (3,)),
        replace(lone_partition(3, 1), replicas=(1, 2), eligible_leaders=(2,)),
        lone_partition(4, 1),
    ]
    made = [PartitionCreated(topic_id(1), one) for one in partitions]
    image = after(image, [TopicCreated("t", topic_id(1)), *made])
    off = after(image, updated(image, (ELIGIBLE, 0, SAFE_DOWNGRADE)))
    assert [(one.isr, one.eligible_leaders) for one in off.topics["t"].partitions] == [
        ((3, 2), ()),
        ((), ()),
        ((2,), ()),
        ((1,), ()),
        ((1,), ()),
    ]
    assert off.topics["t"].partitions[4] is image.topics["t"].partitions[4]
    rules = ElectionRules(with_brokers([3], image=off))
    leaders = [
        choose_leader(rules, one, one.replicas, one.isr, (), Election.ONLINE)
        for one in off.topics["t"].partitions[:2]
    ]
    assert leaders == [(3, False), (NO_LEADER, False)]


def test_with_eligible_leaders_off_the_decision_pauses_on_its_way(image):
    many = [PartitionCreated(topic_id(1), lone_partition(index, 1)) for index in range(5_000)]
    image = after(image, [TopicCreated("t", topic_id(1)), *many])
    pauses = sum(one is None for one in walk_partitions(image))
    steps = list(update_features(image, [FeatureUpdate(ELIGIBLE, 0, SAFE_DOWNGRADE)], ALONE))
    assert steps.count(None) > pauses > 40


# What clients are told


def test_every_level_that_may_be_asked_for_is_told_as_supported(image):
    kraft = KraftLevels(0, 1)
    supported = supported_features(at_level(21), kraft)
    assert (supported[METADATA].minimum, supported[METADATA].maximum) == (7, 30)
    for feature in supported.values():
        if feature.name == "kraft.version":
            continue
        for level in range(feature.minimum, feature.maximum + 1):
            base = at_level(level) if feature.name == METADATA else image
            set_to = after(base, [FeatureLevelSet(feature.name, level)])
            assert levels_in_force(set_to, kraft).get(feature.name, 0) == level


# Through the controller


def controller_of(store, world, quorum=ALONE, raise_kraft_version=None):
    return Controller(
        store,
        TopicDefaults(),
        None,
        random.Random(1),
        lambda: True,
        world.clock,
        quorum=None if quorum is None else lambda: quorum,
        raise_kraft_version=raise_kraft_version,
    )


def test_levels_are_kept_and_decide_how_records_are_written(world, disk):
    async def life(work):
        store = new_store(world, disk)
        await store.start()
        acting = controller_of(store, world)
        assert await acting.claim()
        await work(store, acting)
        await store.close()

    async def downgrade(store, acting):
        # Only a log that was begun at a lower level is at one.
        levels = [FeatureLevelSet(METADATA, 16), FeatureLevelSet(ELIGIBLE, 0)]
        await (await store.claim()).commit(store.image.version, levels)
        await bring_up(acting, registration(1))

    async def upgrade(store, acting):
        before = store.image
        wanted = [FeatureUpdate(METADATA, 30, UPGRADE), FeatureUpdate(TRANSACTIONS, 1, 3)]
        await acting.update_features(wanted, validate_only=True)
        assert store.image is before
        with pytest.raises(ApiError):
            await acting.update_features([FeatureUpdate("cats", 1, UPGRADE)], validate_only=True)
        await acting.update_features(wanted)
        assert store.image.features[METADATA] == 30
        assert store.image.features[TRANSACTIONS] == 1
        await acting.register_broker(registration(2))

    async def look(store, acting):
        assert (store.image.features[METADATA], store.image.features[TRANSACTIONS]) == (30, 1)
        before = store.image
        await acting.update_features([FeatureUpdate(METADATA, 30, UPGRADE)])
        assert store.image is before

    for work in (downgrade, upgrade, look):
        world.run(life(work))
    records = all_records(read_whole(disk, LOG))
    values = [record.value for header, record in records if not header.control]
    assert [value[2] for value in values if value[1] == 0] == [2, 4]


def test_kraft_version_is_raised_only_with_all_else_that_is_asked_for(world, disk):
    raised = []

    async def raise_it():
        raised.append("kraft.version")

    async def work():
        store = new_store(world, disk)
        await store.start()
        quorum = replace(ALONE, kraft=KraftLevels(0, 1))
        acting = controller_of(store, world, quorum, raise_it)
        assert await acting.claim()
        kraft = FeatureUpdate("kraft.version", 1, UPGRADE)
        await acting.update_features([kraft], validate_only=True)
        with pytest.raises(ApiError, match="cats"):
            await acting.update_features([kraft, FeatureUpdate("cats", 1, UPGRADE)])
        assert not raised
        await acting.update_features([kraft, FeatureUpdate(TRANSACTIONS, 1, SAFE_DOWNGRADE)])
        assert raised == ["kraft.version"]
        assert store.image.features[TRANSACTIONS] == 1
        await store.close()

    world.run(work())


def test_on_zookeeper_the_controller_changes_no_level(world, disk):
    async def work():
        store = new_store(world, disk)
        await store.start()
        acting = controller_of(store, world, quorum=None)
        assert await acting.claim()
        before = store.image
        await acting.update_features([FeatureUpdate(METADATA, 30, UPGRADE)])
        with pytest.raises(ApiError, match="ZooKeeper"):
            await acting.update_features([FeatureUpdate(TRANSACTIONS, 1, SAFE_DOWNGRADE)])
        with pytest.raises(ApiError, match="UNSUPPORTED_VERSION"):
            await acting.register_controller(controller(2))
        with pytest.raises(ApiError, match="UNKNOWN_CONTROLLER_ID"):
            await acting.unregister_controller(BrokerId(1))
        assert store.image is before
        await store.close()

    world.run(work())


def test_a_large_change_is_one_commit_for_all_who_follow(world, disk):
    heard = []

    async def work():
        store = new_store(world, disk)
        await store.start()
        acting = controller_of(store, world)
        assert await acting.claim()
        waiting = led_by_nobody(0, (), (3, 2))
        changes = [
            created(1),
            *(
                PartitionCreated(topic_id(1), replace(waiting, index=number))
                for number in range(400)
            ),
        ]
        await (await store.claim()).commit(store.image.version, changes)
        store.subscribe(lambda changes, image: heard.append((len(changes), image)))
        off = [FeatureUpdate(ELIGIBLE, 0, SAFE_DOWNGRADE)]
        await asyncio.gather(acting.update_features(off), acting.update_features(off))
        await store.close()

    world.run(work())
    ((count, image),) = heard
    assert count == 401
    assert {one.isr for one in image.topics["topic-1"].partitions} == {(3, 2)}
