"""What the members of one group were told, and whether it can all be true at once.

Only what is decided counts: a generation whose assignment somebody has got. What a join says of a
generation that never came to that may be said again, of another one, by the broker's next life.

G1  A generation has one assignment, and nobody gets another one's.
G2  A generation does not go back: who asks after one is decided hears of that one or a later one.
I10 Who belongs to an earlier generation, or was replaced under its instance id, is refused.
P7  Once all is well the members that live share one generation, and all partitions among them.

An assignment, as our leaders make it, names its plan and holds all of it, so that any piece that is
found anywhere tells where it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moldau.sim.history import Violation
from moldau.sim.offset_history import OffsetHistory


class Piece(NamedTuple):
    """One member's part of an assignment."""

    plan: str
    generation: int
    member_id: str
    partitions: tuple[int, ...]

    @classmethod
    def read(cls, content: bytes) -> Piece:
        """Read what `pieces` has written."""
        plan, generation, member_id, partitions = json.loads(content)
        return cls(plan, generation, member_id, tuple(partitions))


def pieces(
    plan: str, generation: int, member_ids: Sequence[str], partition_count: int
) -> dict[str, bytes]:
    """Share partitions among members, one after the other."""
    return {
        member_id: json.dumps(
            Piece(
                plan, generation, member_id, tuple(range(first, partition_count, len(member_ids)))
            )
        ).encode()
        for first, member_id in enumerate(member_ids)
    }


class GroupHistory:
    """All claims about one group."""

    def __init__(self, name: str, offsets: Mapping[int, OffsetHistory]) -> None:
        self.name = name
        self.offsets = offsets
        """By partition of the one topic that the group reads."""
        self.decided = 0
        """The highest generation whose assignment somebody has got."""
        self._plans: dict[int, str] = {}
        self._protocols: dict[tuple[int, int], str | None] = {}
        self._places: dict[str, Piece | None] = {}
        """By name of a client that is a member or wants to be, what it has now."""
        self._was_settled = False

    def joined(self, asked: int, life: int, generation: int, protocol: str | None) -> None:
        """Take the answer to a join that was sent when `asked` was decided."""
        self.claimed("a join", asked, generation)
        known = self._protocols.setdefault((life, generation), protocol)
        if known != protocol:
            raise Violation(
                f"G1: {self.name} generation {generation} has protocols {known} and {protocol}"
            )

    def claimed(self, what: str, asked: int, generation: int) -> None:
        """Take that something was done, or told, for a generation, asked when `asked` was it."""
        if generation < asked:
            rule = "G2" if what == "a join" else "I10"
            raise Violation(
                f"{rule}: {self.name} took {what} in generation {generation}, {asked} was decided"
            )

    def assigned(self, asked: int, generation: int, client: str, content: bytes) -> None:
        """Take the answer to a sync; without content the leader knew the member by another id."""
        self.claimed("a sync", asked, generation)
        self.decided = max(self.decided, generation)
        piece = Piece.read(content) if content else None
        self._places[client] = piece
        if piece is None:
            return
        if piece.generation != generation:
            raise Violation(
                f"G1: {self.name} generation {generation} has an assignment of {piece.generation}"
            )
        plan = self._plans.setdefault(generation, piece.plan)
        if plan != piece.plan:
            raise Violation(f"G1: {self.name} generation {generation} has two assignments")

    def unsettled(self, client: str) -> None:
        """Learn that a client is a member, and has no assignment now."""
        self._places[client] = None

    def settled(self) -> bool:
        """Tell whether all members have been in one generation since this was first asked.

        Once they were, they may go: how the group ends is of no interest any more.
        """
        self._was_settled = self._was_settled or self._is_settled()
        return self._was_settled

    def _is_settled(self) -> bool:
        found = list(self._places.values())
        if None in found:
            return False
        held = [one for one in found if one is not None and one.generation == self.decided]
        partitions = sorted(index for one in held for index in one.partitions)
        return len(held) == len(found) and partitions == sorted(self.offsets)

    def __str__(self) -> str:
        return f"{self.name} at {self.decided}: {self._places}"
