"""The ISR that a leader proposes: taken, or refused for Kafka's reason and in its order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import after, decided, topic_id, with_brokers, with_topic
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.isr_changes import ANY_BROKER_EPOCH, IsrProposal, alter_partitions
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode


@pytest.fixture
def image():
    """Broker 1 leads a partition on 1 to 3; 3 is not in sync. Broker 4 has nothing of it."""
    wanted = NewTopic(
        "t", assignments={0: [1, 2, 3], 1: [1, 2, 3]}, configs={"min.insync.replicas": "2"}
    )
    made = with_topic(with_brokers([1, 2, 3, 4]), wanted)
    return changed(made, isr=(1, 2), leader=1)


def changed(image, **parts):
    return after(image, [PartitionChanged(image.topics["t"].id, 0, **parts)])


def only(image):
    return image.topics["t"].partitions[0]


def proposal(image, members, **parts):
    partition = only(image)
    isr = tuple((one, image.brokers[one].epoch if one in image.brokers else 0) for one in members)
    made = IsrProposal(
        image.topics["t"].id, 0, partition.leader_epoch, partition.partition_epoch, isr
    )
    return replace(made, **parts)


def alter(image, *proposals, broker_id=1):
    """The answers, and the image after it."""
    steps = alter_partitions(image, broker_id, image.brokers[broker_id].epoch, proposals)
    return decided(image, steps)


def refusal(image, wanted, broker_id=1):
    (answer,), same = alter(image, wanted, broker_id=broker_id)
    assert same == image
    return answer.error


def test_a_replica_joins_and_leaves(image):
    (answer,), grown = alter(image, proposal(image, (1, 2, 3)))
    assert (answer.error, answer.leader, answer.isr) == (ErrorCode.NONE, 1, (1, 2, 3))
    now = only(grown)
    assert (answer.leader_epoch, answer.partition_epoch) == (now.leader_epoch, now.partition_epoch)
    assert now.leader_epoch == only(image).leader_epoch
    assert now.partition_epoch == only(image).partition_epoch + 1
    (answer,), shrunk = alter(grown, proposal(grown, (1,)))
    assert (only(shrunk).isr, only(shrunk).eligible_leaders) == ((1,), (2, 3))


def test_what_is_so_already_is_accepted_without_a_record(image):
    (answer,), same = alter(image, proposal(image, (1, 2)))
    assert same == image
    assert (answer.error, answer.isr) == (ErrorCode.NONE, (1, 2))


WRONG = [
    ({"topic_id": topic_id(99)}, ErrorCode.UNKNOWN_TOPIC_ID),
    ({"index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"leader_epoch": 99}, ErrorCode.NOT_CONTROLLER),
    ({"partition_epoch": 99}, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
    ({"isr": ((1, -1), (4, -1))}, ErrorCode.INVALID_REQUEST),
    ({"isr": ((1, -1), (1, -1))}, ErrorCode.INVALID_REQUEST),
    ({"isr": ((2, -1), (3, -1))}, ErrorCode.INVALID_REQUEST),
    ({"isr": ()}, ErrorCode.INVALID_REQUEST),
    ({"isr": tuple((one, -1) for one in range(1, 10_000))}, ErrorCode.INVALID_REQUEST),
    ({"recovering": True}, ErrorCode.INVALID_REQUEST),
    ({"isr": ((1, -1), (3, 12345))}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("parts", "code"), WRONG)
def test_a_wrong_proposal_is_refused_with_kafkas_code(image, parts, code):
    assert refusal(image, proposal(image, (1, 2, 3), **parts)) is code


@pytest.mark.parametrize("parts", [parts for parts, _ in WRONG])
def test_each_refusal_is_a_step_so_that_many_do_not_hold_up_others(image, parts):
    wrong = [proposal(image, (1, 2, 3), **parts)] * 5
    assert list(alter_partitions(image, 1, image.brokers[1].epoch, wrong)) == [None] * 5


def test_the_first_of_several_reasons_is_told(image):
    """Each step puts right what was told, and the next reason comes up."""
    image = after(image, [BrokerChanged(3, image.brokers[3].epoch, fenced=True)])
    right = proposal(image, (1,))
    wrong = IsrProposal(topic_id(99), 7, 0, 99, ((3, -1), (4, -1)), recovering=True)
    led = right.leader_epoch
    steps = [
        ({}, 1, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"topic_id": right.topic_id}, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 0}, 2, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 0}, 2, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": led}, 2, ErrorCode.INVALID_REQUEST),
        ({}, 1, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": right.partition_epoch}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": ((1, -1), (3, -1))}, 1, ErrorCode.INVALID_REQUEST),
        ({"recovering": False}, 1, ErrorCode.INELIGIBLE_REPLICA),
        ({"isr": ((1, -1), (2, -1))}, 1, ErrorCode.NONE),
    ]
    for parts, broker_id, code in steps:
        wrong = replace(wrong, **parts)
        (answer,), _ = alter(image, wrong, broker_id=broker_id)
        assert answer.error is code


@pytest.mark.parametrize(
    "parts",
    [{"fenced": True}, {"in_controlled_shutdown": True}],
    ids=lambda parts: next(iter(parts)),
)
def test_only_an_active_broker_joins(image, parts):
    gone = after(image, [BrokerChanged(3, image.brokers[3].epoch, **parts)])
    assert refusal(gone, proposal(gone, (1, 2, 3))) is ErrorCode.INELIGIBLE_REPLICA
    missing = replace(image, brokers={one: image.brokers[one] for one in (1, 2)})
    assert refusal(missing, proposal(missing, (1, 2, 3))) is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_in_a_failed_directory_does_not_join(image):
    rest = BrokerChanged(3, image.brokers[3].epoch, log_directories=(b"e" * 16,))
    broken = after(image, [rest])
    assert refusal(broken, proposal(broken, (1, 2, 3))) is ErrorCode.INELIGIBLE_REPLICA


def test_an_earlier_incarnation_does_not_join(image):
    members = (
        (1, image.brokers[1].epoch),
        (2, image.brokers[2].epoch),
        (3, image.brokers[3].epoch),
    )
    again = with_brokers([3], image=image)
    late = proposal(again, (1, 2), isr=members)
    assert refusal(again, late) is ErrorCode.INELIGIBLE_REPLICA
    unknown = replace(late, isr=(*members[:2], (3, ANY_BROKER_EPOCH)))
    (answer,), _ = alter(again, unknown)
    assert answer.error is ErrorCode.NONE


def test_only_the_leader_proposes(image):
    assert refusal(image, proposal(image, (1, 2, 3)), broker_id=2) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (9, 0)])
def test_a_stale_broker_is_refused_as_a_whole(image, broker_id, epoch):
    with pytest.raises(ApiError) as refused:
        next(alter_partitions(image, broker_id, epoch, [proposal(image, (1,))]))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_recovery_ends_once_and_nobody_joins_before(image):
    image = changed(image, isr=(1,), recovering=True)
    joins = proposal(image, (1, 2), recovering=True)
    assert refusal(image, joins) is ErrorCode.INVALID_REQUEST
    assert refusal(image, proposal(image, (1,), recovering=True)) is ErrorCode.NONE
    (answer,), image = alter(image, proposal(image, (1, 2)))
    assert (answer.recovering, only(image).recovering) == (False, False)
    back = proposal(image, (1,), recovering=True)
    assert refusal(image, back) is ErrorCode.INVALID_REQUEST


def test_one_refusal_does_not_touch_the_others(image):
    other = replace(proposal(image, (1, 2)), index=1, leader_epoch=0, partition_epoch=0)
    stale = proposal(image, (1, 2, 3), partition_epoch=0)
    answers, now = alter(image, stale, other)
    assert [one.error for one in answers] == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE]
    assert now.topics["t"].partitions[1].isr == (1, 2)


def test_a_partition_named_twice_is_changed_once(image):
    answers, now = alter(image, proposal(image, (1,)), proposal(image, (1, 2, 3)))
    assert [one.error for one in answers] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert only(now).isr == (1,)


def test_a_reassignment_that_moves_the_leader_is_made_and_told():
    image = with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: [1]}))
    image = changed(
        image,
        replicas=(2, 1),
        adding_replicas=(2,),
        removing_replicas=(1,),
        directories=(image.brokers[2].log_directories[0], image.brokers[1].log_directories[0]),
    )
    (answer,), now = alter(image, proposal(image, (1, 2)))
    assert answer.error is ErrorCode.NEW_LEADER_ELECTED
    assert (only(now).leader, only(now).isr, only(now).replicas) == (2, (2,), (2,))
    assert only(now).leader_epoch == only(image).leader_epoch + 1


def test_a_reassignment_that_keeps_the_leader_is_just_accepted():
    image = with_topic(with_brokers([1, 2, 3]), NewTopic("t", assignments={0: [1, 2]}))
    directories = tuple(image.brokers[one].log_directories[0] for one in (1, 3, 2))
    image = changed(
        image,
        replicas=(1, 3, 2),
        adding_replicas=(3,),
        removing_replicas=(2,),
        directories=directories,
    )
    (answer,), now = alter(image, proposal(image, (1, 2, 3)))
    assert (answer.error, answer.isr) == (ErrorCode.NONE, (1, 3))
    assert only(now).replicas == (1, 3)
    assert only(now).leader_epoch == only(image).leader_epoch + 1
