"""All the ways to brokers: by id, to whichever is at hand, to the bootstrap servers.

A broker answers the requests of one connection in order, so a heartbeat sent after a Fetch would
wait as long as the Fetch does. What belongs to coordinators therefore has a connection of its own
to each broker: a lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum

from moldau.base.clock import Random
from moldau.base.network import Address
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientClosed, ClientError, ConnectionLost, NoBrokerReachable
from moldau.engine.handshake import Expected
from moldau.engine.link import Link
from moldau.engine.metadata import BrokerImage, MetadataImage
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings

STAGGER_S = 0.5
"""How long one broker may stay silent before the next is tried as well: much longer than connecting
takes anywhere, much shorter than a machine that is gone is waited for."""


class Lane(Enum):
    """Which of the connections to a broker a request takes."""

    DATA = "data"
    COORDINATION = "coordination"
    BESIDE = "beside"
    """For a Fetch that must not wait behind another one that the broker holds."""
    JOINING = "joining"
    """Joins are answered when the slowest member of a group has come, minutes perhaps; heartbeats
    and commits must not wait for that, and nobody who takes any connection may get this one."""


class Links:
    """The connections of one client. Owned by the event loop's thread."""

    def __init__(
        self, settings: ConnectionSettings, ports: ClientPorts, on_lost: Callable[[Link], None]
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._on_lost = on_lost
        self._brokers: dict[tuple[int, Lane], Link] = {}
        self._bootstrap: dict[Address, Link] = {}
        self._retired: list[Link] = []

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        links = {*self._brokers.values(), *self._bootstrap.values()}
        return sum(one.connection is not None and one.connection.is_open for one in links)

    def known(self, broker_id: int, lane: Lane) -> Link | None:
        """Return the link to a broker, if there has been one."""
        return self._brokers.get((broker_id, lane))

    def to(self, broker: BrokerImage, lane: Lane, cluster_id: str | None) -> Link:
        """Return the link to a broker; a new one if it has moved to another address."""
        key = broker.broker_id, lane
        link = self._brokers.get(key)
        if link is not None and link.address != broker.address:
            self._retire(link, ConnectionLost(f"broker {broker.broker_id} has moved"))
            link = None
        if link is None:
            link = self._brokers[key] = self._link(
                broker.address, Expected(broker.broker_id, cluster_id)
            )
        return link

    def _link(self, address: Address, expected: Expected) -> Link:
        return Link(address, self._settings, self._ports, expected, self._on_lost)

    def _retire(self, link: Link, reason: ClientError) -> None:
        link.close(reason)
        self._retired = [one for one in self._retired if not one.is_over]
        self._retired.append(link)

    def forget_brokers(self) -> None:
        """End all connections, because the brokers there are of no use any more."""
        links = [*self._brokers.values(), *self._bootstrap.values()]
        self._brokers.clear()
        self._bootstrap.clear()
        for link in links:
            self._retire(link, ConnectionLost("the client begins again from its bootstrap servers"))

    def adopt_bootstrap(self, brokers: Iterable[BrokerImage]) -> None:
        """Use connections to bootstrap servers for the brokers that turned out to live there."""
        for broker in brokers:
            key = broker.broker_id, Lane.DATA
            if key not in self._brokers and broker.address in self._bootstrap:
                self._brokers[key] = self._bootstrap.pop(broker.address)

    # Whichever is at hand

    async def any(self, image: MetadataImage, *, bootstrap: bool) -> ClientConnection:
        """Return a connection to some broker: the least busy one, or the first that answers.

        `bootstrap` allows the bootstrap servers when no known broker can be reached. Fails with
        NoBrokerReachable, which names all that were tried, or with the first finding that is more
        than silence. Cancelled, attempts go on for whoever comes next.
        """
        at_hand = self._least_busy(
            link for (_, lane), link in self._brokers.items() if lane is not Lane.JOINING
        )
        if at_hand is not None:
            return at_hand
        failures: list[ClientError] = []
        known = [self.to(one, Lane.DATA, image.cluster_id) for one in image.brokers.values()]
        found = await self._first(known, failures)
        if found is None and (bootstrap or not known):
            at_hand = self._least_busy(self._bootstrap.values())
            if at_hand is not None:
                return at_hand
            found = await self._first(self._bootstrap_links(), failures)
        if found is None:
            raise _unreachable(failures)
        return found

    @staticmethod
    def _least_busy(links: Iterable[Link]) -> ClientConnection | None:
        at_hand = [
            link.connection
            for link in links
            if link.connection is not None and link.connection.is_open
        ]
        return min(at_hand, key=_busyness) if at_hand else None

    def _bootstrap_links(self) -> list[Link]:
        for address in self._settings.addresses:
            if address not in self._bootstrap:
                self._bootstrap[address] = self._link(address, Expected())
        return list(self._bootstrap.values())

    async def _first(
        self, links: Iterable[Link], failures: list[ClientError]
    ) -> ClientConnection | None:
        """Try one after the other, rested ones first, without waiting long for a silent one."""
        ahead = _shuffled(links, self._ports.random)
        ahead.sort(key=_is_resting)
        attempts: set[asyncio.Task[ClientConnection]] = set()
        while ahead or attempts:
            if ahead:
                link = ahead.pop(0)
                if link.connection is not None and link.connection.is_open:
                    return link.connection  # somebody else was quicker
                attempts.add(link.attempt())
            done, attempts = await asyncio.wait(
                attempts,
                timeout=STAGGER_S if ahead else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for attempt in done:
                if attempt.cancelled():
                    failures.append(ConnectionLost("the attempt was given up"))
                elif (error := attempt.exception()) is None:
                    return attempt.result()
                else:
                    failures.append(_as_client_error(error))
        return None

    async def close(self) -> None:
        """Close everything and wait until nothing runs any more."""
        links = [*self._brokers.values(), *self._bootstrap.values(), *self._retired]
        for link in links:
            link.close(ClientClosed("the client has been closed"))
        for link in links:
            await link.ended()


def _busyness(connection: ClientConnection) -> int:
    return connection.in_flight


def _is_resting(link: Link) -> bool:
    return link.is_resting


def _shuffled(links: Iterable[Link], random: Random) -> list[Link]:
    ahead = list(links)
    for index in range(len(ahead) - 1, 0, -1):
        other = random.randrange(index + 1)
        ahead[index], ahead[other] = ahead[other], ahead[index]
    return ahead


def _as_client_error(error: BaseException) -> ClientError:
    if isinstance(error, ClientError):
        return error
    raise error


def _unreachable(failures: list[ClientError]) -> ClientError:
    for failure in failures:
        if not isinstance(failure, ConnectionLost):
            return failure
    tried = "; ".join(failure.what for failure in failures) or "none is known"
    return NoBrokerReachable(f"no broker could be reached: {tried}")
