"""What a leader answers its followers: what they read, what it notes, when they are woken."""

from __future__ import annotations

import asyncio

import pytest

from kits.fetch_kit import FAR
from kits.led_partitions import BOTH, THIRD, LedPartitions
from kits.log_kit import sized_batch
from kits.partition_kit import ME, OTHER
from kits.request_kit import context, session
from kits.slicing import finished
from moldau.base.ids import PartitionKey, TopicId
from moldau.observe.requests import RequestMetrics
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from moldau.replication.partition import Role
from moldau.security.authorizer import Authorizer
from moldau.server.fetch.sessions import SESSIONS_PER_FOLLOWER

IDS = {name: TopicId(bytes([number] * 16)) for number, name in enumerate("abc", 1)}


class Leader(LedPartitions):
    """The handler of Fetch over partitions that other brokers follow."""

    def __init__(self, *names, role=BOTH, slots=10):
        topic_ids = {PartitionKey(name, 0): IDS[name] for name in names or ("a",)}
        super().__init__(topic_ids, RequestMetrics().of("Fetch"), role=role, slots=slots)

    def __getitem__(self, name):
        return self.partitions.get(name, 0)

    def noted(self, name="a", broker_id=OTHER):
        """What the partition knows of a follower: its end, its log start, when it fetched."""
        follower = self[name]._leading.followers[broker_id]
        if not follower.has_fetched:
            return None
        return follower.end_offset, follower.log_start_offset, follower._fetched_s

    def caught_up_s(self):
        """When the follower had everything, as far as the leader knows."""
        return self["a"]._leading.followers[OTHER].caught_up_s

    def append(self, name="a", batch=None):
        return self.append_to(self[name], batch)

    def fetch(
        self, wanted=None, *, replica=OTHER, epoch=5, broker_epoch=7, last_epoch=-1,
        session_id=0, session_epoch=-1, wait_ms=0, version=17, max_bytes=FAR, forget=(),
        listener="BROKERS", **options,
    ):  # fmt: skip
        """Ask as a follower; `wanted` says by topic from where."""
        topics = [
            FetchTopic(name, IDS[name], [FetchPartition(0, epoch, offset, last_epoch, 0, FAR)])
            for name, offset in ({"a": 0} if wanted is None else wanted).items()
        ]
        request = FetchRequest(
            replica_id=replica,
            replica_state=FetchReplicaState(replica, broker_epoch),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=[ForgottenTopic(name, IDS[name], [0]) for name in forget],
        )
        asker = session(listener=listener)
        return finished(self.handler(request, context(version, asker=asker, **options)))


def only(response):
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def size(partition):
    return sum(region.size for region in partition.records or ())


# What is read


def test_a_follower_reads_to_the_end_of_the_log_and_hears_the_leaders_figures():
    leader = Leader()
    leader.append(batch=sized_batch(300))
    answer = only(leader.fetch())
    assert size(answer) == 300
    assert (answer.high_watermark, answer.log_start_offset) == (0, 0)
    assert answer.aborted_transactions is None


def test_a_fetch_from_the_end_moves_the_high_watermark_before_it_is_answered():
    leader = Leader()
    leader.append()
    assert only(leader.fetch({"a": 1})).high_watermark == 1


@pytest.mark.parametrize("version", [12, 14, 15, 18])
def test_the_replica_is_named_in_two_places_by_version(version):
    leader = Leader()
    leader.append()
    answer = only(leader.fetch({"a": 1}, version=version))
    assert answer.error_code == ErrorCode.NONE
    assert leader.noted() == (1, 0, leader.clock.monotonic())


def test_offsets_are_told_also_where_an_answer_has_no_more_room():
    leader = Leader("a", "b")
    for name in "ab":
        leader.append(name, sized_batch(300))
        leader.append(name, sized_batch(300))
    response = leader.fetch({"a": 1, "b": 1}, max_bytes=300)
    assert [size(topic.partitions[0]) for topic in response.responses] == [300, 0]
    assert leader.noted("b") == (1, 0, leader.clock.monotonic())


