"""Transactional producers of several libraries behind one face, each with a member to feed it.

A scenario is written once and run with every client. What a client refuses to go on with is raised
as `Refused` under the name that its library gives it; what else goes wrong is an error like any
other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka as confluent
import kafka
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError as PythonKafkaError

from kafka_harness.distribution import jars, require
from kafka_harness.java import QUICK_START, QUIET, compiled
from kafka_harness.waiting import eventually

TIMEOUT_S = 60
POLL_S = 0.1
JOIN_MS = 10_000
"""Longer than any join: kafka-python 3.0.12 loses the assignment of one that outlives its poll."""
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

JAVA_SOURCE = Path(__file__).parents[1] / "java" / "TransactionalClient.java"


class Refused(Exception):  # noqa: N818 - it is an answer rather than an error of the test
    """The client was told no, and passed it on."""

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


class TransactionalClient(ABC):
    """One transactional id, and the member of a group whose offsets go into its transactions."""

    @abstractmethod
    def init(self) -> None:
        """Take the transactional id, away from whoever has it."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, value: str, key: str = "k") -> None:
        """Write a record in the transaction, and wait until it is acknowledged."""

    def send_and_commit(self, topic: str, partition: int, value: str) -> None:
        """Write a last record and end the transaction; either may be where it is refused."""
        self.send(topic, partition, value)
        self.commit()

    def send_offsets_and_commit(self) -> None:
        """Put the offsets in and end the transaction; either may be where it is refused."""
        self.send_offsets()
        self.commit()

    @abstractmethod
    def commit(self) -> None:
        """End the transaction so that it counts."""

    @abstractmethod
    def abort(self) -> None:
        """End the transaction so that it never was."""

    @abstractmethod
    def join(self, group: str, topic: str) -> None:
        """Become a member of a group that reads a topic."""

    @abstractmethod
    def poll(self, count: int) -> list[str]:
        """Read so many records as a member."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group, and remember as whom one was in it."""

    @abstractmethod
    def send_offsets(self) -> None:
        """Put the place behind all that was polled into the transaction."""

    @abstractmethod
    def read(self, topic: str, partition: int, isolation: str, end: int) -> list[str]:
        """Read a partition up to this offset, and see nothing of what lies behind it."""

    @abstractmethod
    def close(self) -> None:
        """End it, without a word to its transaction."""


