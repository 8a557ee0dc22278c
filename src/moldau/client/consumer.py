"""The consumer, for asyncio and for threads: the same names, settings and behaviour.

    async with AsyncConsumer("localhost:9092", group_id="g", topics=["t"]) as consumer:
        async for record in consumer:                       # or
            print(record.offset, record.value)
        async for batch in consumer.batches(): ...          # lists of records of one partition
        records = await consumer.poll(timeout_ms=1000)      # whatever is there

    with Consumer("localhost:9092", group_id="g", topics=["t"]) as consumer:
        for record in consumer: ...

Records are fetched ahead, and heartbeats are sent, whatever the program does meanwhile. A record is
handed out once; it counts as done with when the next one is asked for (of a batch or a poll, when
more is asked for), and only then may it be committed automatically.
"""

from __future__ import annotations

from moldau.client.consuming.asynchronous import AsyncConsumer
from moldau.client.consuming.coordination import GroupMetadata, Subscription
from moldau.client.consuming.listeners import RebalanceListener
from moldau.client.consuming.threaded import Consumer
from moldau.engine.offset_lookup import OffsetAndTimestamp

__all__ = [
    "AsyncConsumer",
    "Consumer",
    "GroupMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
    "Subscription",
]
