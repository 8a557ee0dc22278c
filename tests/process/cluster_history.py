"""What clients of a cluster wrote, were told and have read, and what must hold of it.

Producers of several libraries write numbered records until it is enough, while consumers read
along. Afterwards every acknowledged record must be where its producer was told, no record may be
there twice, and each producer's records must be in order in each partition.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_harness.distribution import CURRENT
from kafka_harness.java import java_command
from kafka_harness.waiting import eventually
from moldau.client.consumer import Consumer
from moldau.client.errors import ClientError
from moldau.client.producer import Delivery, Producer
from process.clusters import Cluster
from process.raw_client import RawClient

PAUSE_S = 0.004
"""Between two records of a writer: faults shall hit many batches, not few large ones."""
TIMEOUT_S = 100
"""How long a writer goes on over all faults; less than a test may take."""
REQUEST_TIMEOUT_MS = 5_000
"""How long a client waits for a broker that is silent: shorter than the faults of long tests."""
CLOSING_S = 30
"""After its brokers were restarted librdkafka may close for ever, with every request answered."""
JAVA_SOURCE = Path(__file__).parents[1] / "java" / "ClusterTraffic.java"
SILENT = 2
"""Critical and worse: to be without a broker for a while is what librdkafka is made for."""


class History:
    """Everything that happened to one topic, as its clients saw it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        """By partition and offset."""
        self._unplaced: set[tuple[int, bytes]] = set()
        """What was acknowledged without an offset."""
        self.failures: list[str] = []
        self._known: dict[tuple[int, int], bytes] = {}
        """All that anybody saw at an offset, or was told about it."""
        self._sent: dict[int, set[bytes]] = defaultdict(set)
        self.longest_gaps_s: dict[str, float] = defaultdict(float)
        """The longest time that a producer heard nothing of a partition, by producer."""
        self._told_s: dict[tuple[str, int], float] = {}
        self._lock = threading.Lock()

    def sent(self, partition: int, value: bytes) -> None:
        with self._lock:
            self._sent[partition].add(value)

    def told(self, partition: int, offset: int, value: bytes) -> None:
        """Note that a producer was promised a record at an offset."""
        with self._lock:
            self.acknowledged[partition, offset] = value
            self._note(partition, offset, value)
            now_s, producer = time.monotonic(), value.split()[0].decode()
            gap_s = now_s - self._told_s.get((producer, partition), now_s)
            self.longest_gaps_s[producer] = max(self.longest_gaps_s[producer], gap_s)
            self._told_s[producer, partition] = now_s

    def told_unplaced(self, partition: int, value: bytes) -> None:
        """Note that a producer was promised a record, and not told where it is."""
        with self._lock:
            self._unplaced.add((partition, value))

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

    def count_in(self, partition: int | None) -> int:
        """Return how many records of a partition are acknowledged; None is all of them."""
        if partition is None:
            return self.count
        with self._lock:
            return sum(place[0] == partition for place in self.acknowledged)

    @property
    def writers(self) -> set[str]:
        """The producers that were promised anything."""
        return {value.split()[0].decode() for value in self.acknowledged.values()}

    def lost(self, cluster: Cluster) -> list[bytes]:
        """Return what was acknowledged and is not there, or not at its place."""
        stored = dict(self._stored(cluster))
        found = {(partition, value) for (partition, _), value in stored.items()}
        return [
            *(value for place, value in self.acknowledged.items() if stored.get(place) != value),
            *(value for partition, value in self._unplaced - found),
        ]

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
        chosen = {
            "delivery_timeout_ms": TIMEOUT_S * 1000,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            **settings,
        }
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
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": 2 * REQUEST_TIMEOUT_MS,
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
        if error is not None:
            self._history.failed(f"{value!r}: {error}")
        elif message.offset() is None:
            # An answer was lost, and one to a later batch says that all before it are stored.
            self._history.told_unplaced(message.partition(), value)
        else:
            self._history.told(message.partition(), message.offset(), value)

    def flush(self) -> None:
        left = self._producer.flush(TIMEOUT_S)
        assert not left, f"{left} records without an answer"
        self._producer.close()


