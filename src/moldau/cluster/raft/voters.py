"""Who votes: replicas by their keys, and sets of voters with the rule of the majority.

A replica is a node with a directory (KIP-853): a node that comes back with an empty disk is another
replica, which has promised nothing. Under kraft.version 0 the settings name the voters, and no
directories are known: then the id is all that counts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NewType

from moldau.base.tuples import NamedTuple

KRAFT_VERSION: Final = 1
"""The `kraft.version` under which the log names the voters (KIP-853)."""

VOTERS_BYTES_MAX: Final = 16 << 10
"""Of the record that names them all: some 200 voters with one listener each. Whoever reads it, from
a disk or from another node, refuses a larger one."""

_RECORD_BYTES: Final = 8
_VOTER_BYTES: Final = 32
_ENDPOINT_BYTES: Final = 9
"""What the record has beside texts, at most: an id, a directory, versions, a port, lengths."""

NodeId = NewType("NodeId", int)

NO_NODE: Final = NodeId(-1)
NO_DIRECTORY: Final = bytes(16)


class ReplicaKey(NamedTuple):
    """A node, and the directory that holds its metadata log."""

    node: NodeId
    directory: bytes = NO_DIRECTORY

    def names(self, replica: ReplicaKey) -> bool:
        """Tell whether this key means that replica; without a directory it means the node."""
        return self.node == replica.node and self.directory in (NO_DIRECTORY, replica.directory)


class VoterEndpoint(NamedTuple):
    """Where a listener of a voter is reached."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter, as the log names it."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: tuple[int, int] = (0, 1)
    """The lowest and the highest kraft.version that it supports."""


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at some place of the log, in the order of their ids. It never changes."""

    voters: tuple[Voter, ...] = ()

    def __len__(self) -> int:
        return len(self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    def find(self, replica: ReplicaKey) -> Voter | None:
        """Return the voter that a replica is; None if it is an observer."""
        for voter in self.voters:
            if voter.key.names(replica):
                return voter
        return None

    def has_node(self, node: NodeId) -> bool:
        return any(voter.key.node == node for voter in self.voters)

    def others(self, replica: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """Return the voters except for one replica."""
        return tuple(key for key in self.keys if not key.names(replica))

    @property
    def bytes_max(self) -> int:
        """How large the record that names them can be at most."""
        size = _RECORD_BYTES + _VOTER_BYTES * len(self.voters)
        for voter in self.voters:
            for listener, host, _ in voter.endpoints:
                size += _ENDPOINT_BYTES + len(listener.encode()) + len(host.encode())
        return size

    @property
    def majority(self) -> int:
        """How many voters have to agree."""
        return len(self.voters) // 2 + 1

    def is_majority(self, keys: Collection[ReplicaKey]) -> bool:
        """Tell whether these are enough voters; those that are no voters do not count."""
        return sum(key in keys for key in self.keys) >= self.majority

    def with_voter(self, voter: Voter) -> VoterSet:
        """Return this set with one more voter, or with another entry for the same node."""
        kept = [one for one in self.voters if one.key.node != voter.key.node]
        return VoterSet(tuple(sorted([*kept, voter], key=lambda one: one.key)))

    def without(self, key: ReplicaKey) -> VoterSet:
        """Return this set with one voter less."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))
