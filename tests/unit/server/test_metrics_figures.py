"""What the metrics page tells of committed offsets and of the room in log directories."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kits import log_kit
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    CommittedOffset,
    OffsetKey,
    offset_record,
)
from moldau.observe.committed_offsets import GroupOffset, committed_families
from moldau.observe.disks import DiskFigures, Room, disk_families
from moldau.observe.prometheus import BrokerCollector
from moldau.server.lifecycle.committed_figures import committed_figures
from moldau.server.lifecycle.figures import room_of


class Shard:
    """What the page reads of a shard."""

    def __init__(self, **counts):
        store = OffsetStore()
        for group, count in counts.items():
            for partition in range(count):
                key = OffsetKey(group, "t", partition)
                record = offset_record(CURRENT_FORM, key, CommittedOffset(100 + partition))
                store.commit(group, "t", partition, record.value)
        self.offsets = store


def samples(families):
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def told_groups(figures):
    return {one.group for one in figures.told}


def test_each_committed_offset_is_told():
    figures = committed_figures([Shard(a=2), Shard(), Shard(b=1)], 10)
    assert sorted(figures.told) == [
        GroupOffset("a", "t", 0, 100),
        GroupOffset("a", "t", 1, 101),
        GroupOffset("b", "t", 0, 100),
    ]
    assert samples(committed_families(figures)) == {
        ("moldau_group_committed_offset", ("a", "t", "0")): 100,
        ("moldau_group_committed_offset", ("a", "t", "1")): 101,
        ("moldau_group_committed_offset", ("b", "t", "0")): 100,
        ("moldau_group_committed_offsets_left_out", ()): 0,
    }


@pytest.mark.parametrize(
    ("series_max", "told", "left_out"),
    [(9, {"one", "two", "six"}, 0), (8, {"one", "two"}, 6), (2, {"one"}, 8), (0, set(), 9)],
)
def test_whole_groups_are_left_out_the_largest_first(series_max, told, left_out):
    figures = committed_figures([Shard(six=6, one=1), Shard(two=2)], series_max)
    assert (told_groups(figures), figures.left_out) == (told, left_out)


def test_single_partitions_are_told_up_to_the_limit():
    logs = [SimpleNamespace(topic="t", partition=n, size=1, start_offset=0, end_offset=2,
                            segments=1) for n in range(3)]  # fmt: skip
    counts = {}
    for limit in (2, 3):
        collector = BrokerCollector(SimpleNamespace(logs=lambda: logs, partition_series_max=limit))
        counts[limit] = sum(len(one.samples) for one in collector._logs())
    assert counts == {2: 1, 3: 1 + 4 * 3}


def test_the_room_of_each_directory_is_told_unless_it_failed_or_does_not_tell():
    class Files:
        def space(self, folder):
            if folder == "/gone":
                raise OSError(5, "Input/output error")
            return 100, 40

    directories = [SimpleNamespace(path=path, offline=path == "/off") for path in
                   ("/data", "/off", "/gone")]  # fmt: skip
    room = room_of(directories, Files())
    assert room == {"/data": Room(total_bytes=100, free_bytes=40)}
    told = samples(disk_families(DiskFigures(1, 0, 0, 0, room)))
    assert told["moldau_log_directory_total_bytes", ("/data",)] == 100
    assert told["moldau_log_directory_free_bytes", ("/data",)] == 40


def test_the_room_is_that_of_the_disk_of_a_broker():
    disk = log_kit.Broker()
    room = room_of(disk.manager.directories, disk.disk)
    assert list(room) == [one.path for one in disk.manager.directories]
