"""The metrics page: the broker's counters in Prometheus text, by the names Kafka dashboards use.

The counters themselves are plain attributes elsewhere; they are read when somebody scrapes, in
the thread of the `monitoring` port, and never on the hot path. What is
read there is changed by the event loop at the same time: every value is a single attribute, so a
scrape sees each of them whole, if not all of them at one instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector

from moldau.observe.cleaner import CleanerFigures, cleaner_families
from moldau.observe.committed_offsets import CommittedFigures, committed_families
from moldau.observe.coordinator_metrics import (
    GroupFigures,
    TransactionFigures,
    group_families,
    internal_topic_families,
    transaction_families,
)
from moldau.observe.disks import DiskFigures, disk_families
from moldau.observe.loop_lag import LAG_BUCKETS_S, LoopLag
from moldau.observe.memory import MemoryFigures, memory_families
from moldau.observe.monitoring import Answer, Page, Request
from moldau.observe.replication import (
    ControllerFigures,
    ReplicationFigures,
    controller_families,
    replication_families,
)
from moldau.observe.requests import TIME_BUCKETS_S, RequestMetrics


class LogFigures(NamedTuple):
    """What is told of one partition's log."""

    topic: str
    partition: int
    size: int
    start_offset: int
    end_offset: int
    segments: int


class TopicFigures(Protocol):
    """The traffic of one topic since the broker started."""

    messages_in: int
    bytes_in: int
    bytes_out: int
    failed_produce: int
    failed_fetch: int


class BrokerFigures(NamedTuple):
    """Where the metrics come from; callables are asked at each scrape."""

    requests: RequestMetrics
    partition_series_max: int
    """Beyond this many partitions none is listed by itself: each would be four series."""
    connections: Callable[[], int]
    logs: Callable[[], Iterable[LogFigures]]
    topics: Callable[[], Iterable[tuple[str, TopicFigures]]]
    disks: Callable[[], DiskFigures]
    groups: Callable[[], GroupFigures]
    committed: Callable[[], CommittedFigures]
    transactions: Callable[[], TransactionFigures]
    cleaner: Callable[[], CleanerFigures]
    memory: Callable[[], MemoryFigures]
    replication: Callable[[], ReplicationFigures]
    controller: Callable[[], ControllerFigures | None]


TOPIC_COUNTERS = (
    ("messages_in", "messagesin", "Records appended"),
    ("bytes_in", "bytesin", "Bytes appended"),
    ("bytes_out", "bytesout", "Bytes sent to readers"),
    ("failed_produce", "failedproducerequests", "Partitions of produce requests that failed"),
    ("failed_fetch", "failedfetchrequests", "Partitions of fetch requests that failed"),
)

LOG_GAUGES = (
    ("size", "Bytes on disk"),
    ("start_offset", "First offset that can be read"),
    ("end_offset", "Offset of the next record"),
    ("segments", "Segment files"),
)

LOG_GAUGE_NAMES = {
    "size": "kafka_log_log_size",
    "start_offset": "kafka_log_log_logstartoffset",
    "end_offset": "kafka_log_log_logendoffset",
    "segments": "kafka_log_log_numlogsegments",
}


class BrokerCollector:
    """Turns a broker's figures into metric families."""

    def __init__(self, figures: BrokerFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield every family; called by prometheus_client at each scrape."""
        yield from self._requests()
        yield from _loop_lag(self._figures.requests.lag)
        yield from self._traffic()
        yield from self._logs()
        yield GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count",
            "Open client connections",
            value=self._figures.connections(),
        )
        yield from disk_families(self._figures.disks())
        groups, transactions = self._figures.groups(), self._figures.transactions()
        yield from group_families(groups)
        yield from committed_families(self._figures.committed())
        yield from transaction_families(transactions)
        yield from internal_topic_families(groups.shards, transactions.shards)
        yield from cleaner_families(self._figures.cleaner())
        yield from memory_families(self._figures.memory())
        yield from replication_families(self._figures.replication())
        yield from controller_families(self._figures.controller())

    def _requests(self) -> Iterator[Metric]:
        counts = CounterMetricFamily(
            "kafka_network_requestmetrics_requests", "Requests", labels=["request"]
        )
        sizes = CounterMetricFamily(
            "kafka_network_requestmetrics_requestbytes", "Bytes of requests", labels=["request"]
        )
        errors = CounterMetricFamily(
            "kafka_network_requestmetrics_errors", "Error codes", labels=["request", "error"]
        )
        times = HistogramMetricFamily(
            "moldau_request_seconds", "Time to the answer, waiting included", labels=["request"]
        )
        for name, stats in sorted(self._figures.requests.by_api.items()):
            counts.add_metric([name], stats.requests)
            sizes.add_metric([name], stats.bytes_in)
            for code, count in sorted(stats.errors.items()):
                errors.add_metric([name, str(code)], count)
            times.add_metric([name], _cumulative(TIME_BUCKETS_S, stats.buckets), stats.seconds)
        yield from (counts, sizes, errors, times)

    def _traffic(self) -> Iterator[Metric]:
        topics = list(self._figures.topics())
        for attribute, name, text in TOPIC_COUNTERS:
            family = CounterMetricFamily(
                f"kafka_server_brokertopicmetrics_{name}", text, labels=["topic"]
            )
            for topic, traffic in topics:
                family.add_metric([topic], getattr(traffic, attribute))
            yield family

    def _logs(self) -> Iterator[Metric]:
        logs = list(self._figures.logs())
        yield GaugeMetricFamily(
            "kafka_server_replicamanager_partitioncount", "Partitions here", value=len(logs)
        )
        if len(logs) > self._figures.partition_series_max:
            return
        for attribute, text in LOG_GAUGES:
            family = GaugeMetricFamily(
                LOG_GAUGE_NAMES[attribute], text, labels=["topic", "partition"]
            )
            for figures in logs:
                labels = [figures.topic, str(figures.partition)]
                family.add_metric(labels, getattr(figures, attribute))
            yield family


def _loop_lag(lag: LoopLag) -> Iterator[Metric]:
    late = HistogramMetricFamily(
        "moldau_event_loop_lag_seconds", "How late the event loop came to a tick due every 50 ms"
    )
    late.add_metric([], _cumulative(LAG_BUCKETS_S, lag.buckets), lag.seconds)
    longest = GaugeMetricFamily(
        "moldau_event_loop_lag_max_seconds", "The longest stall of the event loop", labels=["since"]
    )
    longest.add_metric(["start"], lag.longest_s)
    longest.add_metric(["minute"], lag.recent_s)
    yield from (late, longest)


def _cumulative(limits: tuple[float, ...], buckets: list[int]) -> list[tuple[str, float]]:
    bounds = [str(bound) for bound in limits] + ["+Inf"]
    total = 0
    rows = []
    for bound, count in zip(bounds, buckets, strict=True):
        total += count
        rows.append((bound, float(total)))
    return rows


def metrics_page(figures: BrokerFigures) -> Page:
    """Make the page `/metrics`, in the format and compression that its reader asks for."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(figures))
    ProcessCollector(registry=registry)
    application = make_wsgi_app(registry)

    def page(request: Request) -> Answer:
        told: list[tuple[str, list[tuple[str, str]]]] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept", ""),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
        }
        body = b"".join(
            application(environ, lambda status, headers: told.append((status, headers)))
        )
        ((status, headers),) = told
        return Answer(HTTPStatus(int(status.split()[0])), body, tuple(headers))

    return page
