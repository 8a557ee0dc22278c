"""Where a kind of work is performed: one broker or a cluster of them, and clients.

Brokers have their folders to themselves, and clients run in their own processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka_harness.broker import BrokerProcess
from tests.kafka_harness.cluster import BrokerCluster
from tests.kafka_harness.kinds import make_broker
from tests.kafka_harness.memberships import Keeping
from tests.kafka_harness.topics import DEFAULT_REPLICAS, create_topic, led_partitions
from tests.kafka_harness.waiting import eventually
from tests.kafka_harness.wire import unserved_partitions, wait_until_answered

from bench.scale import Scale

_LOAD_TIMEOUT_S = 900
_RESTART_TIMEOUT_S = 300
_TOPIC_TIMEOUT_S = 60
_PAUSE_S = 0.01

DATA_PARTITIONS = 6
RECORD_SIZES = {"1kb": 1_000, "10kb": 10_000, "100b": 100}


class BenchError(Exception):
    """A measurement could not be taken; the text says why."""


class Served(Protocol):
    """One broker or a cluster, as clients and measurements see it."""

    @property
    def address(self) -> str:
        """Return what clients call `bootstrap.servers`."""

    @property
    def pids(self) -> list[int]:
        """Return the process ids of its brokers."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Makes brokers of one kind in fresh folders; what is on stage is gone afterwards."""

    kind: str
    directory: Path
    scale: Scale
    broker_count: int = 1
    keeping: Keeping = Keeping.ONE_VOTER
    """What keeps the metadata of a cluster."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of all brokers of this stage; what a kind of work sets by itself comes first."""

    @contextmanager
    def brokers(self, settings: Mapping[str, str] | None = None) -> Iterator[Served]:
        """Give what this stage is for: one broker, or a cluster."""
        if self.broker_count == 1:
            with self.broker(settings=settings) as broker:
                yield broker
        else:
            with self.cluster(settings) as cluster:
                yield cluster

    @contextmanager
    def cluster(self, settings: Mapping[str, str] | None = None) -> Iterator[BrokerCluster]:
        """Give a cluster in empty folders, started; the settings are as for a broker."""
        shutil.rmtree(self.directory, ignore_errors=True)
        together = {**self.settings, **(settings or {})}
        cluster = BrokerCluster(
            self.kind, self.directory, together, self.broker_count, self.keeping
        )
        try:
            yield cluster.start()
        finally:
            cluster.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    @contextmanager
    def broker(
        self, *, started: bool = True, settings: Mapping[str, str] | None = None
    ) -> Iterator[BrokerProcess]:
        """Give a broker in an empty folder, started unless told otherwise.

        The settings are for both kinds of broker alike; without any, each has its defaults.
        """
        shutil.rmtree(self.directory, ignore_errors=True)
        broker = make_broker(self.kind, self.directory, {**self.settings, **(settings or {})})
        try:
            yield broker.start() if started else broker
        finally:
            broker.kill()
            shutil.rmtree(self.directory, ignore_errors=True)


class Client:
    """A load in its own process."""

    def __init__(self, load: str, **parameters: object) -> None:
        self._load = load
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load", json.dumps({"load": load, **parameters})],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def result(self) -> dict[str, float]:
        """Wait for the load to end and return what it measured."""
        try:
            out, errors = self._process.communicate(timeout=_LOAD_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise BenchError(f"{self._load} took more than {_LOAD_TIMEOUT_S} s") from None
        except SystemExit:
            self._process.kill()
            self._process.wait()
            raise
        if self._process.returncode != 0:
            raise BenchError(f"{self._load}: {errors.strip().splitlines()[-1:]}")
        measured: dict[str, float] = json.loads(out)
        return measured

    def kill(self) -> None:
        """End it, whatever it was doing."""
        self._process.kill()
        self._process.communicate()


def load(name: str, **parameters: object) -> dict[str, float]:
    """Run a load to its end."""
    return Client(name, **parameters).result()


def data_topic(broker: Served, name: str, partitions: int = DATA_PARTITIONS) -> str:
    """Create a topic that keeps everything, whatever the clock says; a cluster replicates it."""
    config = {"retention.ms": "-1"}
    return create_topic(broker.address, name, partitions, config, DEFAULT_REPLICAS)


def placed_topic(
    broker: Served, name: str, replicas: list[int], config: Mapping[str, str] | None = None
) -> str:
    """Create a topic of one partition on these brokers, led by the first of them."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    settings = {"retention.ms": "-1", **(config or {})}
    new = NewTopic(name, 1, replica_assignment=[replicas], config=settings)
    admin.create_topics([new])[name].result(_TOPIC_TIMEOUT_S)
    eventually(lambda: led_partitions(admin, name) == 1, f"{name} has its leader")
    return name


def fill(broker: Served, topic: str, size: int, amount: int, most: int) -> dict[str, float]:
    """Produce `amount` bytes in records of `size`, but no more than `most` records."""
    return load(
        "produce",
        address=broker.address,
        topic=topic,
        partitions=DATA_PARTITIONS,
        size=size,
        count=min(amount // size, most),
    )


def read_back(broker: Served, topic: str, written: dict[str, float]) -> dict[str, float]:
    """Fetch all that a `fill` has written."""
    return load(
        "fetch",
        address=broker.address,
        topic=topic,
        partitions=DATA_PARTITIONS,
        count=int(written["records"]),
    )


def warm_up(broker: Served, scale: Scale, sizes: Iterable[str] = tuple(RECORD_SIZES)) -> None:
    """Write and read records of these sizes until hot code is compiled and pools have grown.

    Each size matters: at 100 bytes Kafka's first run costs it twice the CPU of its second.
    """
    for name in sizes:
        topic = data_topic(broker, f"warm-up-{name}")
        written = fill(
            broker, topic, RECORD_SIZES[name], scale.warm_up_bytes, scale.small_records // 2
        )
        read_back(broker, topic, written)


def evict(folder: Path) -> None:
    """Push a folder's files out of the page cache; dirty pages must be on disk for that."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def time_start(broker: BrokerProcess) -> float:
    """Start a broker and return the seconds to its first answer."""
    broker.prepare()
    began = time.perf_counter()
    broker.launch()
    if not wait_until_answered(
        broker.host, broker.port, lambda: broker.running, _RESTART_TIMEOUT_S
    ):
        raise BenchError(f"{broker.kind} did not answer:\n{broker.tail()}")
    return time.perf_counter() - began


def wait_until_served(broker: BrokerProcess, topics: dict[str, int]) -> None:
    """Return once every partition, of topics with so many each, tells its end offset."""
    deadline = time.monotonic() + _RESTART_TIMEOUT_S
    while unserved := unserved_partitions(broker.host, broker.port, topics):
        if time.monotonic() > deadline:
            raise BenchError(f"{len(unserved)} partitions not served in {_RESTART_TIMEOUT_S} s")
        time.sleep(_PAUSE_S)
