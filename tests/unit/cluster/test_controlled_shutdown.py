"""A broker asks to stop: it hands its partitions over, and is told which ones it could not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.broker_arrivals import broker_left
from kits.metadata_samples import after, decided, with_brokers, with_topic
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.controlled_shutdown import ShutdownAnswer, answer_shutdown_request
from moldau.cluster.isr_changes import IsrProposal, alter_partitions
from moldau.cluster.model import NO_LEADER
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode

FIRST = PartitionKey("t", 0)


def cluster(*assignments, eligible=True, unclean=False):
    """Brokers 1 to 3, and topics t, u, ... with one partition on these replicas each."""
    image = with_brokers([1, 2, 3])
    configs = {"unclean.leader.election.enable": str(unclean).lower()}
    for name, replicas in zip("tuv", assignments, strict=False):
        image = with_topic(image, NewTopic(name, assignments={0: replicas}, configs=configs))
    return image if eligible else replace(image, features={})


def changed(image, **parts):
    return after(image, [PartitionChanged(image.topics["t"].id, 0, **parts)])


def state(image, name="t"):
    partition = image.topics[name].partitions[0]
    return partition.leader, partition.isr, partition.eligible_leaders


def leave(image, broker_id=1):
    return decided(image, answer_shutdown_request(image, broker_id, image.brokers[broker_id].epoch))


def test_a_broker_hands_over_what_it_leads_and_leaves_what_it_follows():
    image = cluster([1, 2, 3], [2, 1])
    answer, now = leave(image)
    assert answer == ShutdownAnswer((), image.version + 1)
    assert (state(now), state(now, "u")) == ((2, (2, 3), ()), (2, (2,), ()))
    assert now.brokers[1].in_controlled_shutdown
    # Asked again, there is nothing left to do: who has read this knows it all.
    answer, same = leave(now)
    assert (answer, same) == (ShutdownAnswer((), now.version), now)


@pytest.mark.parametrize("eligible", [True, False])
@pytest.mark.parametrize("unclean", [True, False])
def test_what_nobody_else_can_lead_is_told_and_led_on(eligible, unclean):
    image = changed(cluster([1, 2, 3], eligible=eligible, unclean=unclean), isr=(1,))
    answer, now = leave(image)
    assert answer.still_led == (FIRST,)
    assert now.topics == image.topics
    assert now.brokers[1].in_controlled_shutdown
    again, same = leave(now)
    assert (again, same) == (ShutdownAnswer((FIRST,), now.version), now)


def test_the_only_replica_is_led_on_and_not_told():
    image = cluster([1])
    answer, now = leave(image)
    assert (answer.still_led, state(now)) == ((), (1, (1,), ()))
    assert state(after(now, broker_left(now, 1))) == (NO_LEADER, (), (1,))


def test_an_eligible_replica_takes_over():
    image = changed(cluster([1, 2, 3]), isr=(1,), eligible_leaders=(3,))
    answer, now = leave(image)
    assert (answer.still_led, state(now)) == ((), (3, (3,), ()))


def test_another_broker_that_shuts_down_does_not_take_over():
    image = cluster([1, 2])
    _, image = leave(image, 2)
    answer, now = leave(image)
    # It leads on, and nobody is left that it could wait for.
    assert (answer.still_led, state(now)) == ((), (1, (1,), ()))


def test_a_follower_that_catches_up_leads_at_once():
    image = changed(cluster([1, 2, 3]), isr=(1,))
    _, image = leave(image)
    partition = image.topics["t"].partitions[0]
    proposal = IsrProposal(
        image.topics["t"].id,
        0,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple((one, image.brokers[one].epoch) for one in (1, 2)),
    )
    epoch = image.brokers[1].epoch
    (answer,), now = decided(image, alter_partitions(image, 1, epoch, [proposal]))
    assert answer.error is ErrorCode.NEW_LEADER_ELECTED
    assert state(now) == (2, (1, 2), ())
    answer, now = leave(now)
    assert (answer.still_led, state(now)) == ((), (2, (2,), ()))


def test_an_old_request_does_not_say_which_life_asks():
    image = cluster([1, 2])
    answer, now = decided(image, answer_shutdown_request(image, 1))
    assert (answer.still_led, state(now)) == ((), (2, (2,), ()))


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "code"),
    [(9, 5, ErrorCode.BROKER_NOT_AVAILABLE), (1, 12345, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_a_broker_that_is_not_there_is_refused(broker_id, broker_epoch, code):
    with pytest.raises(ApiError) as refused:
        decided(cluster(), answer_shutdown_request(cluster(), broker_id, broker_epoch))
    assert refused.value.code is code


def test_many_partitions_are_left_in_steps():
    image = with_topic(
        with_brokers([1, 2, 3]), NewTopic("t", assignments={n: [2, 3] for n in range(1000)})
    )
    begin = BrokerChanged(1, image.brokers[1].epoch, in_controlled_shutdown=True)
    assert list(answer_shutdown_request(image, 1)) == [begin, *[None] * 10]
