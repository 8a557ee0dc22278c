"""The members of a classic group: who is in it, who leads, what all of them can.

The roster keeps its books in step (who waits to join, how many support a protocol, which member
stands for which instance) so that the rules of the group read them at a glance also with thousands
of members. It knows nothing of states, generations or time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from moldau.base.checks import invariant
from moldau.coordination.groups.member import Member, Protocols, WaitingJoin


class Roster:
    """Members by id, in the order in which they came."""

    __slots__ = ("_instances", "_members", "_supporters", "leader", "pending", "waiting_count")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._instances: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self.pending: dict[str, None] = {}
        """Ids given to dynamic members that have yet to come back with them, the oldest first
        (KIP-394)."""
        self.leader: str | None = None
        """The member that assigns; there is one whenever there are members."""
        self.waiting_count = 0
        """Members whose JoinGroup waits for an answer."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def get(self, member_id: str) -> Member | None:
        """Return a member, None if there is none of this id."""
        return self._members.get(member_id)

    def of_instance(self, instance_id: str) -> Member | None:
        """Return the static member of this instance id."""
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self._members[member_id]

    # Coming and going

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads."""
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
        """Let a member go; if it led, the one that has been there longest leads."""
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        self._forget_protocols(member)
        self.waiting_count -= member.waiting_join is not None
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member in the place of its predecessor, leadership included."""
        led = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if led:
            self.leader = new.member_id

    # Waiting to join

    def wait_to_join(self, member: Member, waiting: WaitingJoin) -> WaitingJoin | None:
        """Note that a member waits; return what it waited for before."""
        earlier, member.waiting_join = member.waiting_join, waiting
        self.waiting_count += earlier is None
        return earlier

    def stop_waiting(self, member: Member) -> WaitingJoin | None:
        """Note that a member no longer waits; return what it waited for."""
        waiting, member.waiting_join = member.waiting_join, None
        self.waiting_count -= waiting is not None
        return waiting

    @property
    def everybody_joined(self) -> bool:
        """Whether all members wait for the next generation, and nobody is expected."""
        return self.waiting_count == len(self._members) and not self.pending

    def elect_joined(self) -> bool:
        """Let somebody lead who waits to join; tell whether there is anybody."""
        leader = None if self.leader is None else self._members[self.leader]
        if leader is not None and leader.waiting_join is None:
            leader = next((one for one in self if one.waiting_join is not None), None)
        if leader is None:
            return False
        self.leader = leader.member_id
        return True

    # What members can

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Take what a member offers now in place of what it offered before."""
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
        """Return the protocol most members prefer among those that all support.

        A tie goes to the protocol that was voted for first, hence to the oldest member.
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
        """The time a rebalance may take: what the most patient member allows."""
        return max(0, max((member.rebalance_timeout_ms for member in self), default=0))
