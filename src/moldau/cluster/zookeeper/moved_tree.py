"""Whether the metadata of a tree has moved to a quorum: then no broker may go on with the tree.

Two sets of brokers would each think that they are the cluster. The mark stays for ever. A broker
looks for it at its start and when it registers again, and once more when it has won the seat of the
controller: the mark may have come in between, and who has won sees whatever was written before.
"""

from __future__ import annotations

from moldau.base.errors import UserError
from moldau.cluster.zookeeper.client.port import NoNode, ZooKeeperSession
from moldau.cluster.zookeeper.nodes.migration_node import (
    MIGRATION,
    MigrationNode,
    decode_migration,
)
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode


async def read_mark(session: ZooKeeperSession) -> MigrationNode | None:
    """Return the mark; None if the tree has none. A node that cannot be read is none of ours."""
    try:
        return decode_migration((await session.read(MIGRATION)).data)
    except (NoNode, MalformedNode):
        return None


async def refuse_moved(session: ZooKeeperSession) -> None:
    """Raise UserError if the metadata of this tree has moved."""
    if await read_mark(session) is not None:
        raise UserError(
            f"{MIGRATION} in ZooKeeper says that the metadata of this cluster has moved to a quorum"
            " (moldau cluster migrate): start this broker with the settings of a node of the"
            " quorum, with process.roles and without zookeeper.connect"
        )
