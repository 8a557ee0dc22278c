"""The nodes of the controller: /controller, ephemeral, and /controller_epoch.

Kafka writes version 2 of /controller from 3.4 on. It adds an epoch that only a migration to KRaft
uses; elsewhere it is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.nodes.node_content import (
    NO_TIMESTAMP,
    decode_decimal,
    decode_object,
    encode_decimal,
    encode_object,
)
from moldau.cluster.zookeeper.nodes.paths import CONTROLLER, CONTROLLER_EPOCH

NO_KRAFT_EPOCH: Final = -1

EPOCH_MAX: Final = 2**30
"""Of a controller, in what anybody may have written: no cluster elects as often, and epochs that
follow have to fit into 32 bits."""


@dataclass(frozen=True, slots=True)
class ControllerNode:
    """Which broker is the controller, and since when."""

    broker_id: BrokerId
    timestamp_ms: int = NO_TIMESTAMP
    kraft_controller_epoch: int = NO_KRAFT_EPOCH
    version: int = 2


def encode_controller(node: ControllerNode) -> bytes:
    """Encode version 1 or 2."""
    fields: dict[str, int | str] = {
        "version": node.version,
        "brokerid": node.broker_id,
        "timestamp": str(node.timestamp_ms),
    }
    if node.version >= 2:
        fields["kraftControllerEpoch"] = node.kraft_controller_epoch
    return encode_object(fields)


def decode_controller(data: bytes | None) -> ControllerNode:
    """Decode any version from 1 on."""
    fields = decode_object(CONTROLLER, data)
    return ControllerNode(
        BrokerId(fields.number("brokerid")),
        fields.decimal_text("timestamp", NO_TIMESTAMP),
        fields.number("kraftControllerEpoch", NO_KRAFT_EPOCH, least=NO_KRAFT_EPOCH),
        fields.number("version", 1, least=1),
    )


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode the epoch of the newest controller; that of the first one is 1."""
    return encode_decimal(epoch)


def decode_controller_epoch(data: bytes | None) -> int:
    """Decode the epoch of the newest controller."""
    return decode_decimal(CONTROLLER_EPOCH, data, EPOCH_MAX)
