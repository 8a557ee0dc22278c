"""The connections to the other nodes of the quorum: one for votes and one for fetches to each.

A node answers the requests of one connection in order, and a leader parks a fetch for half a
second. A vote must not wait behind it. Nor must the next fetch, where nobody waits for the parked
one any more: it gets a connection of its own, and the other one is closed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from moldau.base.network import Address
from moldau.cluster.raft.voters import NodeId
from moldau.engine.errors import ClientClosed, ClientError, ConnectionLost
from moldau.engine.handshake import Expected
from moldau.engine.link import Link
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings

LINKS_MAX: Final = 64
"""Thrice as many as a large quorum needs. Answers name leaders, and each may be a new node."""


class Lane(Enum):
    """Which of the connections to a node a request takes."""

    VOTES = "votes"
    """For what is answered at once: votes, and the beginning and the end of an epoch."""
    FETCHES = "fetches"
    """For fetches of the log and of snapshots. They come one at a time."""


Place: TypeAlias = NodeId | Address
"""A node that is known by its id, or whoever is at a bootstrap address."""


class PeerLinks:
    """The links of one node of the quorum. Owned by the event loop's thread."""

    def __init__(self, settings: ConnectionSettings, ports: ClientPorts) -> None:
        self._settings = settings
        self._ports = ports
        self._links: dict[tuple[Place, Lane], Link] = {}
        """The least recently used first."""
        self._fetching: set[Link] = set()
        """The links with a fetch that is not answered, also if nobody waits for it any more."""
        self._is_closed = False

    def to(self, place: Place, lane: Lane, address: Address) -> Link:
        """Return the link to a place at its present address; ClientClosed after the end."""
        if self._is_closed:
            raise ClientClosed("the node is stopping")
        link = self._links.pop((place, lane), None)
        if link is not None and link.address != address:
            self._retire(link, ConnectionLost(f"the node has moved to {address}"))
            link = None
        if link is None:
            link = self._new_link(place, address)
        self._links[place, lane] = link
        return link

    def begin_fetch(self, place: Place, address: Address) -> Link:
        """Return the link for a fetch, with no other fetch before it; `end_fetch` ends it."""
        link = self.to(place, Lane.FETCHES, address)
        if link in self._fetching:
            self._retire(link, ConnectionLost("the node is asked anew"))
            link = self._links[place, Lane.FETCHES] = self._new_link(place, address)
        self._fetching.add(link)
        return link

    def end_fetch(self, link: Link) -> None:
        """Take note that a fetch is answered, or that no answer can come any more."""
        self._fetching.discard(link)

    def _new_link(self, place: Place, address: Address) -> Link:
        while len(self._links) >= LINKS_MAX:
            oldest = self._links.pop(next(iter(self._links)))
            self._retire(oldest, ConnectionLost("other nodes are asked in its place"))
        expected = Expected() if isinstance(place, Address) else Expected(broker_id=place)
        return Link(address, self._settings, self._ports, expected, _leave_to_next_request)

    def _retire(self, link: Link, reason: ClientError) -> None:
        """Close a link; an attempt to connect ends within a turn of the loop."""
        link.close(reason)
        self._fetching.discard(link)

    async def close(self) -> None:
        """End all connections; requests without an answer fail with ClientClosed."""
        self._is_closed = True
        for link in self._links.values():
            link.close(ClientClosed("the node is stopping"))
        for link in self._links.values():
            await link.ended()


def _leave_to_next_request(link: Link) -> None:
    """Let the next request find out that a connection was lost."""
