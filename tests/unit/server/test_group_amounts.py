"""Requests about groups that repeat themselves, or that make much work or a large answer."""

from __future__ import annotations

import asyncio

import pytest

from kits.group_handler_kit import ELSEWHERE, LOADING, Broker, list_groups
from kits.group_shard_kit import (
    commit_request,
    errors,
    join_request,
    transactional_request,
)
from kits.request_kit import context
from kits.slicing import count_pauses, count_turns, finished
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    ListGroupsRequest,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.server.network.answer_room import AnswerRoom

VERSIONS = {"commit": 9, "commit_in_transaction": 3, "delete": 0}
"""Handlers that change offsets, and a version of their APIs."""


@pytest.fixture
def broker():
    return Broker()


def committed(broker, count):
    """Commit to so many partitions of one topic, past the metadata."""
    request = commit_request()
    request.topics[0].partitions = [OffsetCommitRequestPartition(i, 5) for i in range(count)]
    broker.served.commit(request)


class TestRepeats:
    """What one request names again and again."""

    def test_a_group_is_described_once(self, broker):
        broker.served.commit(commit_request())
        request = DescribeGroupsRequest(["g", "nobody"] * 1000)
        groups = broker.groups.describe_groups(request, context(5)).groups
        assert [one.group_id for one in groups] == ["g", "nobody"]

    def test_all_offsets_of_a_group_are_told_once(self, broker):
        committed(broker, 3)
        some = OffsetFetchRequestTopics("orders", partition_indexes=[0, 1] * 1000)
        one = OffsetFetchRequestGroup("g", topics=[some] * 10)
        for wanted, told in (
            ([one] * 10, [0, 1]),
            ([one, OffsetFetchRequestGroup("g", topics=None)], [0, 1, 2]),
        ):
            (group,) = broker.fetch(OffsetFetchRequest(groups=wanted), context(8)).groups
            (topic,) = group.topics
            assert [partition.partition_index for partition in topic.partitions] == told

    @pytest.mark.parametrize("transactional", [False, True])
    def test_of_several_offsets_of_a_partition_the_last_is_kept(self, broker, transactional):
        request = transactional_request() if transactional else commit_request()
        (topic,) = request.topics
        (first,) = topic.partitions
        last = type(first)(0, 77)
        request.topics = [type(topic)(topic.name, topic.topic_id, [first, last])] * 1000
        if transactional:
            response = broker.offsets.commit_in_transaction(request, context(3))
        else:
            response = broker.offsets.commit(request, context(9))
            assert broker.served.offset() == (77, 0)
        assert errors(response) == [0]

    def test_an_offset_is_deleted_once(self, broker):
        broker.served.commit(commit_request(4))
        wanted = [OffsetDeleteRequestPartition(index) for index in (0, 9)] * 1000
        request = OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("orders", wanted)] * 10)
        response = broker.offsets.delete(request, context(0))
        assert sorted(errors(response)) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


class TestAmounts:
    """Work and answers that grow with what a request names, or with what a shard holds."""

    def test_members_may_be_paused_at_each_one_and_must_fit_into_the_answer(
        self, broker, monkeypatch
    ):
        async def join():
            for number in range(50):
                broker.groups.join(join_request(group_instance_id=str(number)), context(5))

        asyncio.run(join())
        request = DescribeGroupsRequest(["g"])
        assert count_pauses(broker.groups.handlers.describe_groups(request, context(5))) >= 50
        monkeypatch.setattr("moldau.server.handlers.groups.AnswerRoom", lambda: AnswerRoom(500))
        (group,) = broker.groups.describe_groups(request, context(6)).groups
        assert (group.error_code, group.members) == (ErrorCode.POLICY_VIOLATION, [])

    def test_groups_that_do_not_fit_into_a_list_are_an_error(self, broker, monkeypatch):
        broker.served.commit(commit_request())
        monkeypatch.setattr("moldau.server.handlers.groups.AnswerRoom", lambda: AnswerRoom(10))
        assert list_groups(broker).error_code == ErrorCode.POLICY_VIOLATION

    def test_groups_are_listed_in_turns(self, broker):
        for number in range(1000):
            broker.served.commit(commit_request(group=f"g{number}"))
        listing = broker.groups.list_groups(ListGroupsRequest(), context(5))
        assert asyncio.run(count_turns(listing)) >= 10

    def test_offsets_may_be_paused_at_each_one_and_must_fit_into_the_answer(
        self, broker, monkeypatch
    ):
        committed(broker, 50)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        assert count_pauses(broker.fetch.handlers(request, context(8))) >= 50
        monkeypatch.setattr(
            "moldau.server.handlers.offset_fetch.AnswerRoom", lambda: AnswerRoom(500)
        )
        (group,) = broker.fetch(request, context(8)).groups
        assert (group.error_code, group.topics) == (ErrorCode.POLICY_VIOLATION, [])

    def test_offsets_are_those_of_the_moment_they_were_asked_for(self, broker):
        committed(broker, 3)
        work = broker.fetch.handlers(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), context(8)
        )
        next(work)
        broker.served.commit(commit_request(99))
        (topic,) = finished(work).groups[0].topics
        assert [one.committed_offset for one in topic.partitions] == [5, 5, 5]

    def test_more_offsets_than_a_batch_can_hold_are_refused(self, broker, monkeypatch):
        monkeypatch.setattr("moldau.server.handlers.group_offsets.OFFSETS_PER_REQUEST", 0)
        too_large = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        assert errors(broker.offsets.commit(commit_request(), context(9))) == [too_large]
        request = transactional_request()
        assert errors(broker.offsets.commit_in_transaction(request, context(3))) == [too_large]
        request = OffsetDeleteRequest(
            "g", [OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])]
        )
        response = broker.offsets.delete(request, context(0))
        assert response.error_code == ErrorCode.INVALID_REQUEST

    def test_many_members_leave_some_at_a_time(self, broker):
        strangers = [LeaveGroupMember(f"m{number}") for number in range(1_700)]
        request = LeaveGroupRequest("g", members=strangers)
        assert count_pauses(broker.groups.handlers.leave(request, context(5))) == 4
        left = broker.groups.leave(request, context(5))
        assert [one.member_id for one in left.members] == [one.member_id for one in strangers]
        broker.runtime.refusal = LOADING
        assert broker.groups.leave(request, context(5)).error_code == LOADING

    def test_a_member_with_a_thousand_assignors_is_not_one(self, broker):
        request = join_request()
        request.protocols = [JoinGroupRequestProtocol(str(n)) for n in range(1_001)]
        refused = broker.groups.join(request, context(5))
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_filters_are_read_in_turns(self, broker):
        request = ListGroupsRequest([f"state {number}" for number in range(2_560)], ["CLASSIC"])
        listing = broker.groups.list_groups(request, context(5))
        assert asyncio.run(count_turns(listing)) >= 10


