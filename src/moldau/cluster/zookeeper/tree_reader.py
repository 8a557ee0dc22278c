"""Reads the tree through a session, many nodes at a time, with a watch on each that others write.

States of partitions are not watched: the controller writes them, and whoever else does says so in
`/isr_change_notification`. Only one that is malformed is watched (`tree_following`). Configs are
not watched either; `/config/changes` tells of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from moldau.cluster.in_turns import in_turns, paused
from moldau.cluster.zookeeper.client.port import NoNode, Watch, ZooKeeperSession
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_nodes import (
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    TOPICS,
    ConfigEntity,
    config_path,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.steps import Steps
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.topic_nodes import TopicNode, decode_topic

READS_AT_ONCE: Final = 200
"""Begun in one turn of the event loop, which takes a millisecond or two."""

WATCHED_PARENTS: Final = (
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.DELETE_TOPICS,
    paths.CONFIG_CHANGES,
    paths.ISR_CHANGES,
    paths.LOG_DIR_EVENTS,
)
"""Whose children come and go."""

WATCHED_NODES: Final = (
    paths.FEATURE,
    paths.REASSIGN_PARTITIONS,
    paths.PREFERRED_REPLICA_ELECTION,
)
"""Single nodes that may not exist."""

_CONFIG_TYPES: Final = (TOPICS, BROKERS, CLIENT_METRICS, GROUPS)

Changed = Callable[[str], None]
"""Told the path of a node whose content or children may have changed."""


class TreeReader:
    """Reads nodes in one session."""

    def __init__(self, session: ZooKeeperSession, changed: Changed | None = None) -> None:
        """Without `changed` nothing is watched."""
        self._session = session
        self._changed = changed
        self.watched: set[str] = set()
        """Nodes with a watch that was not called yet."""

    def _watch(self, path: str) -> Watch | None:
        if self._changed is None:
            return None
        self.watched.add(path)
        return lambda: self._called(path)

    def _called(self, path: str) -> None:
        assert self._changed is not None
        self.watched.discard(path)
        self._changed(path)

    async def read_tree(self) -> dict[str, StoredNode]:
        """Read all nodes that make the image, and what tools ask for."""
        nodes: dict[str, StoredNode] = {}
        for path in WATCHED_NODES:
            await self._take(nodes, path, watched=True)
        for path in (paths.CLUSTER_ID, paths.PRODUCER_ID_BLOCK):
            await self._take(nodes, path)
        for parent in WATCHED_PARENTS:
            names = await self.children(parent)
            if parent in {paths.BROKER_IDS, paths.TOPICS, paths.DELETE_TOPICS}:
                places = [f"{parent}/{name}" async for name in paused(names)]
                await self._take_all(nodes, places, watched=parent != paths.DELETE_TOPICS)
        await self._take_states(nodes)
        for entity_type in _CONFIG_TYPES:
            parent = f"{paths.CONFIG}/{entity_type}"
            names = await self._children_if_any(parent)
            places = [f"{parent}/{name}" async for name in paused(names)]
            await self._take(nodes, parent)
            await self._take_all(nodes, places)
        return nodes

    async def _take_states(self, nodes: dict[str, StoredNode]) -> None:
        """Read the states of all topics, and the parents of states where some are missing.

        The parent is read also where a topic has no id: it may have a copy.
        """
        topics = [
            path async for path in paused(nodes) if paths.child(paths.TOPICS, path) is not None
        ]
        states: list[str] = []
        async for path in paused(topics):
            topic = await in_turns(_decoded(path, nodes[path]))
            if topic is not None:
                name = paths.child(paths.TOPICS, path) or ""
                states += [
                    paths.state(name, each) async for each in paused(range(len(topic.assignments)))
                ]
                if topic.topic_id is None:
                    await self._take(nodes, paths.partitions(name))
        await self._take_all(nodes, states)
        missing: dict[str, None] = {}
        async for state in paused(states):
            if state not in nodes:
                missing[state.rpartition("/partitions/")[0]] = None
        for path in missing:
            await self._take_parents(nodes, path)

    async def children(self, parent: str) -> list[str]:
        """Name the children of a node that exists, and watch them."""
        return await self._session.children(parent, self._watch(parent))

    async def read(self, path: str, *, watched: bool = False) -> StoredNode | None:
        """Read a node; None if it does not exist, and then the watch is for its creation."""
        watch = self._watch(path) if watched else None
        while True:
            try:
                node = await self._session.read(path, watch)
            except NoNode:
                if watch is None or await self._session.exists(path, watch) is None:
                    return None
                continue
            return StoredNode(node.data, node.stat.version, node.stat.czxid)

    async def read_topic(self, name: str, states: Iterable[int]) -> dict[str, StoredNode]:
        """Read these states of a topic, and its configs."""
        nodes: dict[str, StoredNode] = {}
        wanted = [paths.state(name, index) async for index in paused(states)]
        await self._take_all(nodes, wanted)
        is_missing = [state async for state in paused(wanted) if state not in nodes]
        if is_missing:
            await self._take_parents(nodes, paths.topic(name))
        await self._take(nodes, config_path(ConfigEntity(TOPICS, name)))
        return nodes

    async def _take_parents(self, nodes: dict[str, StoredNode], topic: str) -> None:
        """Read the parents of states: a controller that died may have left them without any."""
        parent = f"{topic}/partitions"
        names = await self._children_if_any(parent)
        await self._take_all(nodes, [parent, *(f"{parent}/{name}" for name in names)])

    async def names_below(self, path: str) -> list[str]:
        """Name a node and all nodes below it, as far as they exist."""
        found, waiting = [], [path]
        while waiting:
            place = waiting.pop()
            found.append(place)
            waiting += [f"{place}/{name}" for name in await self._children_if_any(place)]
        return found

    async def _children_if_any(self, parent: str) -> list[str]:
        try:
            return await self._session.children(parent)
        except NoNode:
            return []

    async def _take(
        self, nodes: dict[str, StoredNode], path: str, *, watched: bool = False
    ) -> None:
        node = await self.read(path, watched=watched)
        if node is not None:
            nodes[path] = node

    async def _take_all(
        self, nodes: dict[str, StoredNode], places: Iterable[str], *, watched: bool = False
    ) -> None:
        waiting = list(places)
        for first in range(0, len(waiting), READS_AT_ONCE):
            batch = waiting[first : first + READS_AT_ONCE]
            await asyncio.gather(*(self._take(nodes, path, watched=watched) for path in batch))


def _decoded(path: str, node: StoredNode) -> Steps[TopicNode | None]:
    """Decode a topic; None if it is malformed."""
    try:
        return (yield from decode_topic(path, node.data))
    except MalformedNode:
        return None
