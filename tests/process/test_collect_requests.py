"""Requests of access logs are counted through kill -9 of the collector and of the broker.

Every request takes another time, one for each bound of the buckets that samples have, so that the
counts of the buckets tell which requests have arrived, and how often.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from moldau.collect.metrics.buckets import BOUNDS_US
from process.collecting import Collecting, records_of
from process.serving import Serving
from process.test_serve import free_port

TOPIC = "metrics"

TIME_TO_ERR_S = 1.5
"""Positions are written every second: a collector that writes too much of them has done so then."""


class Shop:
    """A service that logs its requests, and the broker and collector that are killed around it."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "access.log"
        self.log.write_bytes(b'"GET /old HTTP/1.1" 200 1 "-" "-" 1\n')
        self.state = folder / "state.json"
        self._folder = folder
        self._listen = f"127.0.0.1:{free_port()}"
        self._written = 0
        self.broker = self._serve()
        create_topic(self._listen, TOPIC)

    def _serve(self) -> Serving:
        data = str(self._folder / "data")
        return Serving(self._folder, "--data", data, "--listen", self._listen).start()

    def restart_broker(self) -> None:
        """Start a broker again after it was killed."""
        self.broker = self._serve()

    def collect(self) -> Collecting:
        collecting = Collecting(
            self._folder, "metrics", "--no-host", "--http", f"shop={self.log}", "-t", TOPIC,
            "-b", self._listen, "--state", self.state, "--http-unit", "us", "--interval", "0.2",
        )  # fmt: skip
        eventually(self.state.exists, "the place where counting begins")
        return collecting

    def serve_requests(self, count: int) -> None:
        with self.log.open("ab", buffering=0) as file:
            for time_us in BOUNDS_US[self._written : self._written + count]:
                file.write(b'"GET / HTTP/1.1" 200 1 "-" "-" %d\n' % time_us)
        self._written += count

    def samples(self, metric: str) -> list[dict[str, object]]:
        told = [json.loads(record.value) for record in records_of(self._listen, TOPIC)]
        return [one for one in told if one["metric"] == metric]

    def arrived(self) -> Counter[int]:
        """Return how often each request has arrived, by its time."""
        found: Counter[int] = Counter()
        for sample in self.samples("http.time"):
            for bound, count in sample["buckets"]:
                found[round(bound * 1e6)] += count
        return +found

    def until_all_arrived(self) -> None:
        expected = set(BOUNDS_US[: self._written])
        eventually(lambda: self.arrived().keys() == expected, "all requests")


@pytest.fixture
def shop(tmp_path):
    running = Shop(tmp_path)
    yield running
    running.broker.kill()


def test_no_request_is_missing_after_kills_of_the_collector_and_the_broker(shop):
    with shop.collect() as collecting:
        shop.serve_requests(20)
        shop.until_all_arrived()
        collecting.kill()  # before positions are written, if it is quick
    shop.serve_requests(10)
    shop.log.rename(shop.log.with_name("access.log.1"))
    shop.serve_requests(10)
    with shop.collect() as collecting:
        shop.until_all_arrived()
        shop.serve_requests(10)
        collecting.kill()  # before they are sent, if it is quick
    with shop.collect() as collecting:
        shop.until_all_arrived()
        shop.broker.kill()
        shop.serve_requests(10)
        time.sleep(TIME_TO_ERR_S)
        collecting.kill()  # with samples under way that nobody took
    shop.restart_broker()
    shop.serve_requests(10)
    with shop.collect() as collecting:
        shop.until_all_arrived()
        assert collecting.stop() == 0, collecting.said
        assert "Traceback" not in collecting.said
    requests = sum(sample["value"] for sample in shop.samples("http.requests"))
    assert requests == shop.arrived().total() >= 70


def test_a_restart_of_the_broker_and_orderly_ones_of_the_collector_count_every_request_once(shop):
    with shop.collect() as collecting:
        shop.serve_requests(20)
        shop.broker.kill()
        shop.serve_requests(20)
        shop.restart_broker()
        shop.serve_requests(20)
        shop.until_all_arrived()
        shop.serve_requests(10)
        assert collecting.stop() == 0, collecting.said
    shop.serve_requests(10)
    with shop.collect() as collecting:
        shop.until_all_arrived()
        assert collecting.stop() == 0, collecting.said
    assert set(shop.arrived().values()) == {1}
    assert sum(sample["value"] for sample in shop.samples("http.requests")) == 80
