"""Deliveries for type checkers: futures of `asyncio` and of `concurrent.futures`.

A separate module, because a compiled class cannot have a base that only type checkers see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.client.errors import ClientError
from moldau.client.producing import deliveries
from moldau.client.records import RecordMetadata

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures
    import threading

    class AsyncDelivery(  # type: ignore[misc]  # its slots
        deliveries.AsyncDelivery, asyncio.Future[RecordMetadata]
    ):
        """A record sent by an AsyncProducer."""

    class Delivery(deliveries.Delivery, concurrent.futures.Future[RecordMetadata]):
        """A record sent by a Producer."""

        # Compiled, an annotation would refuse a wrong type before the method does.
        def result(self, timeout: float | None = None) -> RecordMetadata: ...
        def exception(self, timeout: float | None = None) -> ClientError | None: ...

        # Properties in truth; `concurrent.futures` reads them only.
        _condition: threading.Condition  # type: ignore[assignment]
        _state: str
        _waiters: list[Any]

else:
    AsyncDelivery = deliveries.AsyncDelivery
    Delivery = deliveries.Delivery
