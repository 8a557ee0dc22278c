"""What a test asks of its brokers through the client: topics created, and all their records.

`Client` is what a client of the test is given, so that it works on real and on virtual time.
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
"""The arguments of a client that say where the brokers are, and how they are reached."""

POLL_MS: Final = 1_000
"""How long one look at a topic may take; markers of transactions are passed without a record."""

FETCH_WAIT_MS: Final = 10
"""Nothing is waited for that has not been written yet."""


async def create_topics(
    client: Client,
    topics: Mapping[str, int],
    configs: Mapping[str, str] | None = None,
    replication_factor: int | None = None,
) -> None:
    """Create topics by their numbers of partitions."""
    async with AsyncAdmin(**client) as admin:
        for name, partitions in topics.items():
            await admin.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=dict(configs or {}),
            )


async def read_records(client: Client, topic: str) -> list[Record[Any, Any]]:
    """Read all there is in a topic now, partition by partition; of transactions the committed."""
    async with AsyncAdmin(**client) as admin:
        await admin.describe_topic(topic)  # a consumer waits for topics that are not there
    consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
        **client,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    )
    found: list[Record[Any, Any]] = []
    async with consumer:
        found_partitions = await consumer.partitions_for(topic)
        ends = await consumer.end_offsets(found_partitions)
        consumer.assign(ends)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                found += await consumer.poll(timeout_ms=POLL_MS)
    return sorted(found, key=attrgetter("partition"))


def call(work: Coroutine[Any, Any, T]) -> T:
    """Do a client's work for a test that is not asynchronous."""
    portal = Portal("test-client")
    try:
        return portal.call(work)
    finally:
        portal.close()
