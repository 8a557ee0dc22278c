"""The smaller parts of a group: its coordinator, topics, assignors, requests and listeners."""

from __future__ import annotations

import re

import pytest

from kits.leaks import run_without_leaks
from kits.scripted_broker import FIND_COORDINATOR, HEARTBEAT, ScriptedBroker
from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.client.assignors.interface import Assignment, PartitionAssignor, RebalanceProtocol
from moldau.client.assignors.stateless import RangeAssignor
from moldau.client.assignors.sticky import CooperativeStickyAssignor
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming import listeners
from moldau.client.consuming.distribution import Assignors
from moldau.client.consuming.group_coordinator import GroupCoordinator
from moldau.client.consuming.group_requests import (
    join_request,
    leave_error,
    leave_request,
    sync_request,
)
from moldau.client.consuming.listeners import RebalanceListener
from moldau.client.consuming.steps import Distribute, Join, MemberIdentity, Synchronise
from moldau.client.consuming.subscribed_topics import matching, partition_counts, replica_racks
from moldau.client.errors import ConnectionLost, CorruptAnswer, InvalidState, UnsupportedVersion
from moldau.client.records import TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import BrokerImage, MetadataImage, PartitionImage, TopicImage
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.compiler import decode, encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponseMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)

ME = MemberIdentity("me", 5)
SOME = frozenset({TopicPartition("t", 0)})


# The coordinator


def coordinated(story, **answers):
    async def main():
        async with ScriptedBroker(**answers) as broker:
            settings = ConnectionSettings(bootstrap_servers=broker.address)
            cluster = Cluster(settings, system_ports(settings))
            try:
                await cluster.start()
                await story(broker, cluster, GroupCoordinator(cluster, "g"))
            finally:
                await cluster.close()

    run_without_leaks(main())


@pytest.mark.parametrize(
    ("code", "finds"),
    [
        (ErrorCode.NONE, 1),
        (ErrorCode.REBALANCE_IN_PROGRESS, 1),
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2),
    ],
)
def test_a_coordinator_is_looked_for_again_only_when_it_has_moved(code, finds):
    async def story(broker, cluster, coordinator):
        for _ in range(2):
            answer = await coordinator.ask(HeartbeatRequest("g"), cluster.deadline(5000))
            coordinator.heard(ErrorCode.of(answer.error_code))
        assert len(broker.requests(HEARTBEAT)) == 2
        assert len(broker.requests(FIND_COORDINATOR)) == finds

    coordinated(story, heartbeat=lambda asked: asked.answer(HeartbeatResponse(error_code=code)))


def test_a_coordinator_that_hangs_up_is_looked_for_again():
    async def story(broker, cluster, coordinator):
        with pytest.raises(ConnectionLost):
            await coordinator.ask(HeartbeatRequest("g"), cluster.deadline(5000))
        broker.on("heartbeat", lambda asked: asked.answer(HeartbeatResponse()))
        await coordinator.ask(HeartbeatRequest("g"), cluster.deadline(5000))
        assert len(broker.requests(FIND_COORDINATOR)) == 2

    coordinated(story, heartbeat=lambda asked: asked.writer.transport.abort())


def test_a_broker_too_old_for_what_must_be_said_is_named():
    async def story(broker, cluster, coordinator):
        with pytest.raises(UnsupportedVersion, match="HeartbeatRequest needs version 5"):
            await coordinator.ask(HeartbeatRequest("g"), cluster.deadline(5000), oldest_version=5)
        assert not broker.requests(HEARTBEAT)

    coordinated(story)


# Topics


def image(refusals=None, **topics):
    return MetadataImage(
        brokers={n: BrokerImage(n, Address("h", n), f"rack{n}" if n else None) for n in range(3)},
        topics={
            name: TopicImage.of(
                name,
                b"",
                {n: PartitionImage(n, 0, 0, (n % 3, (n + 1) % 3)) for n in range(count)},
                name.startswith("_"),
            )
            for name, count in topics.items()
        },
        refusals=refusals or {},
    )


def test_a_pattern_means_whole_names_and_leaves_internal_topics_out():
    pattern = re.compile("_?log.")
    there = image(log1=1, log22=1, a_log1=1, _log3=1)
    assert matching(pattern, there, frozenset(), exclude_internal=True) == {"log1"}
    assert matching(pattern, there, frozenset(), exclude_internal=False) == {"log1", "_log3"}


