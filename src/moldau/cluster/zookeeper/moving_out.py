"""Moves a cluster out of ZooKeeper: keeps everybody else away, reads the tree whole, and marks it.

The move holds the seat of the controller, by a session as a broker would. So no broker, also one of
Kafka's, becomes the controller meanwhile, and no second move begins. The mark is written under the
epoch of that seat: if the session was lost and somebody else elected, it fails, and all is as
before. A broker that starts meanwhile finds the mark when it wins the seat (`moved_tree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.base.errors import UserError
from moldau.base.ids import BrokerId
from moldau.cluster.migration import TreeNodes
from moldau.cluster.zookeeper.client.port import (
    CreateNode,
    NodeExists,
    NoNode,
    UnknownOutcome,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.election import Seat, leave_seat, win_seat
from moldau.cluster.zookeeper.moved_tree import read_mark
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_nodes import CLIENTS, ENTITY_TYPES, IPS, USERS
from moldau.cluster.zookeeper.nodes.controller_nodes import decode_controller_epoch
from moldau.cluster.zookeeper.nodes.migration_node import (
    MIGRATION,
    MigrationNode,
    encode_migration,
)
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.tree_reader import TreeReader

SEAT_HOLDER: Final = BrokerId(2**31 - 1)
"""Whom `/controller` names meanwhile: an id that no broker of a cluster has."""

_CONFIG_CHANGES: Final = paths.CONFIG_CHANGES.rpartition("/")[2]

_UNTRANSLATED: Final = (
    *(f"{paths.CONFIG}/{entity_type}" for entity_type in (USERS, CLIENTS, IPS)),
    "/kafka-acl",
    "/kafka-acl-extended",
    "/delegation_token/tokens",
)
"""Parents of quotas, credentials, access lists and tokens."""


class MovingOut:
    """One move, in one session."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._seat: Seat | None = None

    async def refuse_others(self) -> None:
        """Raise UserError if a broker is registered, or the cluster has a controller."""
        await self._session.sync()
        try:
            brokers = await self._session.children(paths.BROKER_IDS)
        except NoNode:
            brokers = []
        if brokers:
            raise UserError(
                f"{paths.BROKER_IDS} has {', '.join(brokers)}: stop all brokers first. The node of"
                " one that was killed goes when its session expires"
            )
        if self._seat is None and await self._session.exists(paths.CONTROLLER) is not None:
            raise UserError(
                f"{paths.CONTROLLER} is there: a controller, or another move, runs or has just"
                " ended; the node of one that was killed goes when its session expires"
            )
        if await read_mark(self._session) is None and await self._session.exists(MIGRATION):
            raise UserError(
                f"{MIGRATION} is Kafka's: its own move to KRaft was begun here. If it was given up,"
                " delete the node"
            )

    async def take_seat(self, now_ms: int) -> None:
        """Keep everybody else from becoming the controller until `leave`."""
        self._seat = await win_seat(self._session, SEAT_HOLDER, now_ms)
        if self._seat is None:
            raise UserError(f"{paths.CONTROLLER}: somebody else has just become the controller")

    async def leave(self) -> None:
        """Give the seat back, if it is held."""
        if self._seat is not None:
            await leave_seat(self._session)

    async def mark(self, node: MigrationNode) -> None:
        """Say that the tree is out of date; ZooKeeperError if it is not said, or nobody knows."""
        assert self._seat is not None  # whoever writes has taken it
        try:
            await self._session.multi(
                [self._seat.check, CreateNode(MIGRATION, encode_migration(node))]
            )
        except (NodeExists, UnknownOutcome):
            await self._session.sync()
            if await read_mark(self._session) != node:
                raise

    # Reading

    async def read(self) -> TreeNodes:
        """Read everything that has to be taken over, and what cannot be."""
        await self._session.sync()
        metadata = await TreeReader(self._session).read_tree()
        epoch, transaction = await self._controller_epoch()
        return TreeNodes(
            metadata, await self._untranslated(), await self._broker_epochs(), epoch, transaction
        )

    async def _controller_epoch(self) -> tuple[int, int]:
        """Return the epoch, and the transaction that raised it: with the seat, the newest one."""
        try:
            node = await self._session.read(paths.CONTROLLER_EPOCH)
        except NoNode:
            return 0, 0
        return decode_controller_epoch(node.data), node.stat.mzxid

    async def _broker_epochs(self) -> dict[BrokerId, int]:
        """Read the last epoch of each broker; Kafka leaves none."""
        found = {}
        for name in await self._names(paths.BROKER_EPOCHS):
            stat = await self._session.exists(f"{paths.BROKER_EPOCHS}/{name}")
            number = paths.number(name)
            if stat is not None and number is not None:
                found[BrokerId(number)] = stat.mzxid
        return found

    async def _untranslated(self) -> Mapping[str, StoredNode]:
        known = {*ENTITY_TYPES, _CONFIG_CHANGES}
        unknown = [one for one in await self._names(paths.CONFIG) if one not in known]
        reader = TreeReader(self._session)
        nodes: dict[str, StoredNode] = {}
        for parent in (*_UNTRANSLATED, *(f"{paths.CONFIG}/{name}" for name in unknown)):
            for path in await reader.names_below(parent):
                node = await reader.read(path)
                if node is not None:
                    nodes[path] = node
        return nodes

    async def old_groups(self) -> list[str]:
        """Name the groups of consumers before Kafka 0.9, which keep their offsets here."""
        return await self._names(paths.CONSUMERS)

    async def _names(self, parent: str) -> list[str]:
        try:
            return await self._session.children(parent)
        except NoNode:
            return []
