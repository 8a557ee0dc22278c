"""What clients make the broker hold, on the metrics page; the first two under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class MemoryFigures(NamedTuple):
    """The memory of requests and answers, all connections together."""

    held: int
    available: int
    waiting: int
    waits: int
    closed: int


def memory_families(figures: MemoryFigures) -> Iterator[Metric]:
    """Tell how much is held, who waits for it, and who was closed for it."""
    yield GaugeMetricFamily(
        "kafka_network_socketserver_memorypoolused",
        "Bytes that unfinished requests, unread answers and work on answers take",
        value=figures.held,
    )
    yield GaugeMetricFamily(
        "kafka_network_socketserver_memorypoolavailable",
        "Bytes of queued.max.request.bytes that are free",
        value=figures.available,
    )
    yield GaugeMetricFamily(
        "moldau_memory_waiting_connections",
        "Connections that wait for memory now",
        value=figures.waiting,
    )
    yield CounterMetricFamily(
        "moldau_memory_waits", "How often a connection had to wait for memory", value=figures.waits
    )
    yield CounterMetricFamily(
        "moldau_memory_closed_connections",
        "Connections that were closed because they held memory that others needed",
        value=figures.closed,
    )