def test_a_partition_without_room_is_in_a_later_answer_of_the_session():
    leader = Leader("a", "b")
    for name in "ab":
        leader.append(name, sized_batch(300))
    first = leader.fetch({"a": 0, "b": 0}, max_bytes=300, session_epoch=0)
    second = leader.fetch({}, max_bytes=300, session_id=first.session_id, session_epoch=1)
    assert [topic.topic_id for topic in second.responses if size(topic.partitions[0])] == [IDS["b"]]


# Where logs part


def test_a_log_that_went_another_way_is_told_where_and_is_given_nothing():
    leader = Leader()
    leader["a"].become_leader(Role(ME, 6, 2, (ME, OTHER), (ME, OTHER)), 0.0)
    leader.append()
    leader.append()
    answer = only(leader.fetch({"a": 4}, epoch=6, last_epoch=6))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (6, 2)
    assert answer.error_code == ErrorCode.NONE
    assert size(answer) == 0
    assert leader.noted() is None


def test_below_the_start_of_the_log_nothing_is_said_of_epochs():
    leader = Leader()
    for _ in range(4):
        leader.append()
    leader["a"].log.delete_records_before(3)
    answer = only(leader.fetch({"a": 1}, last_epoch=4))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.diverging_epoch.epoch == -1


# Who is refused


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": THIRD}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": THIRD, "epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica": 2**31 - 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": ME}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"broker_epoch": 6}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"wanted": {"a": 2}}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"wanted": {"a": -1}}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"wanted": {"a": 2**63 - 1}}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"wanted": {"b": 0}}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"last_epoch": 9}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"listener": "CLIENTS"}, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_fetch_that_cannot_be_a_followers_gets_kafkas_error(asked, error):
    leader = Leader()
    leader.append()
    answer = only(leader.fetch(**asked))
    assert ErrorCode(answer.error_code) is error
    assert size(answer) == 0
    assert leader.noted() is None
    assert leader["a"].high_watermark == 0


