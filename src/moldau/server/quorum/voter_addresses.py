"""Where the voters of the quorum are reached: as the log names them, or the settings."""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.network import Address
from moldau.cluster.raft.voters import NodeId, Voter, VoterSet


class VoterAddresses:
    """The addresses of voters on the controllers' listener; `Addresses` of channels to them."""

    def __init__(self, voters: Callable[[], VoterSet], listener: str) -> None:
        self._voters = voters
        self._listener = listener

    def address(self, node: int) -> Address | None:
        """Return where a voter is; None for a node that does not vote, or says no address."""
        for voter in self._voters().voters:
            if voter.key.node == node:
                return self._address_of(voter)
        return None

    def all(self) -> dict[NodeId, Address]:
        """Return where every voter is, as far as that is known."""
        found = ((voter.key.node, self._address_of(voter)) for voter in self._voters().voters)
        return {node: address for node, address in found if address is not None}

    def _address_of(self, voter: Voter) -> Address | None:
        named = {one.listener: one for one in voter.endpoints}
        endpoint = named.get(self._listener, next(iter(voter.endpoints), None))
        return None if endpoint is None else Address(endpoint.host, endpoint.port)
