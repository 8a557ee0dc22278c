"""Helpers around a consumer: ordered concurrency, retry topics, an orderly shutdown.

    async with AsyncConsumer(servers, group_id="billing", topics=["orders"],
                             enable_auto_commit=False) as consumer:
        workers = KeyedWorkers(consumer, handle, concurrency=32)
        with graceful(workers.stop):
            await workers.run()

`KeyedThreads` does the same with a `Consumer` and a plain handler, in threads.

Stands on the public faces of the client alone.
"""

from __future__ import annotations

from moldau.client.processing.graceful import graceful
from moldau.client.processing.retry_topics import RetryTopics
from moldau.client.processing.threads import KeyedThreads
from moldau.client.processing.workers import KeyedWorkers

__all__ = ["KeyedThreads", "KeyedWorkers", "RetryTopics", "graceful"]
