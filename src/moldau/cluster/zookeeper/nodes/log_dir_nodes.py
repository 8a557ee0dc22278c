"""The notification that a broker has lost a log directory: /log_dir_event_notification.

It names the broker only. Which replicas are gone, the broker answers when it is asked.
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.nodes.node_content import decode_object, encode_object

_FAILED: Final = 1


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """Encode that a log directory of this broker has failed."""
    return encode_object({"version": 1, "broker": broker_id, "event": _FAILED})


def decode_log_dir_event(path: str, data: bytes | None) -> BrokerId:
    """Decode which broker has lost a log directory; there is one kind of event."""
    return BrokerId(decode_object(path, data).number("broker"))
