"""Nodes that somebody has put below a node that has to be deleted.

ZooKeeper deletes no node with children. Kafka deletes such a node with all that is below it. Who
only knows the nodes of a topic could never delete the topic, and each controller would resign.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.cluster.zookeeper.client.port import DeleteNode, ZooKeeperSession
from moldau.cluster.zookeeper.tree_reader import TreeReader


async def stray_deletions(
    session: ZooKeeperSession, path: str, expected: Collection[str] = ()
) -> list[DeleteNode]:
    """Return what deletes all nodes below a path but those expected, children first."""
    await session.sync()
    names = await TreeReader(session).names_below(path)
    strays = [one for one in names if one != path and one not in expected]
    return [DeleteNode(one) for one in sorted(strays, key=_depth, reverse=True)]


def _depth(path: str) -> int:
    return path.count("/")
