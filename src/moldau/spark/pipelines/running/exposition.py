"""The figures of a running pipeline as Prometheus metrics.

Taken from the last status at each scrape; the pipeline itself is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from moldau.base.errors import UserError

Status = Mapping[str, Any]

QUERY_GAUGES: Final = (
    ("batch", "moldau_pipeline_batch", "Number of the last batch"),
    ("rows", "moldau_pipeline_batch_rows", "Records in the last batch"),
    ("rows_per_second", "moldau_pipeline_rows_per_second", "Records a second in the last batch"),
    ("batch_ms", "moldau_pipeline_batch_milliseconds", "Time of the last batch"),
    ("lag", "moldau_pipeline_lag_records", "Records not yet read"),
    ("dropped", "moldau_pipeline_dropped_groups", "Groups dropped by Spark's watermark"),
)


class PipelineCollector:
    """Turns the status into metric families."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield every family; called by prometheus_client at each scrape."""
        status = self._status()
        for key, name, text in QUERY_GAUGES:
            family = GaugeMetricFamily(name, text, labels=["pipeline", "query"])
            for query in status.get("queries", ()):
                if query.get(key) is not None:
                    family.add_metric([status["pipeline"], query["query"]], query[key])
            yield family
        totals = CounterMetricFamily(
            "moldau_pipeline_records", "Records by what became of them", labels=["pipeline", "fate"]
        )
        for fate, count in status.get("totals", {}).items():
            totals.add_metric([status["pipeline"], fate], count)
        yield totals
        yield _time("watermark", "Where the watermark stands", status)
        yield _time("newest", "Time of the newest event", status)


def _time(key: str, text: str, status: Status) -> Metric:
    family = GaugeMetricFamily(
        f"moldau_pipeline_{key}_timestamp_seconds", text, labels=["pipeline"]
    )
    if status.get(f"{key}_ms") is not None:
        family.add_metric([status["pipeline"]], status[f"{key}_ms"] / 1000)
    return family


def serve_metrics(port: int, status: Callable[[], Status]) -> Callable[[], None]:
    """Serve `/metrics` on all addresses of this machine; return what ends it."""
    registry = CollectorRegistry()
    registry.register(PipelineCollector(status))
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        raise UserError(
            f"--metrics-port {port} cannot be had: {error.strerror or error}"
        ) from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
