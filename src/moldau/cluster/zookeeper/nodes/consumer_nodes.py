"""The nodes of consumer groups before Kafka 0.9, below /consumers: the committed offsets.

The old consumers write these nodes themselves. Of the other nodes below /consumers only the paths
are known (`paths`).
"""

from __future__ import annotations

from moldau.base.ids import Offset
from moldau.cluster.zookeeper.nodes.node_content import INT64_MAX, decode_decimal, encode_decimal


def encode_offset(offset: Offset) -> bytes:
    """Encode a committed offset."""
    return encode_decimal(offset)


def decode_offset(path: str, data: bytes | None) -> Offset:
    """Decode a committed offset."""
    return Offset(decode_decimal(path, data, INT64_MAX))
