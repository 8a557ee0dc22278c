"""The port to the other nodes of the quorum: a request of the core out, an answer back.

Implementations find a node by its id and send the request as a message of Kafka's protocol. They
keep one request under way to each node, do not try again, and do not wait for a node that cannot be
reached now: the core sends again, as long as it wants to.
"""

from __future__ import annotations

from typing import Protocol

from moldau.base.errors import MoldauError
from moldau.base.network import Address
from moldau.cluster.raft.requests import QuorumAnswer, SentRequest
from moldau.cluster.raft.resending import Destination


class PeerUnavailable(MoldauError):  # noqa: N818 - it names the state
    """No usable answer came. Nobody knows whether the request was carried out."""


class AddressUnknown(PeerUnavailable):
    """Nobody was asked: a bootstrap address may know where that node is."""


class Peers(Protocol):
    """The other nodes."""

    async def ask(self, to: Destination, request: SentRequest) -> QuorumAnswer:
        """Send a request and return the answer; PeerUnavailable without a usable one.

        `to` None is any of the nodes that the settings name. Batches of an answer to a fetch are
        intact: their checksums have been checked.
        """
        ...

    def address(self, node: int) -> Address | None:
        """Return where a node is reached; None while that is not known."""
        ...

    async def close(self) -> None:
        """End all connections; what is under way fails with PeerUnavailable."""
        ...


class Nobody:
    """The `Peers` of a node that is alone."""

    async def ask(self, to: Destination, request: SentRequest) -> QuorumAnswer:
        del to, request
        raise PeerUnavailable("nobody else votes")

    def address(self, node: int) -> None:
        """Know none."""

    async def close(self) -> None:
        """End nothing."""
