"""Failures that are tried again later, without holding up what comes behind them.

A payment that fails is tried again after one second and after ten; what fails once more becomes a
dead letter, with its reason in the headers. A payment that is no number is hopeless at once.

    python examples/retry_topics.py 127.0.0.1:9092 payments
"""

from __future__ import annotations

import argparse
import asyncio

from moldau import AsyncAdmin, AsyncConsumer, AsyncProducer, Record
from moldau.client.errors import TopicAlreadyExists
from moldau.client.processing import KeyedWorkers, RetryTopics, graceful


async def pay(record: Record[bytes, bytes]) -> None:
    amount = int(record.value)
    if amount < 0:
        raise RuntimeError(f"the bank refuses {amount}")
    print(f"paid {amount} from {record.topic}", flush=True)


async def create(servers: str, topics: list[str]) -> None:
    async with AsyncAdmin(servers) as admin:
        for topic in topics:
            try:
                await admin.create_topic(topic)
            except TopicAlreadyExists:
                continue


async def run(arguments: argparse.Namespace) -> None:
    servers, topic, group = arguments.servers, arguments.topic, arguments.group
    async with AsyncProducer[bytes, bytes](servers) as producer:
        retries = RetryTopics(
            producer, group=group, delays_ms=arguments.delays_ms, hopeless=(ValueError,)
        )
        retry_topics = retries.topics(topic)
        await create(servers, [topic, *retry_topics, retries.dead_letter_topic(topic)])
        async with AsyncConsumer[bytes, bytes](
            servers,
            group_id=group,
            topics=[topic, *retry_topics],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            workers = KeyedWorkers(consumer, retries.guard(pay), due_ms=retries.due_ms)
            with graceful(workers.stop):
                await workers.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--group", default="bank")
    parser.add_argument("--delays-ms", type=int, nargs="*", default=[1_000, 10_000])
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