class Confluent(TransactionalClient):
    """librdkafka, through confluent-kafka."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._address = address
        self._producer = confluent.Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "linger.ms": 0,
                # What is fatal is heard from the calls; without this it is thrown into callbacks.
                "error_cb": lambda _: None,
            }
        )
        self._member: confluent.Consumer | None = None
        self._metadata: object = None
        self._positions: dict[tuple[str, int], int] = {}

    def init(self) -> None:
        with _refusals():
            self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        with _refusals():
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str, key: str = "k") -> None:
        said: list[Any] = []
        with _refusals():
            self._producer.produce(
                topic,
                value,
                key,
                partition=partition,
                on_delivery=lambda error, _: said.append(error),
            )
            assert self._producer.flush(TIMEOUT_S) == 0
        if said[0] is not None:
            raise Refused(said[0].name(), said[0].str())

    def commit(self) -> None:
        with _refusals():
            self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        with _refusals():
            self._producer.abort_transaction(TIMEOUT_S)

    def join(self, group: str, topic: str) -> None:
        self._member = confluent_consumer(self._address, group, READ_COMMITTED)
        self._member.subscribe([topic])

    def poll(self, count: int) -> list[str]:
        member = self._member
        assert member is not None
        messages = member.consume(count, TIMEOUT_S)
        assert len(messages) == count
        for message in messages:
            assert message.error() is None, message.error()
            self._positions[message.topic(), message.partition()] = message.offset() + 1
        self._metadata = member.consumer_group_metadata()
        return [message.value().decode() for message in messages]

    def leave(self) -> None:
        assert self._member is not None
        self._member.close()
        self._member = None

    def send_offsets(self) -> None:
        offsets = [confluent.TopicPartition(*key, at) for key, at in self._positions.items()]
        with _refusals():
            self._producer.send_offsets_to_transaction(offsets, self._metadata, TIMEOUT_S)

    def read(self, topic: str, partition: int, isolation: str, end: int) -> list[str]:
        values, found_end = read_to_the_end(self._address, topic, partition, isolation)
        assert found_end == end
        return values

    def close(self) -> None:
        if self._member is not None:
            self._member.close()
        # Its destructor would wait for what is under way; nothing is, or nobody asks for it.
        self._producer.purge()
        # Now, and not with the next test: it would go on looking for a broker that has stopped.
        del self._producer


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (confluent.KafkaException, SystemError) as error:
        # What is fatal may be thrown while a callback runs, and then comes wrapped.
        refusal = error.__cause__ if isinstance(error, SystemError) else error
        if not isinstance(refusal, confluent.KafkaException):
            raise
        raise Refused(refusal.args[0].name(), refusal.args[0].str()) from error


def confluent_consumer(
    address: str, group: str, isolation: str, **more: object
) -> confluent.Consumer:
    """Make a consumer that commits nothing of itself."""
    return confluent.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def read_to_the_end(
    address: str, topic: str, partition: int, isolation: str
) -> tuple[list[str], int]:
    """Read a partition up to where a reader must wait; return the values and that offset."""
    reader = confluent_consumer(address, "nobody", isolation, enable_partition_eof=True)
    found: list[str] = []
    try:
        reader.assign([confluent.TopicPartition(topic, partition, 0)])
        while True:
            message = reader.poll(TIMEOUT_S)
            assert message is not None, f"{found}, then neither a record nor the end"
            error = message.error()
            if error is None:
                found.append(message.value().decode())
            else:
                assert error.code() == confluent.KafkaError._PARTITION_EOF, error
                return found, message.offset()
    finally:
        reader.close()


class KafkaPython(TransactionalClient):
    """kafka-python."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._address = address
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            delivery_timeout_ms=30_000,
        )
        self._member: kafka.KafkaConsumer | None = None
        self._metadata: object = None
        self._positions: dict[kafka.TopicPartition, Any] = {}

    def _do(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except PythonKafkaError as error:
            raise Refused(type(error).__name__, str(error)) from error

    def init(self) -> None:
        self._do(self._producer.init_transactions)

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str, key: str = "k") -> None:
        self._do(
            lambda: self._producer.send(
                topic, value.encode(), key.encode(), partition=partition
            ).get(TIMEOUT_S)
        )

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def join(self, group: str, topic: str) -> None:
        self._member = self._consumer(group, READ_COMMITTED)
        self._member.subscribe([topic])

    def poll(self, count: int) -> list[str]:
        member = self._member
        assert member is not None
        found: list[str] = []

        def enough() -> bool:
            for partition, records in member.poll(timeout_ms=JOIN_MS).items():
                found.extend(record.value.decode() for record in records)
                at = records[-1].offset + 1
                self._positions[partition] = kafka.OffsetAndMetadata(at, "", -1)
            return len(found) >= count

        eventually(enough, f"{count} records", TIMEOUT_S)
        self._metadata = member.group_metadata()
        return found

    def leave(self) -> None:
        assert self._member is not None
        self._member.close()
        self._member = None

    def send_offsets(self) -> None:
        self._do(
            lambda: self._producer.send_offsets_to_transaction(self._positions, self._metadata)
        )

    def read(self, topic: str, partition: int, isolation: str, end: int) -> list[str]:
        place = kafka.TopicPartition(topic, partition)
        reader = self._consumer(None, isolation)
        found: list[str] = []

        def done() -> bool:
            got = reader.poll(timeout_ms=100).get(place, ())
            found.extend(record.value.decode() for record in got)
            return reader.position(place) >= end

        try:
            reader.assign([place])
            eventually(done, f"the end at {end}", TIMEOUT_S)
            assert reader.end_offsets([place]) == {place: end}
        finally:
            reader.close()
        return found

    def _consumer(self, group: str | None, isolation: str) -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(
            bootstrap_servers=self._address,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            # It may join before it knows its topic, and be assigned nothing until it looks again.
            metadata_max_age_ms=1000,
        )

    def close(self) -> None:
        if self._member is not None:
            self._member.close()
        self._producer.close(0)


