"""The nodes that every cluster has: made by its first broker, and again when somebody deletes one.

Without one of them the tree cannot be read as a whole, or a commit has no place to write to.
"""

from __future__ import annotations

import asyncio
import contextlib

from moldau.cluster.zookeeper.client.port import NodeExists, UnknownOutcome, ZooKeeperSession
from moldau.cluster.zookeeper.nodes import paths


async def missing_roots(session: ZooKeeperSession) -> list[str]:
    """Return those that are not there."""
    found = await asyncio.gather(*(session.exists(path) for path in paths.CREATED_AT_START))
    pairs = zip(paths.CREATED_AT_START, found, strict=True)
    return [path for path, stat in pairs if stat is None]


async def create_roots(session: ZooKeeperSession) -> None:
    """Create those that are not there, with their parents."""
    for path in (*await missing_roots(session), paths.CLUSTER_ID):
        parts = path.split("/")[1:]
        if path == paths.CLUSTER_ID:
            parts = parts[:-1]
        for depth in range(1, len(parts) + 1):
            place = "/" + "/".join(parts[:depth])
            while await session.exists(place) is None:
                with contextlib.suppress(NodeExists, UnknownOutcome):
                    await session.create(place)
