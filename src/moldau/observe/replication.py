"""Replication and the controller on the metrics page, by the names of Kafka's dashboards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_MANAGER = "kafka_server_replicamanager"
_FETCHERS = "kafka_server_replicafetchermanager"
_CONTROLLER = "kafka_controller_kafkacontroller"


class ReplicationFigures(NamedTuple):
    """What a broker knows of the partitions that it leads and follows."""

    leader_count: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    offline_replicas: int
    isr_shrinks: int
    isr_expands: int
    failed_isr_updates: int
    max_lag: int
    failed_partitions: int
    replicated_bytes: int
    waiting: Mapping[str, int]
    """Operations that wait, by the kind of their requests."""


class ControllerFigures(NamedTuple):
    """What the active controller knows of its cluster."""

    active_brokers: int
    fenced_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    preferred_imbalance: int
    """Partitions that their preferred replica does not lead."""


_GAUGES = (
    ("leader_count", "leadercount", "Partitions that are led here"),
    ("under_replicated", "underreplicatedpartitions", "Led, and not all replicas are in sync"),
    ("under_min_isr", "underminisrpartitioncount", "Led, with fewer in sync than asked for"),
    ("at_min_isr", "atminisrpartitioncount", "Led, with just as many in sync as asked for"),
    ("offline_replicas", "offlinereplicacount", "Replicas here whose log directory has failed"),
)

_COUNTERS = (
    ("isr_shrinks", "isrshrinks", "How often an ISR lost a member"),
    ("isr_expands", "isrexpands", "How often an ISR won a member"),
    ("failed_isr_updates", "failedisrupdates", "Proposed ISRs that the controller refused"),
)

_OF_CONTROLLER = (
    ("active_brokers", "activebrokercount", "Brokers that serve"),
    ("fenced_brokers", "fencedbrokercount", "Registered brokers that do not serve"),
    ("topics", "globaltopiccount", "Topics of the cluster"),
    ("partitions", "globalpartitioncount", "Partitions of the cluster"),
    ("offline_partitions", "offlinepartitionscount", "Partitions without a leader"),
    ("preferred_imbalance", "preferredreplicaimbalancecount", "Not led by the first replica"),
)


def replication_families(figures: ReplicationFigures) -> Iterator[Metric]:
    """Tell how well partitions are replicated, and what waits for that."""
    for attribute, name, text in _GAUGES:
        yield GaugeMetricFamily(f"{_MANAGER}_{name}", text, value=getattr(figures, attribute))
    for attribute, name, text in _COUNTERS:
        yield CounterMetricFamily(f"{_MANAGER}_{name}", text, value=getattr(figures, attribute))
    lag = GaugeMetricFamily(
        f"{_FETCHERS}_maxlag",
        "Records that a replica is behind its leader",
        labels=["clientId"],
    )
    failed = GaugeMetricFamily(
        f"{_FETCHERS}_failedpartitionscount", "Replicas that cannot be copied", labels=["clientId"]
    )
    lag.add_metric(["Replica"], figures.max_lag)
    failed.add_metric(["Replica"], figures.failed_partitions)
    yield from (lag, failed)
    yield CounterMetricFamily(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes copied from leaders",
        value=figures.replicated_bytes,
    )
    waiting = GaugeMetricFamily(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Operations that wait for replicas or records",
        labels=["delayedOperation"],
    )
    for kind, count in figures.waiting.items():
        waiting.add_metric([kind], count)
    yield waiting


def controller_families(figures: ControllerFigures | None) -> Iterator[Metric]:
    """Tell whether the controller is here, and only then what it knows.

    Dashboards add the figures of all nodes up, so that one node may tell them.
    """
    yield GaugeMetricFamily(
        f"{_CONTROLLER}_activecontrollercount",
        "1 on the node that is the active controller, else 0",
        value=int(figures is not None),
    )
    if figures is not None:
        for attribute, name, text in _OF_CONTROLLER:
            value = getattr(figures, attribute)
            yield GaugeMetricFamily(f"{_CONTROLLER}_{name}", text, value=value)