class JavaWriter(ClusterWriter):
    """Kafka's own producer, with idempotence, and its consumer, in a process of their own."""

    name = "java"

    def __init__(self, bootstrap: str, history: History, partitions: int) -> None:
        super().__init__(history, partitions)
        command = java_command(
            CURRENT, JAVA_SOURCE, bootstrap, history.topic, partitions,
            REQUEST_TIMEOUT_MS, TIMEOUT_S * 1000,
        )  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._listening = threading.Thread(target=self._listen, name="java's history")
        self._listening.start()

    def send(self, partition: int, value: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"%d %s\n" % (partition, value))
            self._process.stdin.flush()
        except BrokenPipeError:
            self._history.failed("Java has ended")
            self.give_up()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, _, rest = line.rstrip(b"\n").partition(b" ")
            if kind in (b"told", b"saw"):
                partition, offset, value = rest.split(b" ", 2)
                note = self._history.told if kind == b"told" else self._history.saw
                note(int(partition), int(offset), value)
            else:
                self._history.failed(f"java: {rest.decode()}")

    def flush(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            status = self._process.wait(TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._listening.join()
            self._process.stdout.close()
        assert status == 0, f"Java ended with status {status}"


class ReadingAlong(ABC):
    """A consumer in its thread that reads all partitions from their beginning as they grow."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._read, name=type(self).__name__)
        self._thread.start()

    def _read(self) -> None:
        while not self._enough.is_set():
            for partition, offset, value in self.poll():
                self._history.saw(partition, offset, value)

    def close(self) -> None:
        self._enough.set()
        self._thread.join()
        self.leave()

    @abstractmethod
    def poll(self) -> Iterable[tuple[int, int, bytes]]:
        """Wait a moment for records: partition, offset and value of each."""

    @abstractmethod
    def leave(self) -> None:
        """Close the consumer."""


class LibrdkafkaReader(ReadingAlong):
    """librdkafka's consumer."""

    def __init__(self, bootstrap: str, history: History, partitions: int) -> None:
        self._consumer = ConfluentConsumer(
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
        super().__init__(history)

    def poll(self) -> Iterable[tuple[int, int, bytes]]:
        for message in self._consumer.consume(500, 0.1):
            if message.error() is None:
                yield message.partition(), message.offset(), message.value()
            elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
                self._history.failed(f"what was read is gone: {message.error()}")

    def leave(self) -> None:
        # In a thread: no timeout of a test ends a call that is stuck in the library.
        closing = threading.Thread(target=self._consumer.close, daemon=True)
        closing.start()
        closing.join(CLOSING_S)


class OwnReader(ReadingAlong):
    """Moldau's own consumer."""

    def __init__(self, bootstrap: str, history: History, partitions: int) -> None:
        self._consumer = Consumer(
            bootstrap, auto_offset_reset="none", request_timeout_ms=REQUEST_TIMEOUT_MS
        )
        self._consumer.start()
        self._consumer.assign([(history.topic, index) for index in range(partitions)])
        for index in range(partitions):
            self._consumer.seek((history.topic, index), 0)
        super().__init__(history)

    def poll(self) -> Iterable[tuple[int, int, bytes]]:
        try:
            for record in self._consumer.poll(timeout_ms=100):
                yield record.partition, record.offset, record.value
        except ClientError as error:
            self._history.failed(f"Moldau's consumer: {error!r}")
            self._enough.set()

    def leave(self) -> None:
        self._consumer.close()


class Traffic:
    """A history in the making: writers and readers of each library."""

    def __init__(
        self, history: History, writers: Sequence[ClusterWriter], readers: Sequence[ReadingAlong]
    ) -> None:
        self.history = history
        self._writers = writers
        self._readers = readers

    def wait_for_more(self, count: int = 200, partition: int | None = None) -> None:
        """Wait until so many more records are acknowledged, of any partition or of one."""
        goal = self.history.count_in(partition) + count
        eventually(
            lambda: self.history.count_in(partition) >= goal or self.history.failures,
            f"{count} more records",
        )
        assert not self.history.failures, self.history.failures[:5]

    def finish(self) -> None:
        """Let all writers come to their end, with everything acknowledged."""
        with contextlib.ExitStack() as ends:
            for reader in self._readers:
                ends.callback(reader.close)
            for writer in self._writers:
                ends.callback(writer.finish)


@contextlib.contextmanager
def traffic_on(
    cluster: Cluster, topic: str, *, bootstrap: str = "", java: bool = False
) -> Iterator[Traffic]:
    """Write to a topic with both Python libraries, and with Java if asked for; read along."""
    history = History(topic)
    partitions = len(cluster.describe(topic, cluster.serving[0]))
    clients = bootstrap or cluster.bootstrap, history, partitions
    writers: list[ClusterWriter] = [OwnWriter(*clients), LibrdkafkaWriter(*clients)]
    if java:
        writers.append(JavaWriter(*clients))
    traffic = Traffic(history, writers, [OwnReader(*clients), LibrdkafkaReader(*clients)])
    for writer in writers:
        writer.begin()
    try:
        yield traffic
    finally:
        traffic.finish()
