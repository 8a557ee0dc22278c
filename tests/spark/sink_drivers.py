"""Drivers of Spark's for tests of the sink: processes that publish, and can be killed or held up.

Nothing of Spark is in them. A driver is a process that is given what tasks have staged and
publishes it; after any step of that it can be killed, or be held until it is told to go on.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from moldau.base.errors import UserError
from moldau.spark.sink.helping_topics import STAGING_PARTITIONS
from moldau.spark.sink.options import SinkOptions
from moldau.spark.sink.publication import PublicationOutcome, Publisher, Step, Writer
from moldau.spark.sink.staging import Share, StagedRows, stage

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([Publisher.__module__])

PATIENCE_S = 60


def drive(
    channel: Connection,
    options: dict[str, str],
    query: str,
    batches: Sequence[tuple[int, list[StagedRows]]],
    stop_at: int | str | None,
    *,
    dies: bool,
) -> None:
    """Publish batches one after the other, and stop once: after so many steps, or after one."""
    faulthandler.dump_traceback_later(PATIENCE_S * 0.9)  # whoever waits for it reads where it is
    steps = count(1)

    def after(step: Step) -> None:
        nonlocal stop_at
        if stop_at in (next(steps), step.name):
            stop_at = None
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            channel.send(step.name)
            channel.recv()

    publisher = Publisher(SinkOptions.from_options(options), Writer.of_query(query), after=after)
    try:
        for batch_id, staged in batches:
            outcome = publisher.publish(batch_id, staged)
            if outcome is PublicationOutcome.PUBLISHED:
                publisher.clean(staged)
        channel.send(outcome.name)
    except UserError as refused:
        channel.send(str(refused))
    finally:
        publisher.give_up()


class Driver:
    """A driver that runs in a process of its own."""

    def __init__(
        self,
        options: dict[str, str],
        query: str,
        batches: Sequence[tuple[int, list[StagedRows]]],
        stop_at: int | str | None = None,
        *,
        dies: bool = False,
    ) -> None:
        self._channel, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(
            target=drive, args=(theirs, options, query, batches, stop_at), kwargs={"dies": dies}
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(PATIENCE_S)
        self._channel.close()

    def said(self) -> str | None:
        """Return what it says next: a step, an outcome, an error; None if it is dead."""
        if not self._channel.poll(PATIENCE_S):
            raise AssertionError("the driver neither ends nor dies")
        try:
            word: str = self._channel.recv()
        except EOFError:
            return None
        return word

    def is_silent(self, for_s: float) -> bool:
        """Tell whether it says nothing for a while."""
        return not self._channel.poll(for_s)

    def go_on(self) -> None:
        """Let it go on that was held up."""
        self._channel.send("go on")


def frame(values: Iterable[bytes]) -> pa.RecordBatch:
    """Return rows with these values; every other one has a key."""
    given = list(values)
    keys = [value if number % 2 else None for number, value in enumerate(given)]
    return pa.record_batch({"key": pa.array(keys, pa.binary()), "value": given})


class Tasks:
    """Stages the rows of batches as tasks of Spark would, and not the same way twice."""

    def __init__(self, options: dict[str, str], query: str, seed: int) -> None:
        self.options = SinkOptions.from_options(options)
        self.query = query
        self.random = random.Random(seed)
        self._attempts = count(1)

    def staged(self, batch_id: int, values: Sequence[bytes]) -> list[StagedRows]:
        """Deal rows out to tasks; some tasks are run twice, and only one of the two counts."""
        shuffled = list(values)
        self.random.shuffle(shuffled)
        task_count = self.random.randrange(1, 4)
        stride = self.random.choice((1, STAGING_PARTITIONS))  # the second puts all in one partition
        messages = []
        for task in range(task_count):
            own = shuffled[task::task_count]
            attempts = [
                self.attempt(batch_id, task * stride, own)
                for _ in range(self.random.randrange(1, 3))
            ]
            messages.append(self.random.choice(attempts))
        return messages

    def attempt(self, batch_id: int, task: int, values: Sequence[bytes]) -> StagedRows:
        """Run a task once."""
        share = Share(self.query, batch_id, task, next(self._attempts))
        return stage(self.options, share, [frame(values)])


class CommittedRecords:
    """A reader of committed records, by a client that is not ours."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "none",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )

    def values(self, topic: str) -> Counter[bytes]:
        """Return the values that it finds in a topic, with how often it does."""
        found: Counter[bytes] = Counter()
        left = set(self._consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
        self._consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in left])
        while left:
            message: Any = self._consumer.poll(PATIENCE_S)
            if message is None:
                raise AssertionError(f"{topic} could not be read to its end")
            if message.error() is None:
                found[message.value()] += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(message.error())
        return found

    def close(self) -> None:
        self._consumer.close()
