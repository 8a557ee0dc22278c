"""ListGroups and DescribeGroups: filters, and the description of one group.

A shard may have hundreds of thousands of groups, and a group tens of thousands of members. So a
shard only returns references, in one turn. The caller goes through them with pauses, and sees each
group as it is at that time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple, Self

from moldau.coordination.groups.member import Member
from moldau.coordination.groups.states import GroupState
from moldau.protocol.messages.groups import DescribedGroup

GROUP_TYPE: Final = "classic"
"""The group type of the classic protocol in ListGroups."""

_NAMES_PER_STEP: Final = 256


class GroupDescription(NamedTuple):
    """A group without its members; the members, and the protocol of the group."""

    group: DescribedGroup
    protocol: str | None = None
    members: Sequence[Member] = ()


class GroupFilter(NamedTuple):
    """The filters of ListGroups (KIP-518, KIP-848)."""

    states: frozenset[str]
    """In lower case; empty for all."""
    includes_type: bool

    @classmethod
    def read(cls, states: Iterable[str], types: Iterable[str]) -> Generator[None, None, Self]:
        """Read a request's filters, with pauses, because there may be many of them."""
        wanted_states = yield from _lower_case(states)
        wanted_types = yield from _lower_case(types)
        return cls(frozenset(wanted_states), not wanted_types or GROUP_TYPE in wanted_types)

    def includes(self, state: GroupState) -> bool:
        """Tell whether a group in this state is listed."""
        return self.includes_type and (not self.states or state.value.lower() in self.states)


def _lower_case(names: Iterable[str]) -> Generator[None, None, set[str]]:
    found = set()
    for count, name in enumerate(names, 1):
        found.add(name.strip().lower())
        if not count % _NAMES_PER_STEP:
            yield
    return found