class AioKafka(TransactionalClient):
    """aiokafka, whose loop runs while something is asked of it."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._address = address
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._runner = asyncio.Runner()
        self._producer: aiokafka.AIOKafkaProducer | None = None
        self._member: aiokafka.AIOKafkaConsumer | None = None
        self._group = ""
        self._positions: dict[aiokafka.TopicPartition, int] = {}

    def _do(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(TIMEOUT_S):
                return await work()

        try:
            return self._runner.run(bounded())
        except AioKafkaError as error:
            raise Refused(type(error).__name__, str(error)) from error

    def init(self) -> None:
        async def work() -> None:
            self._producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self._address,
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._timeout_ms,
            )
            await self._producer.start()

        self._do(work)

    @property
    def producer(self) -> aiokafka.AIOKafkaProducer:
        assert self._producer is not None
        return self._producer

    def begin(self) -> None:
        self._do(self.producer.begin_transaction)

    def send(self, topic: str, partition: int, value: str, key: str = "k") -> None:
        self._do(
            lambda: self.producer.send_and_wait(
                topic, value.encode(), key.encode(), partition=partition
            )
        )

    def commit(self) -> None:
        self._do(self.producer.commit_transaction)

    def abort(self) -> None:
        self._do(self.producer.abort_transaction)

    def join(self, group: str, topic: str) -> None:
        self._group = group

        async def work() -> None:
            self._member = self._consumer(group, READ_COMMITTED)
            self._member.subscribe([topic])
            await self._member.start()

        self._do(work)

    def poll(self, count: int) -> list[str]:
        async def work() -> list[str]:
            assert self._member is not None
            records = [await self._member.getone() for _ in range(count)]
            for record in records:
                place = aiokafka.TopicPartition(record.topic, record.partition)
                self._positions[place] = record.offset + 1
            return [record.value.decode() for record in records]

        return self._do(work)

    def leave(self) -> None:
        assert self._member is not None
        self._do(self._member.stop)
        self._member = None

    def send_offsets(self) -> None:
        self._do(lambda: self.producer.send_offsets_to_transaction(self._positions, self._group))

    def read(self, topic: str, partition: int, isolation: str, end: int) -> list[str]:
        place = aiokafka.TopicPartition(topic, partition)

        async def work() -> list[str]:
            reader = self._consumer(None, isolation)
            await reader.start()
            found: list[str] = []
            try:
                reader.assign([place])
                while await reader.position(place) < end:
                    got = await reader.getmany(place, timeout_ms=100)
                    found += [record.value.decode() for record in got.get(place, ())]
            finally:
                await reader.stop()
            return found

        return self._do(work)

    def _consumer(self, group: str | None, isolation: str) -> aiokafka.AIOKafkaConsumer:
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._address,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )

    def close(self) -> None:
        async def work() -> None:
            if self._member is not None:
                await self._member.stop()
            if self._producer is not None:
                with contextlib.suppress(AioKafkaError):
                    await self._producer.stop()

        try:
            self._do(work)
        finally:
            self._runner.close()


class JavaMachine:
    """A Java process that runs any number of clients."""

    def __init__(self, version: str, address: str) -> None:
        self.version = version
        classpath = f"{jars(version) / '*'}:{compiled(version, JAVA_SOURCE)}"
        self._process = subprocess.Popen(
            [require("java"), *QUICK_START, QUIET, "-cp", classpath, JAVA_SOURCE.stem, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._numbers = itertools.count()

    def next_name(self) -> str:
        """Return a name that no client has yet."""
        return f"client{next(self._numbers)}"

    def tell(self, *words: object) -> str:
        """Give a command and wait for the answer; the machine bounds its own time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        outcome, _, rest = self._process.stdout.readline().rstrip("\n").partition(" ")
        if outcome == "error":
            name, _, text = rest.partition(" ")
            raise Refused(name, text)
        assert outcome == "ok", f"Java {self.version} ended at {words}"
        return rest

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Java(TransactionalClient):
    """Kafka's own client, of any version."""

    def __init__(self, machine: JavaMachine, transactional_id: str, timeout_ms: int) -> None:
        self._machine = machine
        self._name = machine.next_name()
        self._tell("open", transactional_id, timeout_ms)

    def _tell(self, *words: object) -> str:
        return self._machine.tell(self._name, *words)

    def init(self) -> None:
        self._tell("init")

    def begin(self) -> None:
        self._tell("begin")

    def send(self, topic: str, partition: int, value: str, key: str = "k") -> None:
        self._tell("send", topic, partition, key, value)

    def send_all(self, topic: str, partition: int, values: list[str]) -> None:
        """Write many records to one partition, and wait for all of them."""
        self._tell("sendall", topic, partition, *values)

    def commit(self) -> None:
        self._tell("commit")

    def abort(self) -> None:
        self._tell("abort")

    def join(self, group: str, topic: str) -> None:
        self._tell("join", group, topic)

    def poll(self, count: int) -> list[str]:
        return self._tell("poll", count).split()

    def poll_records(self) -> list[tuple[int, str]]:
        """Read what there is for the member, perhaps nothing: partitions and values."""
        found = [word.split(":", 1) for word in self._tell("pollrecords").split()]
        return [(int(partition), value) for partition, value in found]

    def leave(self) -> None:
        self._tell("leave")

    def send_offsets(self) -> None:
        self._tell("offsets")

    def read(self, topic: str, partition: int, isolation: str, end: int) -> list[str]:
        return self._tell("read", topic, partition, isolation, end).split()

    def close(self) -> None:
        self._tell("close")