class TestParts:
    """Commits and deletions of more offsets than one batch takes: here that is two."""

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch, broker):
        monkeypatch.setattr("moldau.server.handlers.group_offsets.OFFSETS_PER_BATCH", 2)
        monkeypatch.setattr("moldau.server.handlers.group_offsets.OFFSETS_PER_PART", 1)
        for topic in ("orders", "payments"):
            for partition in (0, 1):
                broker.served.commit(commit_request(topic=topic, partition=partition))

    @pytest.mark.parametrize("kind", sorted(VERSIONS))
    def test_few_offsets_are_one_batch(self, broker, kind):
        before = len(broker.served.batches)
        assert errors(finished(change(broker, kind, ["orders"]))) == [0, 0]
        assert len(broker.served.batches) - before == 1

    @pytest.mark.parametrize("kind", sorted(VERSIONS))
    def test_many_are_a_part_at_a_time_and_one_answer(self, broker, kind):
        work = change(broker, kind, ["orders", "payments"])
        before = len(broker.served.batches)
        seen = {0}
        try:
            while True:
                next(work)
                seen.add(len(broker.served.batches) - before)
        except StopIteration as end:
            response = end.value
        assert seen == {0, 1, 2, 3}
        assert [(one.name, len(one.partitions)) for one in response.topics] == [
            ("orders", 2),
            ("payments", 2),
        ]
        assert errors(response) == [0] * 4
        assert len(broker.served.batches) - before == 4

    @pytest.mark.parametrize("kind", ["commit", "commit_in_transaction"])
    def test_a_shard_that_moves_between_two_parts_refuses_the_rest(self, broker, kind):
        work = first_part_done(broker, kind)
        broker.runtime.refusal = ELSEWHERE
        assert errors(finished(work)) == [0, *[ELSEWHERE] * 3]

    def test_a_marker_between_two_parts_refuses_the_rest(self, broker):
        work = first_part_done(broker, "commit_in_transaction")
        broker.markers += 1
        assert errors(finished(work)) == [0, *[LOADING] * 3]


def change(broker, kind, topics):
    """Ask for both partitions of these topics in one request; return the work it makes."""
    if kind == "delete":
        partitions = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)]
        request = OffsetDeleteRequest(
            "g", [OffsetDeleteRequestTopic(name, partitions) for name in topics]
        )
    else:
        make = commit_request if kind == "commit" else transactional_request
        request = make()
        (topic,) = request.topics
        (one,) = topic.partitions
        partitions = [type(one)(index, 5) for index in (0, 1)]
        request.topics = [type(topic)(name, topic.topic_id, partitions) for name in topics]
    return getattr(broker.offsets.handlers, kind)(request, context(VERSIONS[kind]))


def first_part_done(broker, kind):
    """Begin a commit of four offsets, and return the rest of it behind the first one."""
    work = change(broker, kind, ["orders", "payments"])
    before = len(broker.served.batches)
    while len(broker.served.batches) == before:
        next(work)
    return work
