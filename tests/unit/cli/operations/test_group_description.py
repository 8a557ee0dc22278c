"""How far groups are in the partitions that they read."""

from __future__ import annotations

import asyncio

from moldau.cli.operations.group_description import describe_progress
from moldau.client.admin import GroupDescription, ListedOffset, MemberDescription, Results
from moldau.client.errors import CoordinatorNotAvailable, LeaderNotAvailable
from moldau.client.records import OffsetAndMetadata, TopicPartition

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))


class FakeAdmin:
    """Partitions that end at 10; the third has no leader."""

    def __init__(self, committed, errors=()):
        self._committed = committed
        self._errors = dict(errors)

    async def list_offsets_of_groups(self, group_ids):
        return Results({name: self._committed[name] for name in group_ids}, self._errors)

    async def list_offsets(self, specs):
        found = {one: ListedOffset(10, None, None) for one in specs if one != THIRD}
        failed = {one: LeaderNotAvailable("no leader") for one in specs if one == THIRD}
        return Results(found, failed)


def member(name, *partitions):
    return MemberDescription(name, None, name, "/h", frozenset({"t"}), frozenset(partitions))


def group(name, *members):
    return GroupDescription(name, "classic", "consumer", "Stable", "range", 1, members)


def described(committed, *members):
    admin = FakeAdmin({"g": committed})
    found = asyncio.run(describe_progress(admin, {"g": group("g", *members)}))
    return [
        (one.partition.partition, one.member.member_id if one.member else None, one.end, one.lag)
        for one in found.ok["g"]
    ]


def test_members_come_before_partitions_that_nobody_reads():
    committed = {FIRST: OffsetAndMetadata(4), SECOND: OffsetAndMetadata(10)}
    assert described(committed, member("a", SECOND)) == [(1, "a", 10, 0), (0, None, 10, 6)]


def test_a_partition_may_have_no_offset_and_no_end():
    assert described({THIRD: OffsetAndMetadata(4)}, member("a", FIRST)) == [
        (0, "a", 10, None),
        (2, None, None, None),
    ]


def test_each_member_of_a_shared_partition_is_told():
    assert described({}, member("a", FIRST), member("b", FIRST)) == [
        (0, "a", 10, None),
        (0, "b", 10, None),
    ]


def test_a_truncated_log_has_a_negative_lag():
    assert described({FIRST: OffsetAndMetadata(12)}) == [(0, None, 10, -2)]


def test_a_group_whose_offsets_are_not_there_is_an_error():
    admin = FakeAdmin({}, {"g": CoordinatorNotAvailable("not now")})
    found = asyncio.run(describe_progress(admin, {}))
    assert list(found.errors) == ["g"]
    assert not found.ok
