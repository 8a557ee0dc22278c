"""The state machine of a broker: fenced, in service, shutting down, stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import decided, directory_id, with_brokers, with_topic
from moldau.cluster.changes import BrokerChanged
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer, answer_heartbeat
from moldau.cluster.model import NO_LEADER
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode

FENCED, SERVES, LEAVES = "fenced", "in service", "shutting down"


def cluster(state, *, leads=True, directories=None):
    """Brokers 1 and 2; broker 1 is in this state, and may lead the only partition."""
    replicas = [1, 2] if leads else [2, 1]
    image = with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: replicas}))
    broker = replace(
        image.brokers[1],
        fenced=state is FENCED,
        in_controlled_shutdown=state is LEAVES,
        log_directories=directories or (directory_id(1),),
    )
    return replace(image, brokers={**image.brokers, 1: broker})


def beat(image, *, seen=False, behind=False, **wants):
    """The answer to a heartbeat of broker 1, and the image after it."""
    broker = image.brokers[1]
    offset = broker.epoch - 1 if behind else image.version - 1
    steps = answer_heartbeat(
        image, Heartbeat(1, broker.epoch, offset, **wants), is_shutdown_seen=seen
    )
    return decided(image, steps)


FENCE, STOP = {"want_fence": True}, {"want_shut_down": True}


@pytest.mark.parametrize(
    ("state", "leads", "asked", "following", "stops"),
    [
        (FENCED, False, {}, SERVES, False),
        (FENCED, False, {"behind": True}, FENCED, False),
        (FENCED, False, FENCE, FENCED, False),
        (FENCED, False, STOP, FENCED, True),
        (FENCED, False, FENCE | STOP, FENCED, True),
        (SERVES, True, {}, SERVES, False),
        (SERVES, True, {"behind": True}, SERVES, False),
        (SERVES, True, FENCE, FENCED, False),
        (SERVES, True, FENCE | STOP, FENCED, True),
        (SERVES, True, STOP, LEAVES, False),
        (SERVES, False, STOP, FENCED, True),
        (LEAVES, True, {"seen": True}, LEAVES, False),
        (LEAVES, False, {}, LEAVES, False),
        (LEAVES, False, FENCE | STOP, LEAVES, False),
        (LEAVES, False, {"seen": True}, FENCED, True),
        (LEAVES, False, STOP | {"seen": True}, FENCED, True),
    ],
)
def test_the_next_state_is_kafkas(state, leads, asked, following, stops):
    answer, image = beat(cluster(state, leads=leads), **asked)
    is_caught_up = not asked.get("behind", False)
    assert answer == HeartbeatAnswer(is_caught_up, following is FENCED, stops)
    broker = image.brokers[1]
    assert broker.fenced == (following is FENCED)
    if following is LEAVES:
        assert broker.in_controlled_shutdown


def test_leaving_moves_leaders_at_once():
    _, image = beat(cluster(SERVES), want_shut_down=True)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))


def test_the_last_one_leaves_its_partitions_without_a_leader():
    image = with_topic(with_brokers([1]), NewTopic("t", 1, 1))
    _, image = beat(image, want_shut_down=True)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (NO_LEADER, (), (1,))
    answer, image = beat(image, seen=True, want_shut_down=True)
    assert answer.should_shut_down
    assert image.brokers[1].fenced


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 77), (9, 0)])
def test_another_epoch_is_stale(broker_id, epoch):
    heartbeat = Heartbeat(broker_id, epoch, 0)
    with pytest.raises(ApiError) as refused:
        next(answer_heartbeat(cluster(SERVES), heartbeat, is_shutdown_seen=False))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_failed_directory_takes_its_replicas_along():
    both = directory_id(1), b"e" * 16
    answer, image = beat(cluster(SERVES, directories=both), offline_directories=both[:1])
    assert not answer.is_fenced
    assert image.brokers[1].log_directories == both[1:]
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    again, same = beat(image, offline_directories=both[:1])
    assert (again, same) == (answer, image)


def test_a_broker_that_fails_and_wants_more_is_answered_in_two_steps():
    both = directory_id(1), b"e" * 16
    image = cluster(FENCED, directories=both)
    answer, image = beat(image, offline_directories=both[1:])
    assert answer.is_fenced
    answer, image = beat(image, offline_directories=both[1:])
    assert not answer.is_fenced


def test_without_any_directory_a_broker_is_not_in_service():
    answer, image = beat(cluster(SERVES), offline_directories=(directory_id(1),))
    assert answer == HeartbeatAnswer(True, True, False)
    assert image.topics["t"].partitions[0].leader == 2
    answer, after_it = beat(image, offline_directories=(directory_id(1),))
    assert (answer.is_fenced, after_it) == (True, image)
    answer, _ = beat(image, offline_directories=(directory_id(1),), want_shut_down=True)
    assert answer.should_shut_down


def test_a_broker_whose_directories_are_not_known_is_in_service():
    """Metadata of older levels does not tell them."""
    image = cluster(FENCED)
    broker = replace(image.brokers[1], log_directories=())
    image = replace(image, brokers={**image.brokers, 1: broker})
    answer, image = beat(image)
    assert not answer.is_fenced
    assert not beat(image)[0].is_fenced


def test_a_broker_that_lost_all_directories_is_not_eligible():
    wanted = NewTopic("t", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"})
    image = with_topic(with_brokers([1, 2]), wanted)
    _, left = beat(image, offline_directories=(directory_id(1),))
    assert left.topics["t"].partitions[0].eligible_leaders == ()
    _, left = beat(image, want_fence=True)
    assert left.topics["t"].partitions[0].eligible_leaders == (1,)
    _, left = beat(left, offline_directories=(directory_id(1),))
    assert left.topics["t"].partitions[0].eligible_leaders == ()


def test_cordoned_directories_are_noted_once():
    image = replace(cluster(SERVES), features={"metadata.version": 30})
    own = (directory_id(1),)
    answer, cordoned = beat(image, cordoned_directories=own)
    assert not answer.is_fenced
    assert cordoned.brokers[1] == replace(image.brokers[1], cordoned_log_directories=own)
    assert cordoned.topics == image.topics
    assert beat(cordoned, cordoned_directories=own)[1] == cordoned
    assert beat(cordoned)[1] == cordoned
    _, free = beat(cordoned, cordoned_directories=())
    assert free.brokers[1].cordoned_log_directories == ()
    # A broker that has never had any writes no record.
    assert beat(image, cordoned_directories=())[1] == image
    older = replace(image, features={"metadata.version": 29})
    assert beat(older, cordoned_directories=own)[1] == older


def test_fencing_is_recorded_after_the_partitions():
    image = cluster(SERVES)
    heartbeat = Heartbeat(1, image.brokers[1].epoch, 0, want_fence=True)
    changes = list(answer_heartbeat(image, heartbeat, is_shutdown_seen=False))
    assert changes[-1] == BrokerChanged(1, image.brokers[1].epoch, fenced=True)
