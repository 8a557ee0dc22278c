"""What clients of a cluster wrote, were told and have read, and what must hold of it.

Producers of several libraries write numbered records until it is enough, while a consumer reads
along. Afterwards every acknowledged record must be where its producer was told, no record may be
there twice, and each producer's records must be in order in each partition.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_harness.waiting import eventually
from moldau.client.producer import Delivery, Producer
from process.clusters import Cluster
from process.raw_client import RawClient

PAUSE_S = 0.004
"""Between two records of a writer: faults shall hit many batches, not few large ones."""
TIMEOUT_S = 100
"""How long a writer goes on over all faults; less than a test may take."""
SILENT = 2
"""Critical and worse: to be without a broker for a while is what librdkafka is made for."""


class History:
    """Everything that happened to one topic, as its clients saw it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        """By partition and offset."""
        self.failures: list[str] = []
        self._known: dict[tuple[int, int], bytes] = {}
        """All that anybody saw at an offset, or was told about it."""
        self._sent: dict[int, set[bytes]] = defaultdict(set)
        self._lock = threading.Lock()

    def sent(self, partition: int, value: bytes) -> None:
        with self._lock:
            self._sent[partition].add(value)

    def told(self, partition: int, offset: int, value: bytes) -> None:
        """Note that a producer was promised a record at an offset."""
        with self._lock:
            self.acknowledged[partition, offset] = value
            self._note(partition, offset, value)

    def saw(self, partition: int, offset: int, value: bytes) -> None:
        """Note that a consumer has read a record."""
        with self._lock:
            self._note(partition, offset, value)

    def failed(self, what: str) -> None:
        with self._lock:
            self.failures.append(what)

    def _note(self, partition: int, offset: int, value: bytes) -> None:
        before = self._known.setdefault((partition, offset), value)
        if before != value:
            self.failures.append(f"{partition}@{offset} was {before!r}, and is {value!r}")

    @property
    def count(self) -> int:
        return len(self.acknowledged)

    def lost(self, cluster: Cluster) -> list[bytes]:
        """Return what was acknowledged and is not there, or not at its place."""
        stored = dict(self._stored(cluster))
        return [value for place, value in self.acknowledged.items() if stored.get(place) != value]

    def check(self, cluster: Cluster) -> None:
        """Hold the topic to all its promises: no loss, no repetition, order, equal replicas."""
        assert not self.failures, self.failures[:5]
        assert not self.lost(cluster), self.lost(cluster)[:5]
        values: dict[int, list[bytes]] = defaultdict(list)
        for (partition, offset), value in self._stored(cluster):
            self.saw(partition, offset, value)
            values[partition].append(value)
        assert not self.failures, self.failures[:5]
        gone = [place for place in self._known if place[1] >= len(values[place[0]])]
        assert not gone, f"was read, and is gone: {gone[:5]}"
        for partition, found in values.items():
            twice = [value for value, count in Counter(found).items() if count > 1]
            assert not twice, f"{partition}: twice {twice[:5]}"
            assert set(found) <= self._sent[partition], f"{partition}: nobody sent it"
            _check_order(partition, found)
        cluster.check_replicas_equal(self.topic)

    def _stored(self, cluster: Cluster) -> Iterator[tuple[tuple[int, int], bytes]]:
        """Read the topic from its leaders."""
        for partition, state in cluster.describe(self.topic, cluster.serving[0]).items():
            with RawClient(cluster.address(state.leader)) as client:
                for record in client.read_all(self.topic, partition):
                    assert record.value is not None
                    yield (partition, record.offset), bytes(record.value)


def _check_order(partition: int, values: Sequence[bytes]) -> None:
    last: dict[bytes, int] = defaultdict(lambda: -1)
    for value in values:
        producer, number = value.split()
        assert int(number) > last[producer], f"{partition}: {value!r} after {last[producer]}"
        last[producer] = int(number)


class ClusterWriter(ABC):
    """One producer in its thread, which writes to all partitions in turn."""

    name: str

    def __init__(self, history: History, partitions: int) -> None:
        self._history = history
        self._partitions = partitions
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write, name=self.name)

    def begin(self) -> None:
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._enough.wait(PAUSE_S):
            value = b"%s %d" % (self.name.encode(), number)
            partition = number % self._partitions
            self._history.sent(partition, value)
            self.send(partition, value)
            number += 1

    def give_up(self) -> None:
        """Write no more."""
        self._enough.set()

    def finish(self) -> None:
        """Stop, and wait until it is known what became of every record."""
        self._enough.set()
        self._thread.join()
        self.flush()

    @abstractmethod
    def send(self, partition: int, value: bytes) -> None:
        """Send a record, and have the history told of what becomes of it."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until it is known what became of every record, and close."""


