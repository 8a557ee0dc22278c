"""Carries out what tools ask for by writing nodes, while this broker is the controller.

Each request becomes a decision (`tool_decisions`), a commit, and writes that remove or renew the
node that asked. A reassignment is followed until all its moves are over: tools wait for that.

What cannot be done is told in one line, once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

from moldau.cluster.image import MetadataImage
from moldau.cluster.steps import Stepwise
from moldau.cluster.zookeeper.client.port import NodeError, Operation
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_nodes import TOPICS, ConfigEntity, config_path
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    PreferredElectionWanted,
    ReassignmentWanted,
    ToolRequest,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.tenure import Tenure
from moldau.cluster.zookeeper.tool_decisions import (
    RequestOutcome,
    RequestSettings,
    decide_request,
    follow_reassignment,
)
from moldau.cluster.zookeeper.tree_reader import TreeReader

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Decides(Protocol):
    """Commits a decision and returns its answer; the controller's queue."""

    def __call__(self, decision: Callable[[MetadataImage], Stepwise[T]], /) -> Awaitable[T]: ...


class ToolDuties:
    """The requests of one tenure. Owned by the event loop's thread."""

    def __init__(self, tenure: Tenure, decide: Decides, settings: RequestSettings) -> None:
        self._tenure = tenure
        self._decide = decide
        self._settings = settings
        self._reader = TreeReader(tenure.session)
        self._moving: ReassignmentWanted | None = None
        self._told: dict[str, tuple[str, ...]] = {}

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment has to be followed."""
        return self._moving is not None

    async def answer(self, request: ToolRequest) -> None:
        """Carry out a request; ApiError or StoreFailed if the controller cannot now."""
        nodes = await self._nodes(request)
        outcome = await self._decide(
            lambda image: decide_request(image, request, nodes, self._settings)
        )
        if isinstance(request, PartitionsWanted) and outcome.left is None:
            self._tenure.wanted.pop(request.topic, None)
        self._tell(request, outcome)
        await self._write(outcome.writes)
        if isinstance(request, ReassignmentWanted):
            self._moving = request
            await self.follow_moves()

    async def follow_moves(self) -> None:
        """Renew or remove the node of a reassignment, as far as its moves are over."""
        moving = self._moving
        node = None if moving is None else await self._reader.read(paths.REASSIGN_PARTITIONS)
        if moving is None or node is None:
            self._moving = None
            return
        outcome = await self._decide(lambda image: follow_reassignment(image, moving, node))
        left = outcome.left
        self._moving = left if isinstance(left, ReassignmentWanted) else None
        await self._write(outcome.writes)

    async def _nodes(self, request: ToolRequest) -> dict[str, StoredNode]:
        """Read what a decision has to know of the tree."""
        match request:
            case DeletionWanted(topic):
                return await self._read(paths.delete_topic(topic), *await self._topic_nodes(topic))
            case TopicNodeIncomplete(topic):
                return await self._read(paths.topic(topic))
            case PreferredElectionWanted():
                return await self._read(paths.PREFERRED_REPLICA_ELECTION)
            case _:
                return {}

    async def _topic_nodes(self, topic: str) -> list[str]:
        """Name all nodes of a topic that the image does not have: what is left of it."""
        if topic in self._tenure.history.image.topics:
            return []
        return [
            *await self._reader.names_below(paths.topic(topic)),
            config_path(ConfigEntity(TOPICS, topic)),
        ]

    async def _read(self, *places: str) -> dict[str, StoredNode]:
        found = {path: await self._reader.read(path) for path in places}
        return {path: node for path, node in found.items() if node is not None}

    async def _write(self, writes: Iterable[Operation | None]) -> None:
        if not writes:
            return
        async with self._tenure.turn:
            try:
                await self._tenure.write(writes)
            except (NodeError, MalformedNode) as error:
                # The tool has written again, and its node is read again.
                logger.debug("a node that asked for something has changed: %s", error)

    def _tell(self, request: ToolRequest, outcome: RequestOutcome) -> None:
        name = type(request).__name__ + getattr(request, "topic", "")
        if outcome.problems and self._told.get(name) != outcome.problems:
            self._told[name] = outcome.problems
            for problem in outcome.problems:
                logger.warning("a request in ZooKeeper cannot be carried out: %s", problem)
