"""What this node's image of the metadata says of other brokers: where they are, and who is fenced.

One object for those who replicate: fetchers look for addresses, leaders ask who may join an ISR.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.ids import BrokerId
from moldau.base.network import Address
from moldau.cluster.image import MetadataImage


class LiveBrokers:
    """The other brokers, as far as this one knows now."""

    def __init__(self, image: Callable[[], MetadataImage], inter_broker_listener: str) -> None:
        self._image = image
        self._listener = inter_broker_listener

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        """Return the epoch of a broker's registration; None for one that is not registered."""
        broker = self._image().brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def is_eligible(self, broker_id: BrokerId) -> bool:
        """Tell whether a broker may join an ISR: neither fenced nor shutting down."""
        broker = self._image().brokers.get(broker_id)
        return broker is not None and broker.active

    def address(self, broker_id: BrokerId) -> Address | None:
        """Return where a broker is reached by others; None while that is not known."""
        broker = self._image().brokers.get(broker_id)
        if broker is not None:
            for endpoint in broker.endpoints:
                if endpoint.listener == self._listener:
                    return Address(endpoint.host, endpoint.port)
        return None
