"""The activity pipeline under load: `python -m bench.spark.activity`.

Two measurements, both of the command that a user runs, on a broker of this machine:

- Rows a second and core: the pipeline goes through a topic that was filled before, an hour of
  events, and counts what lies in it. What is divided is CPU time, of the driver, Spark's virtual
  machine and Python's workers, from the end of the first batch on: a busy machine does not change
  it, and what starting costs is not in it.
- Event to topic: events come at a steady rate with a batch every second, and the counts of open
  windows go to a topic. Twenty times a second a view of a page that nobody else views is sent
  along; the time counts from before it is sent until a consumer has its count. Tables are written
  meanwhile as always.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from tests.kafka_harness.kinds import make_broker
from tests.kafka_harness.topics import create_topic

from bench.usage import cpu_seconds
from moldau.spark.pipelines.activity.generator import Crowd, Habits, iso

PARTITIONS = 6
PROBES_PER_S = 20
HOUR_MS = 3_600_000
FIRST_MS = 1_700_000_000_000
LEFT_OUT_S = 60
"""What comes in this long after the first count is not taken: code is still being compiled."""
MOLDAU = str(Path(sys.executable).with_name("moldau"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_000_000, help="of the topic that is there")
    parser.add_argument("--batch-rows", type=int, default=250_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second")
    parser.add_argument("--seconds", type=int, default=240, help="for which events come")
    parser.add_argument(
        "--works", nargs="+", choices=("rows", "latency"), default=["rows", "latency"]
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with make_broker("moldau", folder / "broker") as broker:
            if "rows" in given.works:
                measure_rows(broker.address, folder, given.rows, given.batch_rows)
            if "latency" in given.works:
                measure_latency(broker.address, folder, given.rate, given.seconds)


# Rows a second and core


def measure_rows(address: str, folder: Path, rows: int, batch_rows: int) -> None:
    """Have the pipeline go through a topic, and print what a core does in a second."""
    topic = create_topic(address, "there", PARTITIONS)
    fill(address, topic, rows)
    out = folder / "rows"
    words = ["--topic", topic, "--once", "--batch-rows", str(batch_rows)]
    with pipeline(address, out, words) as process:
        began = 0.0, 0, 0.0
        while process.poll() is None:
            done = handled(out)
            if done and not began[1]:
                began = cpu_seconds(process.pid), done, time.monotonic()
            if done:
                used_s, ended = cpu_seconds(process.pid), time.monotonic()
            if done == rows:
                break
            time.sleep(0.1)
        count, spent_s = rows - began[1], used_s - began[0]
        process.wait()
    print(
        f"{count:,} rows in {ended - began[2]:.1f} s, {spent_s:.1f} s of CPU:"
        f" {count / spent_s:,.0f} rows/s per core",
        flush=True,
    )


def fill(address: str, topic: str, rows: int) -> None:
    """Write an hour of events."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 100, "batch.size": 1_000_000})
    crowd = Crowd(1, Habits(users=20_000))
    for number in range(rows):
        key, value = crowd.event(FIRST_MS + number * HOUR_MS // rows)
        producer.produce(topic, value, key)
        if number % 1000 == 0:
            producer.poll(0)
        while len(producer) > 90_000:
            producer.poll(0.05)
    producer.flush()


# Event to topic


def measure_latency(address: str, folder: Path, rate: int, seconds: int) -> None:
    """Send events at a rate, and print how long it takes until they are counted in a topic."""
    topic, live = create_topic(address, "steady", PARTITIONS), create_topic(address, "live")
    out = folder / "latency"
    words = ["--topic", topic, "--live-topic", live, "--trigger", "1s"]
    generate = [MOLDAU, "pipeline", "generate", "-b", address, "-t", topic, "--rate", str(rate)]
    probes = Probes(address, topic, live)
    with pipeline(address, out, words) as process, ExitStack() as load:
        probes.run(seconds, lambda: load.enter_context(running(generate)))
        used_s = cpu_seconds(process.pid)
        events = handled(out)
        process.terminate()
        process.wait()
    waits = sorted(probes.waits_s)
    if not waits:
        sys.exit("no count has come")
    print(
        f"event to topic at {rate:,}/s, {len(waits)} events: p50 {_at(waits, 0.5):.2f} s,"
        f" p95 {_at(waits, 0.95):.2f} s, longest {waits[-1]:.2f} s, {probes.left} not seen;"
        f" {events:,} filed with {used_s:.0f} s of CPU",
        flush=True,
    )


def _at(waits: Sequence[float], share: float) -> float:
    return waits[min(int(len(waits) * share), len(waits) - 1)]


class Probes:
    """Views of pages that nobody else views, and when their counts came."""

    def __init__(self, address: str, topic: str, live: str) -> None:
        self._address = address
        self._topic = topic
        self._live = live
        self._sent_s: dict[str, float] = {}
        self._first_s: float | None = None
        self.waits_s: list[float] = []

    @property
    def left(self) -> int:
        """How many have been sent of which no count has come."""
        return len(self._sent_s)

    def run(self, seconds: int, begin: Callable[[], object]) -> None:
        """Send so long after the first count has come, and wait for the last ones.

        `begin` is called with the first count: before, a backlog would only grow.
        """
        stop = threading.Event()
        sender = threading.Thread(target=self._send, args=(stop,))
        sender.start()
        consumer = Consumer({
            "bootstrap.servers": self._address, "group.id": "bench", "fetch.wait.max.ms": 20,
            "auto.offset.reset": "earliest",
        })  # fmt: skip
        consumer.subscribe([self._live])
        deadline, begun = time.monotonic() + 180, False
        while time.monotonic() < deadline and (not stop.is_set() or self._sent_s):
            for message in consumer.consume(1000, 0.05):
                self._note(json.loads(message.value() or b"{}").get("page", ""))
            if self._first_s is not None and not begun:
                begun = bool(begin())
            if begun and not stop.is_set():
                deadline = time.monotonic() + 30
                if time.monotonic() - (self._first_s or 0) > seconds:
                    stop.set()
        stop.set()
        sender.join()
        consumer.close()

    def _send(self, stop: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self._address, "linger.ms": 5})
        number = 0
        while not stop.wait(1 / PROBES_PER_S):
            number += 1
            page = f"/probe/{number}"
            self._sent_s[page] = time.monotonic()
            told = {"event_id": page, "kind": "view", "user": "probe", "page": page,
                    "time": iso(time.time_ns() // 1_000_000)}  # fmt: skip
            producer.produce(self._topic, json.dumps(told).encode())
            producer.poll(0)
        producer.flush()

    def _note(self, page: str) -> None:
        now_s = time.monotonic()
        sent_s = self._sent_s.pop(page, None)
        if sent_s is None:
            return
        self._first_s = self._first_s or now_s
        if now_s - self._first_s > LEFT_OUT_S:
            self.waits_s.append(now_s - sent_s)


# The pipeline


def handled(out: Path) -> int:
    """Return how many records the pipeline has filed by its own account."""
    try:
        told: dict[str, Any] = json.loads((out / "_moldau" / "status.json").read_text())
    except (FileNotFoundError, ValueError):
        return 0
    return sum(told["totals"].values())


def pipeline(address: str, out: Path, words: Sequence[str]) -> Any:
    """Run the activity pipeline."""
    return running(
        [MOLDAU, "pipeline", "run", "activity", "-b", address, "--out", str(out), *words]
    )


@contextmanager
def running(words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command, and end it."""
    process = subprocess.Popen(words)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
