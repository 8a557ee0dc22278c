"""Log directories on the metrics page: their room, which are out of use, what rots in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Room(NamedTuple):
    """The file system of a log directory."""

    total_bytes: int
    free_bytes: int


class DiskFigures(NamedTuple):
    """What a broker knows of its disks."""

    offline_directories: int
    full_directories: int
    scrubbed_bytes: int
    damaged_batches: int
    room: Mapping[str, Room]
    """By log directory. One that has failed, or cannot be asked, is not there."""


def disk_families(figures: DiskFigures) -> Iterator[Metric]:
    """Tell how many directories cannot be used, their room, and what the scrub has found."""
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
    total = GaugeMetricFamily(
        "moldau_log_directory_total_bytes",
        "Size of the file system of a log directory",
        labels=["logDirectory"],
    )
    free = GaugeMetricFamily(
        "moldau_log_directory_free_bytes",
        "Bytes that the broker may still write there",
        labels=["logDirectory"],
    )
    for directory, room in figures.room.items():
        total.add_metric([directory], room.total_bytes)
        free.add_metric([directory], room.free_bytes)
    yield from (total, free)
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
