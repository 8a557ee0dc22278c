"""Brokers come, go and restart in any combination: no partition is left with one that is gone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.metadata_samples import after, topic_id
from moldau.cluster.broker_arrivals import brokers_changed
from moldau.cluster.changes import ConfigChanged, PartitionChanged, PartitionCreated, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Broker, ConfigResource, Partition, ResourceType

BROKERS = range(1, 6)
TOPIC = topic_id(1)
KNOWN, OLDER, NEWER = 10, 5, 20

minimums = st.sampled_from([1, 2, 3])
flags = st.booleans()
some_brokers = st.sets(st.sampled_from(BROKERS))


@st.composite
def partitions(draw, index, keeps_eligible, minimum):
    replicas = tuple(draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True)))
    eligible = ()
    if keeps_eligible and len(isr) < min(minimum, len(replicas)):
        others = [one for one in replicas if one not in isr]
        eligible = tuple(one for one in others if draw(flags))
    elif not isr:
        isr = replicas[:1]
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    return Partition(index, replicas, isr, leader, eligible_leaders=eligible)


def life(broker_id, epoch):
    return Broker(broker_id, epoch, epoch.to_bytes(16), fenced=False)


@st.composite
def images(draw):
    keeps_eligible, minimum = draw(flags), draw(minimums)
    image = MetadataImage(
        brokers={one: life(one, KNOWN) for one in sorted(draw(some_brokers))},
        features={"eligible.leader.replicas.version": int(keeps_eligible)},
    )
    resource = ConfigResource(ResourceType.TOPIC, "a")
    made = [draw(partitions(index, keeps_eligible, minimum)) for index in range(3)]
    return after(
        image,
        [
            TopicCreated("a", TOPIC),
            *(PartitionCreated(TOPIC, one) for one in made),
            ConfigChanged(resource, "min.insync.replicas", str(minimum)),
            ConfigChanged(resource, "unclean.leader.election.enable", str(draw(flags))),
        ],
    )


lives = st.dictionaries(st.sampled_from(BROKERS), st.sampled_from([KNOWN, KNOWN, NEWER, OLDER]))


def on_record(partition):
    return {*partition.isr, *partition.eligible_leaders}


@settings(max_examples=500, deadline=None)
@given(image=images(), epochs=lives, flagged=some_brokers)
def test_brokers_that_come_and_go(image, epochs, flagged):
    live = {one: life(one, epoch) for one, epoch in epochs.items()}
    steps = [one for one in brokers_changed(image, live, flagged) if one is not None]
    changed = [one.index for one in steps if isinstance(one, PartitionChanged)]
    assert len(set(changed)) == len(changed)
    now = after(image, steps)
    assert now.brokers.keys() == live.keys()
    staying = {one for one, old in image.brokers.items() if now.brokers.get(one) == old}
    lacking = flagged & live.keys() - staying
    for old, new in zip(image.topics["a"].partitions, now.topics["a"].partitions, strict=True):
        check_brokers(new, live)
        check_records(old, new, lacking)
        if old.leader not in {NO_LEADER, *staying} and new.leader == old.leader:
            assert new.leader_epoch > old.leader_epoch
        if old.leader in staying:
            assert new.leader == old.leader
    assert [one for one in brokers_changed(now, live, flagged) if one is not None] == []


def check_brokers(partition, live):
    """Nobody leads or is in sync who is not live, but the last member, which is waited for."""
    assert partition.leader in {NO_LEADER, *live}
    assert partition.leader == NO_LEADER or partition.leader in partition.isr
    gone = [one for one in partition.isr if one not in live]
    assert not gone or (partition.isr == tuple(gone[:1]) and partition.leader == NO_LEADER)


def check_records(old, new, lacking):
    """Somebody who has all committed records stays on record, and only such a one leads."""
    if new.recovering:
        assert new.isr == (new.leader,)
        return
    if not on_record(old):
        # Nobody had all records. The only replica has what there is.
        assert new.leader == NO_LEADER or new.replicas == (new.leader,)
        return
    complete = on_record(old) - lacking or on_record(old)
    assert on_record(new)
    assert on_record(new) <= complete
    assert new.leader == NO_LEADER or new.leader in complete
    if not lacking and not new.isr:
        assert on_record(new) == on_record(old)
