"""The node /migration: it says that the metadata has moved to a quorum, and the tree is outdated.

Kafka has a node of this name while it moves a cluster itself. Ours has its fields, as they are when
a KRaft controller is in charge, and two of our own. Without those it is Kafka's node. It may be
left from a move that was given up, so it forbids nothing.
"""

from __future__ import annotations

from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.cluster.zookeeper.nodes.node_content import (
    INT32_MAX,
    INT64_MAX,
    decode_object,
    encode_object,
)

MIGRATION: Final = "/migration"

_NOBODY: Final = -1
_END_OFFSET: Final = "moldau_end_offset"
_CHECKSUM: Final = "moldau_checksum"
_CHECKSUM_MAX: Final = 2**32 - 1


class MigrationNode(NamedTuple):
    """With which snapshot the quorum began."""

    end_offset: int
    epoch: int
    checksum: int
    """Of the bytes of the snapshot, which are the same on all voters."""


def encode_migration(node: MigrationNode) -> bytes:
    """Encode our node."""
    return encode_object(
        {
            "version": 0,
            "kraft_metadata_offset": node.end_offset - 1,
            "kraft_controller_id": _NOBODY,
            "kraft_metadata_epoch": node.epoch,
            "kraft_controller_epoch": node.epoch,
            _END_OFFSET: node.end_offset,
            _CHECKSUM: node.checksum,
        }
    )


def decode_migration(data: bytes | None) -> MigrationNode | None:
    """Decode our node; None if it is Kafka's."""
    fields = decode_object(MIGRATION, data)
    if _END_OFFSET not in fields:
        return None
    return MigrationNode(
        fields.number(_END_OFFSET, least=1, most=INT64_MAX),
        fields.number("kraft_metadata_epoch", most=INT32_MAX),
        fields.number(_CHECKSUM, most=_CHECKSUM_MAX),
    )
