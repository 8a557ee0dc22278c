"""The page of metrics: what a broker and a running pipeline tell, by name, type and labels.

The collectors are asked with figures of nothing, so that each family has a sample to read its
labels from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import Metric
from tools.docs.markdown import anchored, code, page, table

from moldau.coordination.groups.states import GroupState
from moldau.coordination.transactions.transaction import TransactionState
from moldau.observe.cleaner import CleanerFigures
from moldau.observe.committed_offsets import CommittedFigures, GroupOffset
from moldau.observe.coordinator_metrics import GroupFigures, ShardFigures, TransactionFigures
from moldau.observe.disks import DiskFigures, Room
from moldau.observe.memory import MemoryFigures
from moldau.observe.prometheus import BrokerCollector, BrokerFigures, LogFigures
from moldau.observe.replication import ControllerFigures, ReplicationFigures
from moldau.observe.requests import RequestMetrics
from moldau.observe.traffic import TopicTraffic
from moldau.spark.pipelines.running.exposition import QUERY_GAUGES, PipelineCollector

_SHARDS: Final = ShardFigures("topic", 0, 0, 0, 0, 0.0, 0.0, 0, 0)

HIDDEN_LABELS: Final = frozenset({"le"})
"""The bounds of a histogram, which every histogram has."""


def metrics_page() -> str:
    """Return the page."""
    return page(
        "Metrics",
        "## A broker",
        "Served as Prometheus text at `/metrics` where "
        "[moldau.metrics.listen](broker-configs/moldau.md#moldau.metrics.listen) says. Names that "
        "begin with `kafka_` are those that the JMX exporter makes of Kafka's, so that dashboards "
        "for Kafka find them. What the Python client of Prometheus tells of every process is there "
        "too: `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and "
        "their neighbours.",
        table(("metric", "type", "labels", "what it tells"), _rows(_of_broker())),
        "## A pipeline",
        "Served with the option `--metrics-port` of [moldau pipeline run](cli/pipeline-run.md).",
        table(("metric", "type", "labels", "what it tells"), _rows(_of_pipeline())),
    )


def _rows(families: Iterable[Metric]) -> list[tuple[str, ...]]:
    return [
        (anchored(_name(one)), one.type, _labels(one), f"{one.documentation}.") for one in families
    ]


def _name(family: Metric) -> str:
    """Return the name of a family as a query has it; a histogram adds `_bucket` and so on."""
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _labels(family: Metric) -> str:
    names = {name for sample in family.samples for name in sample.labels} - HIDDEN_LABELS
    return ", ".join(map(code, sorted(names)))


def _of_broker() -> list[Metric]:
    requests = RequestMetrics()
    requests.of("Produce").error(0)
    figures = BrokerFigures(
        requests=requests,
        partition_series_max=1,
        connections=lambda: 0,
        logs=lambda: [LogFigures("topic", 0, 0, 0, 0, 0)],
        topics=lambda: [("topic", TopicTraffic())],
        disks=lambda: DiskFigures(0, 0, 0, 0, {"/data": Room(0, 0)}),
        groups=lambda: GroupFigures(_SHARDS, dict.fromkeys(_group_states(), 0), 0, 0, 0),
        committed=lambda: CommittedFigures([GroupOffset("group", "topic", 0, 0)], 0),
        transactions=lambda: TransactionFigures(
            _SHARDS, {state.label: 0 for state in TransactionState}, 0, 0, 0
        ),
        cleaner=lambda: CleanerFigures(0.0, 0.0, 0.0, 0, 0, {"/data": 0}),
        memory=lambda: MemoryFigures(0, 0, 0, 0, 0),
        replication=lambda: ReplicationFigures(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {"Produce": 0}),
        controller=lambda: ControllerFigures(0, 0, 0, 0, 0, 0),
    )
    return list(BrokerCollector(figures).collect())


def _group_states() -> list[str]:
    return [state.value for state in GroupState]


def _of_pipeline() -> list[Metric]:
    query = {"query": "query"} | {key: 0 for key, *_ in QUERY_GAUGES}
    status = {
        "pipeline": "pipeline",
        "queries": [query],
        "totals": {"read": 0},
        "watermark_ms": 0,
        "newest_ms": 0,
    }
    return list(PipelineCollector(lambda: status).collect())