class OwnWriter(ClusterWriter):
    """Moldau's own producer, idempotent with acks=all as it comes."""

    name = "own"

    def __init__(self, bootstrap: str, history: History, partitions: int, **settings: object):
        super().__init__(history, partitions)
        chosen = {"delivery_timeout_ms": TIMEOUT_S * 1000, **settings}
        self._producer = Producer(bootstrap, **chosen)  # type: ignore[arg-type]
        self._producer.start()

    def send(self, partition: int, value: bytes) -> None:
        delivery = self._producer.send(self._history.topic, value, partition=partition)

        def heard(done: Delivery) -> None:
            error = done.exception()
            if error is None:
                self._history.told(partition, done.metadata().offset, value)
            else:
                self._history.failed(f"{value!r}: {error!r}")

        delivery.add_done_callback(heard)

    def flush(self) -> None:
        self._producer.close()


class LibrdkafkaWriter(ClusterWriter):
    """librdkafka's producer, with idempotence."""

    name = "librdkafka"

    def __init__(self, bootstrap: str, history: History, partitions: int, **settings: object):
        super().__init__(history, partitions)
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": TIMEOUT_S * 1000,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "log_level": SILENT,
                "error_cb": self._went_wrong,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def send(self, partition: int, value: bytes) -> None:
        try:
            self._producer.produce(
                self._history.topic, value, partition=partition, on_delivery=self._heard
            )
        except KafkaException as error:
            self._history.failed(f"{value!r}: {error}")
            self.give_up()
        self._producer.poll(0)

    def _went_wrong(self, error: KafkaError) -> None:
        if error.fatal():
            self._history.failed(f"librdkafka: {error.name()} {error}")

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None:
            self._history.told(message.partition(), message.offset(), value)
        else:
            self._history.failed(f"{value!r}: {error}")

    def flush(self) -> None:
        left = self._producer.flush(TIMEOUT_S)
        assert not left, f"{left} records without an answer"
        self._producer.close()


class ReadingAlong:
    """A consumer that reads all partitions while they are written."""

    def __init__(self, bootstrap: str, history: History, partitions: int) -> None:
        self._history = history
        self._enough = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reading-along",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 500,
                "log_level": SILENT,
            }
        )
        self._consumer.assign(
            [ConfluentPartition(history.topic, index, 0) for index in range(partitions)]
        )
        self._thread = threading.Thread(target=self._read, name="reading along")
        self._thread.start()

    def _read(self) -> None:
        while not self._enough.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self._history.saw(message.partition(), message.offset(), message.value())
                elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    self._history.failed(f"what was read is gone: {message.error()}")

    def close(self) -> None:
        self._enough.set()
        self._thread.join()
        self._consumer.close()


class Traffic:
    """A history in the making: a writer of each library, and a reader."""

    def __init__(self, history: History, writers: Sequence[ClusterWriter], reading: ReadingAlong):
        self.history = history
        self._writers = writers
        self._reading = reading

    def wait_for_more(self, count: int = 200) -> None:
        """Wait until so many more records are acknowledged."""
        goal = self.history.count + count
        eventually(
            lambda: self.history.count >= goal or self.history.failures, f"{count} more records"
        )
        assert not self.history.failures, self.history.failures[:5]

    def finish(self) -> None:
        """Let all writers come to their end, with everything acknowledged."""
        for writer in self._writers:
            writer.finish()
        self._reading.close()


@contextlib.contextmanager
def traffic_on(cluster: Cluster, topic: str) -> Iterator[Traffic]:
    """Write to a topic, with both libraries, and read along."""
    history = History(topic)
    partitions = len(cluster.describe(topic, cluster.serving[0]))
    writers = [
        kind(cluster.bootstrap, history, partitions) for kind in (OwnWriter, LibrdkafkaWriter)
    ]
    traffic = Traffic(history, writers, ReadingAlong(cluster.bootstrap, history, partitions))
    for writer in writers:
        writer.begin()
    try:
        yield traffic
    finally:
        traffic.finish()
