"""The files beside a `.log` are there from its first batch on, and never say what is not so."""

from __future__ import annotations

from kits.log_kit import FOLDER, Broker, append, sized_batch
from moldau.base.files import read_whole
from moldau.storage.dump import DumpOptions, LogDump
from moldau.storage.topic_config import LogConfig

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
BESIDE = (".index", ".timeindex")


def names(broker: Broker) -> list[str]:
    return broker.disk.names(FOLDER)


def test_an_empty_partition_has_no_more_files_than_it_needs():
    broker = Broker(config=CONFIG)
    broker.log()
    assert names(broker) == [f"{0:020d}.log", "partition.metadata"]


def test_they_are_there_from_the_first_append_on_in_every_segment():
    broker = Broker(config=CONFIG)
    for count in range(1, 6):
        append(broker.log(), sized_batch(400))
        base = broker.log().active.base_offset
        assert base == (count - 1) // 2 * 2
        assert {f"{base:020d}{suffix}" for suffix in BESIDE} <= set(names(broker))
        assert "leader-epoch-checkpoint" in names(broker)


def test_the_dump_tool_reads_those_of_the_segment_being_written():
    broker = Broker(config=CONFIG)
    append(broker.log(), sized_batch(400))
    for suffix in BESIDE:
        path = f"{FOLDER}/{0:020d}{suffix}"
        dump = LogDump(broker.disk, DumpOptions())
        assert list(dump.lines(path))
        assert not list(dump.findings())


def test_old_entries_do_not_outlive_a_recovery():
    broker = Broker(config=CONFIG)
    for _ in range(2):
        append(broker.log(), sized_batch(400))
    again = broker.stop()
    assert read_whole(again.disk, f"{FOLDER}/{0:020d}.index")
    again.disk.open(f"{FOLDER}/{0:020d}.log").truncate(400)
    third = again.kill()
    assert third.log().log_end_offset == 1
    for suffix in BESIDE:
        assert read_whole(third.disk, f"{FOLDER}/{0:020d}{suffix}") == b""
    # The epochs are those of the checkpoint still: only an empty log begins with an empty one.
    assert third.log().epochs.latest == 0


def test_epochs_are_not_forgotten_when_a_segment_begins():
    broker = Broker(config=CONFIG)
    for epoch in (1, 1, 4):
        append(broker.log(), sized_batch(400), epoch)
    broker.flush(broker.log())
    for _ in range(3):
        append(broker.log(), sized_batch(400), 4)
    assert read_whole(broker.disk, f"{FOLDER}/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 2\n"
