"""A client tells of itself under the names of Kafka's metrics, when asked and by itself."""

from __future__ import annotations

import threading

from moldau import Admin, Consumer, Producer
from moldau.testing import TestBroker

WAIT_S = 20


def test_numbers_count_what_was_sent_and_read():
    told = []
    heard = threading.Event()

    def listen(metrics):
        told.append(metrics["record-send-total"])
        if len(told) == 1:
            raise ValueError("its own failure")
        if metrics["record-send-total"] == 3:
            heard.set()

    with TestBroker(topics=["t"]) as broker:
        address = broker.bootstrap_servers
        producer = Producer(address, stats_callback=listen, statistics_interval_ms=10)
        assert producer.metrics() == {}
        with producer:
            assert producer.send_many("t", [b"a", b"b", b"c"]) == 3
            metrics = producer.metrics()
            assert metrics["record-send-total"] == 3
            assert metrics["record-send-byte-total"] > 3
            assert metrics["record-error-total"] == metrics["record-retry-total"] == 0
            assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
            assert metrics["connection-count"] >= 1
            assert heard.wait(WAIT_S)
        with Consumer(address, topics=["t"], auto_offset_reset="earliest") as consumer:
            next(consumer)
            assert consumer.poll(timeout_ms=1000, max_records=1)
            metrics = consumer.metrics()
            assert metrics["records-consumed-total"] == 2
            assert metrics["records-lag-max"] == 1
            assert metrics["assigned-partitions"] == 1
        with Admin(address) as admin:
            assert admin.metrics()["connection-count"] == 1