def test_a_topic_that_metadata_cannot_tell_of_for_a_moment_stays_matched():
    pattern, before = re.compile("log."), frozenset({"log1", "log2", "log3"})
    refusals = {
        "log1": ErrorCode.LEADER_NOT_AVAILABLE,
        "log2": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert matching(pattern, image(refusals), before, exclude_internal=True) == {"log1"}


def test_partitions_are_counted_and_those_in_doubt_are_as_before():
    refusals = {"b": ErrorCode.LEADER_NOT_AVAILABLE}
    counts = partition_counts("abc", image(refusals, a=3), {"a": 2, "b": 5, "c": 7})
    assert counts == {"a": 3, "b": 5, "c": 0}


def test_racks_are_those_of_the_replicas():
    racks = replica_racks(["a", "gone"], image(a=3))
    assert racks == {
        "a": (frozenset({"rack1"}), frozenset({"rack1", "rack2"}), frozenset({"rack2"}))
    }


# Assignors


def test_the_way_to_hand_over_is_the_best_that_all_assignors_know():
    both = Assignors([RangeAssignor(), CooperativeStickyAssignor()], "")
    assert both.protocol is RebalanceProtocol.EAGER
    assert both.names == ("range", "cooperative-sticky")
    alone = Assignors([CooperativeStickyAssignor()], "")
    assert alone.protocol is RebalanceProtocol.COOPERATIVE


class OnlyCooperative(RangeAssignor):
    name = "only"
    protocols = (RebalanceProtocol.COOPERATIVE,)


@pytest.mark.parametrize(
    "assignors",
    [[], [RangeAssignor(), RangeAssignor()], [RangeAssignor(), OnlyCooperative()]],
    ids=["none", "twice", "no way in common"],
)
def test_assignors_that_cannot_work_together_are_refused(assignors):
    with pytest.raises(ConfigError):
        Assignors(assignors, "")


def test_what_a_member_sends_the_leader_reads_and_the_other_way_round():
    assignors = Assignors([RangeAssignor()], "rack7")
    ((name, subscription),) = assignors.subscriptions_to_send(
        Join(ME, frozenset({"t", "a"}), SOME, 4, "")
    )
    step = Distribute("range", (JoinGroupResponseMember("me", "one", subscription),), False)
    received = assignors.subscriptions_received(step)
    mine = received["me"]
    assert name == "range"
    assert (list(mine.topics), list(mine.owned_partitions)) == (["a", "t"], list(SOME))
    assert (mine.generation, mine.rack, mine.instance_id) == (4, "rack7", "one")
    sent = assignors.assignments_to_send(step, {"t": [frozenset()]}, received)
    assert assignors.assignment_received(sent["me"]).partitions == tuple(SOME)


def test_who_was_left_out_gets_nothing_and_garbage_is_named():
    assert Assignors.assignment_received(b"") == Assignment()
    with pytest.raises(CorruptAnswer):
        Assignors.assignment_received(b"\0\0\xff\xff\xff")


class Misguided(PartitionAssignor):
    name = "misguided"

    def assign(self, topics, subscriptions):
        return {"stranger": Assignment()}


def test_an_assignor_that_gives_to_strangers_is_stopped():
    with pytest.raises(InvalidState, match="stranger"):
        Assignors([Misguided()], "").assignments_to_send(Distribute("misguided", (), False), {}, {})


# Requests


@pytest.mark.parametrize("version", range(10))
def test_a_join_says_what_its_version_can_say(version):
    settings = ConsumerSettings(group_id="g", group_instance_id="one", max_poll_interval_ms=1234)
    step = Join(ME, frozenset({"t"}), SOME, 4, "r" * 300)
    made = join_request("g", settings, step, [("range", b"data")])
    read = decode(JoinGroupRequest, version, encode(made, version))
    assert (read.member_id, read.protocol_type) == ("me", "consumer")
    assert [(one.name, one.metadata) for one in read.protocols] == [("range", b"data")]
    assert read.rebalance_timeout_ms == (1234 if version else -1)
    assert read.group_instance_id == ("one" if version >= 5 else None)
    assert read.reason == ("r" * 255 if version >= 8 else None)


def test_a_sync_brings_the_assignments():
    made = sync_request("g", None, Synchronise(ME, "range", {"me": b"all"}))
    read = decode(SyncGroupRequest, 5, encode(made, 5))
    assert (read.generation_id, read.member_id, read.protocol_name) == (5, "me", "range")
    assert [(one.member_id, one.assignment) for one in read.assignments] == [("me", b"all")]


@pytest.mark.parametrize("version", range(6))
def test_a_goodbye_names_its_member_in_every_version(version):
    made = leave_request("g", None, ME, "done")
    read = decode(LeaveGroupRequest, version, encode(made, version))
    leaving = read if version < 3 else read.members[0]
    assert leaving.member_id == "me"
    if version >= 5:
        assert leaving.reason == "done"


def test_a_refused_goodbye_is_found_wherever_it_stands():
    code = ErrorCode.UNKNOWN_MEMBER_ID
    assert leave_error(LeaveGroupResponse()) is ErrorCode.NONE
    assert leave_error(LeaveGroupResponse(error_code=code)) is code
    members = [LeaveGroupMemberResponse("me", None, code)]
    assert leave_error(LeaveGroupResponse(members=members)) is code


# Listeners


class Partial:
    def __init__(self):
        self.told = []

    def on_partitions_revoked(self, partitions):
        self.told.append(partitions)


def test_a_listener_is_told_what_it_has_ears_for():
    listener = Partial()
    assert listeners.assigned(listener, SOME) is None
    assert listeners.revoked(None, SOME) is None
    listeners.revoked(listener, SOME)()
    assert listener.told == [SOME]


def test_who_has_no_word_for_lost_hears_revoked():
    for listener in (Partial(), type("Whole", (Partial, RebalanceListener), {})()):
        listeners.lost(listener, SOME)()
        assert listener.told == [SOME]
