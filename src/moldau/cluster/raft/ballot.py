"""The votes of one election, or of one pre-vote: who has granted, who has refused."""

from __future__ import annotations

from moldau.cluster.raft.voters import ReplicaKey, VoterSet


class Ballot:
    """Counts the votes of one set of voters, and of nobody else."""

    __slots__ = ("_granted", "_refused", "voters")

    def __init__(self, voters: VoterSet, candidate: ReplicaKey) -> None:
        self.voters = voters
        self._granted = {key for key in voters.keys if key.names(candidate)}
        self._refused: set[ReplicaKey] = set()

    @property
    def undecided(self) -> tuple[ReplicaKey, ...]:
        """The voters that have not answered yet."""
        known = self._granted | self._refused
        return tuple(key for key in self.voters.keys if key not in known)

    @property
    def granting(self) -> tuple[ReplicaKey, ...]:
        return tuple(key for key in self.voters.keys if key in self._granted)

    @property
    def is_won(self) -> bool:
        return self.voters.is_majority(self._granted)

    @property
    def is_lost(self) -> bool:
        """Whether too many have refused for a majority to be possible."""
        return len(self.voters) - len(self._refused) < self.voters.majority

    def grant(self, voter: ReplicaKey) -> None:
        self._granted.add(voter)

    def refuse(self, voter: ReplicaKey) -> None:
        self._refused.add(voter)

    def ask_again(self) -> None:
        """Forget who has refused: they may have changed their mind."""
        self._refused.clear()
