"""The election of the controller: one multi that creates `/controller` and raises the epoch.

Both happen or neither. Whoever wins has an epoch that nobody had before, and every write of its
predecessor fails from then on, because each checks the version of `/controller_epoch` (KAFKA-6082).

Somebody may write `/controller_epoch` by hand. Brokers refuse what is older than what they have
heard of, so the next epoch is above those that this broker knows, whatever the node says.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Final, NamedTuple

from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.client.port import (
    BadVersion,
    CheckVersion,
    CreateNode,
    NodeExists,
    NodeKind,
    NoNode,
    SetData,
    UnknownOutcome,
    Watch,
    ZooKeeperSession,
)
from moldau.cluster.zookeeper.nodes.controller_nodes import (
    ControllerNode,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.paths import CONTROLLER, CONTROLLER_EPOCH

logger = logging.getLogger(__name__)

_NO_EPOCH: Final = 0
"""What a cluster starts from that never had a controller: the first has epoch 1."""


class Seat(NamedTuple):
    """A controllership that was won."""

    epoch: int
    epoch_version: int
    """The version of `/controller_epoch`. It is raised by whoever wins next."""

    @property
    def check(self) -> CheckVersion:
        """What each write of this controller begins with."""
        return CheckVersion(CONTROLLER_EPOCH, self.epoch_version)


NOBODY_KNOWN: Final = BrokerId(-1)


async def current_controller(session: ZooKeeperSession, watch: Watch) -> BrokerId | None:
    """Return who is the controller; None if nobody is. The watch tells of the next change.

    A node that says nothing of use is somebody's all the same: NOBODY_KNOWN.
    """
    while True:
        if await session.exists(CONTROLLER, watch) is None:
            return None
        try:
            return decode_controller((await session.read(CONTROLLER)).data).broker_id
        except NoNode:
            continue
        except MalformedNode:
            return NOBODY_KNOWN


async def win_seat(
    session: ZooKeeperSession, broker_id: BrokerId, now_ms: int, known_epoch: int = _NO_EPOCH
) -> Seat | None:
    """Try to become the controller; None if another broker is.

    `known_epoch` is the newest that this broker has heard of. Without one, an epoch that cannot be
    read raises MalformedNode: another broker may know.
    """
    data = encode_controller(ControllerNode(broker_id, now_ms))
    while True:
        epoch, version = await _epoch(session, known_epoch)
        wanted = Seat(epoch + 1, version + 1)
        try:
            await session.multi(
                [
                    CreateNode(CONTROLLER, data, NodeKind.EPHEMERAL),
                    SetData(CONTROLLER_EPOCH, encode_controller_epoch(wanted.epoch), version),
                ]
            )
        except NodeExists:
            return None
        except BadVersion:
            continue  # another one has won and left again
        except UnknownOutcome:
            if await _has_won(session, wanted):
                return wanted
            continue
        return wanted


async def leave_seat(session: ZooKeeperSession) -> None:
    """Give the controllership back if this session has it, so that another one is elected now."""
    while True:
        stat = await session.exists(CONTROLLER)
        if stat is None or stat.ephemeral_owner != session.session_id:
            return
        try:
            await session.delete(CONTROLLER)
        except NoNode:
            return
        except UnknownOutcome:
            await session.sync()


async def _epoch(session: ZooKeeperSession, known_epoch: int) -> tuple[int, int]:
    """Return the newest epoch and the version of its node, which is made if it is missing."""
    while True:
        try:
            node = await session.read(CONTROLLER_EPOCH)
        except NoNode:
            with contextlib.suppress(NodeExists, UnknownOutcome):
                await session.create(CONTROLLER_EPOCH, encode_controller_epoch(known_epoch))
            continue
        try:
            epoch = decode_controller_epoch(node.data)
        except MalformedNode as malformed:
            if known_epoch == _NO_EPOCH:
                raise
            logger.error("a node of ZooKeeper is written again, as it was known: %s", malformed)  # noqa: TRY400 - no bug of ours
            epoch = known_epoch
        return max(epoch, known_epoch), node.stat.version


async def _has_won(session: ZooKeeperSession, wanted: Seat) -> bool:
    """Tell whether a multi of unknown outcome has happened."""
    await session.sync()
    stat = await session.exists(CONTROLLER)
    if stat is None or stat.ephemeral_owner != session.session_id:
        return False
    return await _epoch(session, wanted.epoch) == (wanted.epoch, wanted.epoch_version)
