"""What a member of a group does next: the vocabulary between `membership` and its driver.

`membership` decides and hands out one of these; `group` carries it out and says how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.assignors.interface import NO_GENERATION
from moldau.client.records import TopicPartition
from moldau.protocol.messages.groups import JoinGroupResponseMember

Partitions = frozenset[TopicPartition]
NONE_OWNED: Partitions = frozenset()


class MemberIdentity(NamedTuple):
    """Who a client is to its group: every request says it, and an old one is fenced by it."""

    member_id: str = ""
    generation: int = NO_GENERATION


NOBODY = MemberIdentity()


class Wait(NamedTuple):
    """Nothing to do before this moment, or before something happens."""

    until: float | None = None


class Revoke(NamedTuple):
    """Give these partitions up: commit, tell the listener. The user must hold none of them."""

    partitions: Partitions


class Lose(NamedTuple):
    """These partitions may be somebody else's already: drop them at once, then tell."""

    partitions: Partitions


class Join(NamedTuple):
    """Ask to be in the group's next generation."""

    identity: MemberIdentity
    topics: frozenset[str]
    owned: Partitions
    owned_generation: int
    """The generation that gave what is owned, which decides between two who claim it (KIP-792)."""
    reason: str


class Distribute(NamedTuple):
    """Decide as the leader what every member shall read."""

    protocol_name: str
    members: tuple[JoinGroupResponseMember, ...]
    is_settled: bool
    """A static leader came back: the coordinator has the assignment already (KIP-814)."""


class Synchronise(NamedTuple):
    """Ask for one's assignment; the leader brings everybody's."""

    identity: MemberIdentity
    protocol_name: str
    assignments: Mapping[str, bytes]


class Adopt(NamedTuple):
    """Make an assignment one's own. The user must hold nothing of what is revoked."""

    assigned: Partitions
    added: Partitions
    revoked: Partitions
    identity: MemberIdentity

    @property
    def is_quiet(self) -> bool:
        """Tell whether everything stays as it is, so that nobody need notice."""
        return bool(self.assigned) and not self.added and not self.revoked


class Refuse(NamedTuple):
    """Tell the user why there is no membership."""

    error: Exception


Step = Wait | Revoke | Lose | Join | Distribute | Synchronise | Adopt | Refuse


class Beat(NamedTuple):
    """Tell the coordinator that this member lives."""

    identity: MemberIdentity


class Expire(NamedTuple):
    """The user has not asked for records for too long: leave, so that others can read."""

    identity: MemberIdentity


Pulse = Wait | Beat | Expire
