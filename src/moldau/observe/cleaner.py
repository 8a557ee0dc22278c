"""The cleaner on the metrics page, under the names that the JMX exporter makes of Kafka's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_MANAGER = "kafka_log_logcleanermanager"
_CLEANER = "kafka_log_logcleaner"


class CleanerFigures(NamedTuple):
    """What the cleaner sees and has done."""

    max_dirty_ratio: float
    since_last_look_s: float
    max_clean_s: float
    read_bytes: int
    written_bytes: int
    uncleanable: Mapping[str, int]
    """Partitions by log directory; every directory is there."""


def cleaner_families(figures: CleanerFigures) -> Iterator[Metric]:
    """Tell how dirty logs are, what was cleaned, and what cannot be."""
    yield GaugeMetricFamily(
        f"{_MANAGER}_max_dirty_percent",
        "How much of the dirtiest log is not cleaned yet",
        value=100 * figures.max_dirty_ratio,
    )
    yield GaugeMetricFamily(
        f"{_MANAGER}_time_since_last_run_ms",
        "Milliseconds since the cleaner last looked for work",
        value=1000 * figures.since_last_look_s,
    )
    uncleanable = GaugeMetricFamily(
        f"{_MANAGER}_uncleanable_partitions_count",
        "Partitions that cannot be cleaned and are left alone",
        labels=["logDirectory"],
    )
    for directory, count in figures.uncleanable.items():
        uncleanable.add_metric([directory], count)
    yield uncleanable
    yield GaugeMetricFamily(
        f"{_CLEANER}_max_clean_time_secs",
        "Seconds that the longest cleaning took",
        value=figures.max_clean_s,
    )
    recopied = figures.written_bytes / figures.read_bytes if figures.read_bytes else 0.0
    yield GaugeMetricFamily(
        f"{_CLEANER}_cleaner_recopy_percent",
        "How much of what was cleaned is left",
        value=100 * recopied,
    )
    yield CounterMetricFamily(
        "moldau_cleaner_read_bytes", "Bytes that were cleaned", value=figures.read_bytes
    )
    yield CounterMetricFamily(
        "moldau_cleaner_written_bytes", "Bytes that were left", value=figures.written_bytes
    )