def test_a_follower_needs_the_permission_of_brokers():
    class Deny(Authorizer):
        def allows(self, *_):
            return False

    leader = Leader()
    answer = only(leader.fetch(authorizer=Deny()))
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_partition_that_is_not_led_here_has_no_followers():
    leader = Leader()
    leader["a"].become_follower(Role(OTHER, 6, 2, (ME, OTHER), (ME, OTHER)))
    assert only(leader.fetch(epoch=6)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_consumer_is_no_follower_whatever_its_listener():
    leader = Leader()
    leader.append()
    answer = only(leader.fetch(replica=-1, epoch=-1, listener="CLIENTS"))
    assert answer.error_code == ErrorCode.NONE
    assert size(answer) == 0  # it is not committed
    assert leader.noted() is None


# Waiting


def parked(leader, **asked):
    """Begin a session and park its second request."""
    first = leader.fetch(session_epoch=0, **asked)
    leader.clock.now_ms += 1000
    return first.session_id, leader.fetch(
        {}, session_id=first.session_id, session_epoch=1, wait_ms=60_000
    )


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_an_append_wakes_a_follower_and_nothing_is_noted_by_it():
    async def work():
        leader = Leader()
        _, waiting = parked(leader)
        assert leader.parked.count == 1
        before = leader.noted()
        leader.clock.now_ms += 100
        leader.append(batch=sized_batch(300))
        assert size(only(await waiting)) == 300
        assert leader.parked.count == 0
        assert leader.noted() == before

    asyncio.run(work())


def test_a_newer_high_watermark_alone_does_not_wake_a_follower_but_is_told_with_the_next_answer():
    async def work():
        leader = Leader(role=Role(ME, 5, 1, (ME, OTHER, THIRD), (ME, OTHER, THIRD)))
        leader.append()
        session_id, waiting = parked(leader, wanted={"a": 1})
        leader.fetch({"a": 1}, replica=THIRD)
        assert leader["a"].high_watermark == 1
        await turns()
        assert not waiting.done()
        leader.append()
        assert only(await waiting).high_watermark == 1
        assert session_id

    asyncio.run(work())


def test_a_high_watermark_that_moved_while_nobody_waited_is_told():
    leader = Leader(role=Role(ME, 5, 1, (ME, OTHER, THIRD), (ME, OTHER, THIRD)))
    leader.append()
    first = leader.fetch({"a": 1}, session_epoch=0)
    again = {"session_id": first.session_id}
    assert leader.fetch({}, session_epoch=1, **again).responses == []
    leader.fetch({"a": 1}, replica=THIRD)
    assert only(leader.fetch({}, session_epoch=2, **again)).high_watermark == 1
    assert leader.fetch({}, session_epoch=3, **again).responses == []


def test_a_follower_that_truncated_its_log_is_told_the_high_watermark_again():
    """It took no notice of the figures beside the end of its epoch."""
    leader = Leader(role=Role(ME, 5, 1, (ME, OTHER), (ME,)))
    leader.append()
    first = leader.fetch({"a": 4}, last_epoch=5, session_epoch=0)
    assert only(first).diverging_epoch.end_offset == 1
    assert only(first).high_watermark == 1
    again = {"session_id": first.session_id}
    answer = only(leader.fetch({"a": 1}, last_epoch=5, session_epoch=1, **again))
    assert (answer.high_watermark, size(answer)) == (1, 0)
    assert leader.fetch({}, session_epoch=2, **again).responses == []


def test_a_follower_is_told_the_high_watermark_again_in_another_epoch():
    """An answer in the old epoch, which it may have dropped, does not count."""
    leader = Leader(role=Role(ME, 5, 1, (ME, OTHER), (ME,)))
    leader.append()
    first = leader.fetch({"a": 1}, last_epoch=5, session_epoch=0)
    assert only(first).high_watermark == 1
    leader["a"].become_leader(Role(ME, 6, 2, (ME, OTHER), (ME,)), 0.0)
    again = {"session_id": first.session_id, "epoch": 6, "last_epoch": 5}
    assert only(leader.fetch({"a": 1}, session_epoch=1, **again)).high_watermark == 1
    assert leader.fetch({}, session_epoch=2, **again).responses == []


@pytest.mark.parametrize(
    ("role", "error"),
    [
        (Role(ME, 6, 2, (ME, OTHER), (ME, OTHER)), ErrorCode.FENCED_LEADER_EPOCH),
        (Role(OTHER, 6, 2, (ME, OTHER), (ME, OTHER)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_another_role_ends_the_wait(role, error):
    async def work():
        leader = Leader()
        _, waiting = parked(leader)
        if role.leader == ME:
            leader["a"].become_leader(role, 0.0)
        else:
            leader["a"].become_follower(role)
        assert ErrorCode(only(await waiting).error_code) is error

    asyncio.run(work())


# Quiet partitions


def test_a_quiet_partition_is_not_looked_at_and_its_follower_counts_as_level_when_it_grows():
    leader = Leader()
    began_s = leader.clock.monotonic()
    first = leader.fetch(session_epoch=0)
    for number in range(1, 4):
        leader.clock.now_ms += 60_000
        leader.fetch({}, session_id=first.session_id, session_epoch=number)
    assert leader.noted() == (0, 0, began_s)
    assert leader.caught_up_s() == began_s
    leader.clock.now_ms += 500
    leader.append()
    leader.clock.now_ms += 500
    leader.append()
    assert leader.caught_up_s() == leader.clock.monotonic() - 1


def test_a_good_follower_of_a_quiet_partition_stays_in_sync_when_the_log_grows():
    leader = Leader()
    first = leader.fetch(session_epoch=0)
    for number in range(1, 4):
        leader.clock.now_ms += 60_000
        leader.fetch({}, session_id=first.session_id, session_epoch=number)
    leader.append()
    leader["a"].shrink_isr(leader.clock.monotonic())
    assert leader.proposals == []
    leader.clock.now_ms += 31_000
    leader["a"].shrink_isr(leader.clock.monotonic())
    assert [proposal.isr for _, proposal in leader.proposals] == [(ME,)]


def test_a_follower_that_is_behind_does_not_count_as_level_when_the_log_grows():
    leader = Leader()
    began_s = leader.clock.monotonic()
    leader.append()
    first = leader.fetch(session_epoch=0)
    leader.clock.now_ms += 60_000
    leader.fetch({}, session_id=first.session_id, session_epoch=1)
    leader.append()
    assert leader.caught_up_s() == began_s


def test_a_follower_that_is_not_in_sync_is_noted_with_every_fetch():
    leader = Leader(role=Role(ME, 5, 1, (ME, OTHER), (ME,)))
    first = leader.fetch(session_epoch=0)
    leader.clock.now_ms += 1000
    leader.fetch({}, session_id=first.session_id, session_epoch=1)
    assert leader.noted() == (0, 0, leader.clock.monotonic())


def test_a_forgotten_partition_is_watched_no_more():
    leader = Leader()
    first = leader.fetch(session_epoch=0)
    assert leader["a"]._end_watchers
    leader.fetch({}, session_id=first.session_id, session_epoch=1, forget=["a"])
    assert not leader["a"]._end_watchers
    assert not leader["a"]._watchers


# Sessions


def test_a_session_belongs_to_the_follower_that_began_it():
    leader = Leader()
    first = leader.fetch(session_epoch=0)
    for replica in (THIRD, -1):
        answer = leader.fetch({}, replica=replica, session_id=first.session_id, session_epoch=1)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert leader.fetch({}, session_id=first.session_id, session_epoch=1).error_code == 0


def test_a_session_epoch_that_was_never_given_ends_the_talk():
    leader = Leader()
    first = leader.fetch(session_epoch=0)
    answer = leader.fetch({}, session_id=first.session_id, session_epoch=9)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_follower_takes_the_slot_of_the_consumer_that_was_quiet_longest():
    async def work():
        leader = Leader(slots=2)
        quiet, busy = (leader.sessions.open(0, 0) for _ in range(2))
        leader.sessions.open(quiet.id, 1)
        leader.sessions.open(busy.id, 1)
        assert leader.fetch(session_epoch=0).session_id
        assert leader.sessions.open(busy.id, 2) is busy
        assert len(leader.sessions) == 2

    asyncio.run(work())


def test_consumers_and_other_followers_do_not_take_a_followers_slot():
    async def work():
        leader = Leader(slots=1, role=Role(ME, 5, 1, (ME, OTHER, THIRD), (ME,)))
        first = leader.fetch(session_epoch=0)
        assert not leader.sessions.open(0, 0).kept
        assert not leader.fetch(replica=THIRD, session_epoch=0).session_id
        assert leader.fetch({}, session_id=first.session_id, session_epoch=1).error_code == 0
        leader.clock.now_ms += 121_000
        assert leader.sessions.open(0, 0).kept

    asyncio.run(work())


@pytest.mark.parametrize("asked", [{"listener": "CLIENTS"}, {"replica": 99}])
def test_who_only_poses_as_a_follower_takes_no_slot(asked):
    async def work():
        leader = Leader(slots=1)
        consumer = leader.sessions.open(0, 0)
        answer = leader.fetch(session_epoch=0, **asked)
        assert answer.session_id == 0
        assert only(answer).error_code != ErrorCode.NONE
        answer = leader.fetch(session_id=consumer.id, session_epoch=1, **asked)
        assert only(answer).error_code != ErrorCode.NONE
        assert leader.sessions.open(consumer.id, 1) is consumer

    asyncio.run(work())


def test_a_follower_that_opens_many_sessions_loses_its_own_oldest():
    async def work():
        leader = Leader(slots=SESSIONS_PER_FOLLOWER + 1)
        consumer = leader.sessions.open(0, 0)
        first = leader.fetch(session_epoch=0)
        for _ in range(2 * SESSIONS_PER_FOLLOWER):
            assert leader.fetch(session_epoch=0).session_id
        assert len(leader.sessions) == SESSIONS_PER_FOLLOWER + 1
        assert leader.sessions.open(consumer.id, 1) is consumer
        answer = leader.fetch({}, session_id=first.session_id, session_epoch=1)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    asyncio.run(work())
