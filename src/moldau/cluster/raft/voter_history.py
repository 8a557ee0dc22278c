"""The voter sets of a log: the newest one counts, whether it is committed or not (KIP-853).

A set is in force from the moment its record is in a node's own log. Waiting for the commit would
not be enough: the majority that commits it could be one of the old set alone. A truncation takes
the record out of the log, and brings the set before it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from moldau.base.ids import NO_OFFSET, Offset
from moldau.base.tuples import NamedTuple
from moldau.cluster.raft.voters import VoterSet


class LoggedVoters(NamedTuple):
    """A set of voters, and where the log names it."""

    offset: Offset
    """-1 of the set that was there before the log: of the settings, or of a snapshot."""
    voters: VoterSet


@dataclass(slots=True)
class VoterHistory:
    """All sets that the log and the snapshot before it name, oldest first; never empty."""

    first: VoterSet
    is_static: bool = False
    """Whether the first set is that of the settings (kraft.version 0)."""
    logged: list[LoggedVoters] = field(default_factory=list)

    @property
    def is_dynamic(self) -> bool:
        """Whether the log names the voters (kraft.version 1), or the snapshot before it does."""
        return not self.is_static or bool(self.logged)

    @property
    def newest(self) -> LoggedVoters:
        return self.logged[-1] if self.logged else LoggedVoters(NO_OFFSET, self.first)

    @property
    def previous(self) -> VoterSet:
        """The set before the newest one, which is in force again if that is cut off."""
        return self.logged[-2].voters if len(self.logged) > 1 else self.first

    def append(self, offset: Offset, voters: VoterSet) -> None:
        """Take the set of a record that is in the log now."""
        self.logged.append(LoggedVoters(offset, voters))

    def truncate(self, end_offset: Offset) -> None:
        """Forget the sets that a truncation has cut off."""
        while self.logged and self.logged[-1].offset >= end_offset:
            self.logged.pop()

    def restart(self, voters: VoterSet) -> None:
        """Begin again with the set of a snapshot."""
        self.first = voters
        self.is_static = False
        self.logged.clear()
