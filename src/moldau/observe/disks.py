"""Log directories on the metrics page: which are out of use or full, and what rots in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class DiskFigures(NamedTuple):
    """What a broker knows of its disks."""

    offline_directories: int
    full_directories: int
    scrubbed_bytes: int
    damaged_batches: int


def disk_families(figures: DiskFigures) -> Iterator[Metric]:
    """Tell how many directories cannot be used, and what the scrub has found."""
    yield GaugeMetricFamily(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed",
        value=figures.offline_directories,
    )
    yield GaugeMetricFamily(
        "moldau_full_log_directories",
        "Log directories that take no writes for want of room",
        value=figures.full_directories,
    )
    yield CounterMetricFamily(
        "moldau_scrub_read_bytes",
        "Bytes of closed segments that were checked",
        value=figures.scrubbed_bytes,
    )
    yield CounterMetricFamily(
        "moldau_scrub_damaged_batches",
        "Damaged batches that were found, each time they were found",
        value=figures.damaged_batches,
    )
