"""The image of the cluster: merged from answers of any order, never back in time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.network import Address
from moldau.engine.metadata import BrokerImage, MetadataImage
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID, OTHER_ID = b"\1" * 16, b"\2" * 16


def partition(index, leader, epoch):
    return MetadataResponsePartition(0, index, leader, epoch, [1, 2], [leader])


def topic(name, *partitions, topic_id=ID, error=0):
    return MetadataResponseTopic(error, name, topic_id, partitions=list(partitions))


def answer(*topics, brokers=(1, 2)):
    return MetadataResponse(
        brokers=[MetadataResponseBroker(one, f"host{one}", 9092, "r") for one in brokers],
        cluster_id="c", controller_id=1, topics=list(topics),
    )  # fmt: skip


def image(*topics):
    return MetadataImage().merged(answer(*topics))


def test_an_answer_becomes_an_image():
    known = image(topic("a", partition(1, -1, 3), partition(0, 2, 4)))
    assert known.brokers[1] == BrokerImage(1, Address("host1", 9092), "r")
    assert (known.controller_id, known.cluster_id) == (1, "c")
    assert list(known.topics["a"].partitions) == [0, 1]
    assert known.topics["a"].available == (0,)
    assert known.topics["a"].partition_count == 2
    assert known.names == {ID: "a"}
    assert known.leader("a", 0).leader == 2
    assert known.leader("a", 1) is None
    assert known.leader("a", 7) is None
    assert known.leader("b", 0) is None


def test_an_older_answer_does_not_bring_an_older_leader_back():
    known = image(topic("a", partition(0, 2, 5)))
    again = known.merged(answer(topic("a", partition(0, 1, 4))), complete=True)
    assert again.leader("a", 0).leader == 2
    assert again == known


def test_the_same_epoch_may_bring_other_replicas():
    known = image(topic("a", partition(0, 2, 5)))
    told = partition(0, 2, 5)
    told.isr_nodes = [2, 1]
    assert known.merged(answer(topic("a", told))).leader("a", 0).isr == (2, 1)


def test_a_topic_created_anew_begins_with_its_own_epochs():
    known = image(topic("a", partition(0, 2, 5)))
    again = known.merged(answer(topic("a", partition(0, 1, 0), topic_id=OTHER_ID)))
    assert (again.leader("a", 0).leader, again.leader("a", 0).leader_epoch) == (1, 0)
    assert again.names == {OTHER_ID: "a"}


def test_a_broker_too_old_for_epochs_is_believed():
    known = image(topic("a", partition(0, 2, 5)))
    again = known.merged(answer(topic("a", partition(0, 1, -1), topic_id=bytes(16))))
    assert again.leader("a", 0).leader == 1
    assert again.names == {}


def test_a_refused_topic_leaves_its_reason_and_a_later_answer_takes_it_back():
    known = image(topic("a", partition(0, 1, 0)))
    refused = known.merged(answer(topic("a", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert "a" not in refused.topics
    assert refused.refusals == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    again = refused.merged(answer(topic("a", partition(0, 1, 1))))
    assert "a" in again.topics
    assert again.refusals == {}


def test_a_partial_answer_keeps_the_other_topics_and_a_complete_one_drops_them():
    known = image(topic("a", partition(0, 1, 0)), topic("b", partition(0, 1, 0)))
    told = answer(topic("b", partition(0, 2, 1)), brokers=(2,))
    assert set(known.merged(told).topics) == {"a", "b"}
    assert set(known.merged(told, complete=True).topics) == {"b"}
    assert set(known.merged(told).brokers) == {2}


def test_a_topic_that_was_looked_up_by_an_unknown_id_is_left_out():
    assert image(topic(None, error=ErrorCode.UNKNOWN_TOPIC_ID)).topics == {}


def test_a_named_leader_is_taken_over_only_if_it_is_newer_and_can_be_reached():
    known = image(topic("a", partition(0, 1, 4)))
    assert known.with_leader("a", 0, 2, 4) is known
    assert known.with_leader("a", 0, 9, 5) is known
    assert known.with_leader("a", 1, 2, 5) is known
    assert known.with_leader("b", 0, 2, 5) is known
    assert known.with_leader("a", 0, 2, 5).leader("a", 0).leader == 2
    elsewhere = BrokerImage(9, Address("host9", 9092))
    moved = known.with_leader("a", 0, 9, 5, elsewhere)
    assert moved.leader("a", 0).leader == 9
    assert moved.brokers[9] == elsewhere
    assert known.leader("a", 0).leader == 1


def test_topics_that_nobody_watches_are_left_out():
    known = image(topic("a", partition(0, 1, 0)), topic("b", error=3))
    assert known.without(["a", "b"]) == MetadataImage(
        known.brokers, controller_id=1, cluster_id="c"
    )


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_in_whatever_order_answers_come_the_newest_leader_stays(epochs):
    known = MetadataImage()
    for epoch in epochs:
        known = known.merged(answer(topic("a", partition(0, epoch, epoch))))
    assert known.leader("a", 0).leader_epoch == max(epochs)
    assert known.leader("a", 0).leader == max(epochs)
