"""The members of a classic group, their leader, and the protocols that all of them support.

The roster keeps counts and indexes (waiting joins, supporters of each protocol, members by instance
id) in step with the members. So the rules of the group are fast also with thousands of members. The
roster knows nothing of states, generations or time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from moldau.base.checks import invariant
from moldau.coordination.groups.member import Member, Protocols, WaitingJoin


class Roster:
    """Members by id, in the order in which they joined."""

    __slots__ = ("_instances", "_members", "_supporters", "leader", "pending", "waiting_count")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._instances: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self.pending: dict[str, None] = {}
        """Ids that were given to dynamic members and not used yet, the oldest first (KIP-394)."""
        self.leader: str | None = None
        """The member that makes the assignment; None only if there are no members."""
        self.waiting_count = 0
        """Members whose JoinGroup waits for an answer."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, member_id: str) -> Member | None:
        """Return the member with this id; None if there is none."""
        return self._members.get(member_id)

    def of_instance(self, instance_id: str) -> Member | None:
        """Return the static member with this instance id; None if there is none."""
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self._members[member_id]

    # Joining and leaving

    def add(self, member: Member) -> None:
        """Add a member; the first one leads."""
        invariant(member.member_id not in self._members, "a member joins once")
        self._members[member.member_id] = member
        if member.instance_id is not None:
            invariant(member.instance_id not in self._instances, "an instance is one member")
            self._instances[member.instance_id] = member.member_id
        self._supporters.update(name for name, _ in member.protocols)
        self.waiting_count += member.waiting_join is not None
        self.leader = self.leader or member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member: Member) -> None:
        """Remove a member; if it led, the oldest member leads."""
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        self._forget_protocols(member)
        self.waiting_count -= member.waiting_join is not None
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def replace(self, old: Member, new: Member) -> None:
        """Replace a static member by its successor, which leads if the old one did."""
        led = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id

    # Waiting to join

    def wait_to_join(self, member: Member, waiting: WaitingJoin) -> WaitingJoin | None:
        """Set a member's waiting join; return the one before."""
        earlier, member.waiting_join = member.waiting_join, waiting
        self.waiting_count += earlier is None
        return earlier

    def stop_waiting(self, member: Member) -> WaitingJoin | None:
        """Clear a member's waiting join; return it."""
        waiting, member.waiting_join = member.waiting_join, None
        self.waiting_count -= waiting is not None
        return waiting

    @property
    def everybody_joined(self) -> bool:
        """Whether all members wait for the next generation, and no id is pending."""
        return self.waiting_count == len(self._members) and not self.pending

    def elect_joined(self) -> bool:
        """Make a member the leader that waits to join; False if no member does."""
        leader = None if self.leader is None else self._members[self.leader]
        if leader is not None and leader.waiting_join is None:
            leader = next((one for one in self if one.waiting_join is not None), None)
        if leader is None:
            return False
        self.leader = leader.member_id
        return True

    # Protocols

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols of a member."""
        self._forget_protocols(member)
        member.protocols = protocols
        self._supporters.update(name for name, _ in protocols)

    def _forget_protocols(self, member: Member) -> None:
        for name, _ in member.protocols:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]

    def all_support_one_of(self, names: Iterable[str]) -> bool:
        """Whether there is a protocol among these that every member supports."""
        return any(self._supporters[name] == len(self._members) for name in names)

    def choose_protocol(self) -> str:
        """Return the protocol that most members prefer among those that all support.

        In a tie the protocol wins that was voted for first.
        """
        candidates = {
            name for name, count in self._supporters.items() if count == len(self._members)
        }
        if len(candidates) == 1:
            return candidates.pop()
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max(0, max((member.rebalance_timeout_ms for member in self), default=0))
