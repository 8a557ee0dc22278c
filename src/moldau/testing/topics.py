"""Creates topics for a test and reads their records, through the client.

`Client` holds what differs between real and virtual time.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar

from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer
from moldau.client.records import Record
from moldau.engine.portal import Portal

T = TypeVar("T")

Client = Mapping[str, Any]
"""The arguments of a client that say where the brokers are and how to reach them."""

POLL_MS: Final = 1_000
"""The longest poll; one that passes only transaction markers returns no record."""

FETCH_WAIT_MS: Final = 10
"""Short: all records that are to be read are there already."""


async def create_topics(
    client: Client,
    topics: Mapping[str, int],
    configs: Mapping[str, str] | None = None,
    replication_factor: int | None = None,
) -> None:
    """Create topics with so many partitions each."""
    async with AsyncAdmin(**client) as admin:
        for name, partitions in topics.items():
            await admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=dict(configs or {}),
            )


async def read_records(client: Client, topic: str) -> list[Record[Any, Any]]:
    """Read a topic from start to end, partition by partition, as `read_committed` does."""
    async with AsyncAdmin(**client) as admin:
        await admin.describe_topic(topic)  # a consumer would wait for a topic that does not exist
    consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
        **client,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    found: list[Record[Any, Any]] = []
    async with consumer:
        ends = await consumer.end_offsets(await consumer.partitions_for(topic))
        consumer.assign(ends)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                found += await consumer.poll(timeout_ms=POLL_MS)
    return sorted(found, key=attrgetter("partition"))


def call(work: Coroutine[Any, Any, T]) -> T:
    """Run a client's coroutine for a test that is not asynchronous."""
    portal = Portal("test-client")
    try:
        return portal.call(work)
    finally:
        portal.close()
