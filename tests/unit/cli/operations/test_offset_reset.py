"""The plan of an offset reset: which groups allow one, and what would change."""

from __future__ import annotations

import asyncio

import pytest

from moldau.cli.operations.offset_reset import (
    GroupActivity,
    Move,
    activities_of,
    committed_offsets,
    plan_reset,
)
from moldau.cli.operations.positions import Position, PositionKind
from moldau.client.admin import (
    GroupDescription,
    ListedOffset,
    MemberDescription,
    OffsetSpec,
    Results,
)
from moldau.client.errors import CoordinatorNotAvailable, GroupIdNotFound
from moldau.client.records import OffsetAndMetadata, TopicPartition

FIRST, SECOND, THIRD = (TopicPartition("t", number) for number in range(3))


class FakeAdmin:
    """Partitions from 10 to 20; a record of time 500 is at offset 13, and none is younger."""

    def __init__(self, groups=(), errors=()):
        self._groups = {one.group_id: one for one in groups}
        self._errors = dict(errors)

    async def describe_groups(self, group_ids):
        named = set(group_ids)
        return Results(
            {name: one for name, one in self._groups.items() if name in named},
            {name: one for name, one in self._errors.items() if name in named},
        )

    async def list_group_offsets(self, group_id):
        assert group_id == "g"
        return {FIRST: OffsetAndMetadata(12), SECOND: OffsetAndMetadata(30)}

    async def list_offsets(self, specs):
        known = {OffsetSpec.EARLIEST: 10, OffsetSpec.LATEST: 20, 500: 13}
        return Results(
            {one: ListedOffset(known.get(spec), None, None) for one, spec in specs.items()}, {}
        )


def group(name, state, *members):
    return GroupDescription(name, "classic", "consumer", state, "range", 1, members)


def member(name):
    return MemberDescription(name, None, "client", "/host", frozenset(), frozenset())


def test_groups_without_members_can_be_reset():
    admin = FakeAdmin(
        [group("empty", "Empty"), group("live", "Stable", member("a"), member("b"))],
        {"new": GroupIdNotFound("no such group")},
    )
    found = asyncio.run(activities_of(admin, ["empty", "live", "new"]))
    assert found == {
        "empty": GroupActivity("Empty"),
        "live": GroupActivity("Stable", 2),
        "new": GroupActivity("Dead"),
    }
    assert [name for name, one in found.items() if one.is_resettable] == ["empty", "new"]


def test_other_errors_are_raised():
    admin = FakeAdmin(errors={"g": CoordinatorNotAvailable("not now")})
    with pytest.raises(CoordinatorNotAvailable):
        asyncio.run(activities_of(admin, ["g"]))


def planned(kind, value, *partitions):
    async def plan():
        admin = FakeAdmin()
        committed = await committed_offsets(admin, "g")
        return await plan_reset(admin, committed, dict.fromkeys(partitions, Position(kind, value)))

    return asyncio.run(plan())


def test_a_move_tells_the_offset_asked_for_and_the_one_within_the_partition():
    assert planned(PositionKind.SHIFT, -5, FIRST, SECOND) == {
        FIRST: Move(12, 7, 10),
        SECOND: Move(30, 25, 20),
    }


def test_a_group_can_stay_behind_the_end_of_a_truncated_partition():
    assert planned(PositionKind.CURRENT, 0, SECOND, THIRD) == {
        SECOND: Move(30, 30, 20),
        THIRD: Move(None, None, 20),
    }


def test_a_time_is_looked_up():
    assert planned(PositionKind.TIME, 500, FIRST) == {FIRST: Move(12, 13, 13)}
    assert planned(PositionKind.TIME, 501, FIRST) == {FIRST: Move(12, None, 20)}


def test_no_partitions_are_no_moves():
    assert planned(PositionKind.EARLIEST, 0) == {}
