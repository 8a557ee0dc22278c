"""Exactly once into a database: results and offsets are written in one transaction of SQLite.

The group shares out the partitions, and the database says where each goes on: a crash at any point
leaves results and offsets together or neither. An offset only moves from where it was expected to
be, so a member that lost its partition without noticing changes nothing any more.

    python examples/offsets_in_sqlite.py 127.0.0.1:9092 payments totals.sqlite
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from collections.abc import Set as AbstractSet

from moldau import AsyncConsumer, RebalanceListener, Record, TopicPartition
from moldau.client.processing import graceful

SCHEMA = """
CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, number INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, number)
);
"""


class OvertakenError(Exception):
    """Another member has gone on with this partition."""


class Store:
    """The database: totals of accounts, and how far each partition is in them."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(SCHEMA)

    def next_offset(self, partition: TopicPartition) -> int:
        found = self._database.execute(
            "SELECT next_offset FROM offsets WHERE topic = ? AND number = ?", partition
        ).fetchone()
        return found[0] if found else 0

    def add(self, batch: list[Record[str, int]], expected: int) -> int:
        """Add up a batch of one partition, if that stands where expected; return where it is now.

        OvertakenError, with nothing changed, if it does not.
        """
        partition = TopicPartition(batch[0].topic, batch[0].partition)
        self._database.execute("BEGIN IMMEDIATE")
        try:
            if self.next_offset(partition) != expected:
                raise OvertakenError(f"{partition} is not at {expected} any more")
            self._database.executemany(
                "INSERT INTO totals VALUES (?, ?)"
                " ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                [(record.key, record.value) for record in batch],
            )
            reached = batch[-1].offset + 1
            self._database.execute(
                "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*partition, reached)
            )
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return reached


class FromStore(RebalanceListener):
    """Lets every partition go on where the database says."""

    def __init__(self, consumer: AsyncConsumer[str, int], store: Store) -> None:
        self._consumer = consumer
        self._store = store
        self.places: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, partitions: AbstractSet[TopicPartition]) -> None:
        for partition in partitions:
            self.places[partition] = self._store.next_offset(partition)
            self._consumer.seek(partition, self.places[partition])
            print(f"{partition} goes on at {self.places[partition]}", flush=True)


async def run(arguments: argparse.Namespace) -> None:
    store = Store(arguments.database)
    consumer = AsyncConsumer[str, int](
        arguments.servers,
        group_id=arguments.group,
        group_instance_id=arguments.instance,
        enable_auto_commit=False,
        isolation_level="read_committed",
        key_deserializer=bytes.decode,
        value_deserializer=int,
    )
    stopping = asyncio.Event()
    async with consumer:
        listener = FromStore(consumer, store)
        consumer.subscribe([arguments.topic], listener=listener)
        with graceful(stopping.set):
            while not stopping.is_set():
                await add_some(consumer, store, listener)


async def add_some(consumer: AsyncConsumer[str, int], store: Store, listener: FromStore) -> None:
    batches: dict[TopicPartition, list[Record[str, int]]] = {}
    for record in await consumer.poll(timeout_ms=500):
        batches.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
    for partition, batch in batches.items():
        try:
            listener.places[partition] = store.add(batch, listener.places[partition])
        except OvertakenError as error:
            print(error, flush=True)
            continue
        print(f"{partition} is at {listener.places[partition]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("database")
    parser.add_argument("--group", default="totals")
    parser.add_argument("--instance", help="a name that lasts: after a crash it goes on at once")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
