"""A small file that makes no sense costs what only it could tell, and one line says so."""

from __future__ import annotations

import logging
import random

import pytest

from kits.log_kit import (
    TOPIC_ID,
    Broker,
    append,
    append_values,
    make_batch,
    read_all,
)
from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.ids import PartitionKey
from moldau.sim.disk import SimDisk
from moldau.storage import directory as directory_module
from moldau.storage.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_topic_id,
)
from moldau.storage.epochs import load_epochs
from moldau.storage.topic_config import LogConfig

ONE, OTHER = PartitionKey("orders", 0), PartitionKey("orders", 1)
CONFIG = LogConfig(segment_bytes=400)
DAMAGE = {
    "garbage": b"\xff\x00rubbish",
    "truncated": b"0\n7\n",
    "another version": b"9\n0\n",
}
damaged = pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
both_stops = pytest.mark.parametrize("stop", [Broker.stop, Broker.kill, Broker.cut_power])


@pytest.fixture
def broker() -> Broker:
    """Have two partitions with records of three leader epochs in several segments."""
    made = Broker(config=CONFIG)
    for key in (ONE, OTHER):
        for epoch in (0, 0, 3, 3, 7):
            append(made.log(key), make_batch([b"x" * 100]), epoch)
        made.flush(made.log(key))
    made.checkpoint()
    return made


def spoil(broker: Broker, path: str, content: bytes) -> None:
    """Let a file hold other bytes at the next start, whatever an orderly stop writes to it."""
    broker.disk.remove(path)
    file = broker.disk.open(path, create=True)
    file.append([content])
    file.sync()


def restart(broker: Broker, stop: object, path: str, content: bytes) -> Broker:
    """Stop as told and spoil a file before the next start."""
    if stop is Broker.stop:
        broker.manager.close({})
    disk = broker.sim().power_cut() if stop is Broker.cut_power else broker.sim().kill()
    broker.disk = disk
    spoil(broker, path, content)
    return Broker(disk, broker.config, clock=broker.clock)


def warnings(caplog: pytest.LogCaptureFixture, about: str) -> list[str]:
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [line for line in lines if about in line]


@damaged
@both_stops
def test_leader_epochs_are_made_anew_from_the_batches(broker, caplog, content, stop):
    path = "/data/orders-0/leader-epoch-checkpoint"
    again = restart(broker, stop, path, content)
    assert not again.manager.directories[0].offline
    assert again.log(ONE).epochs.entries == ((0, 0), (3, 2), (7, 4))
    assert again.log(OTHER).epochs.entries == ((0, 0), (3, 2), (7, 4))
    (line,) = warnings(caplog, path)
    assert "made anew from the batches: 3 epoch(s)" in line
    # It is said once: the file is right again.
    assert load_epochs(again.disk, "/data/orders-0").entries == ((0, 0), (3, 2), (7, 4))


@damaged
@both_stops
@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS])
def test_a_checkpoint_of_the_directory_is_as_good_as_none(broker, caplog, name, content, stop):
    again = restart(broker, stop, f"/data/{name}", content)
    assert not again.manager.directories[0].offline
    for key in (ONE, OTHER):
        assert len(read_all(again.log(key))) == 5
    (line,) = warnings(caplog, name)
    assert "; " in line
    again.checkpoint()
    assert len(read_all(again.kill().log(ONE))) == 5


def test_without_cleaner_offsets_a_gap_is_not_taken_for_a_loss(broker):
    # Kafka's cleaner leaves gaps between segments; the topic may not be compacted any more.
    disk = broker.sim().kill()
    disk.remove("/data/orders-0/00000000000000000002.log")
    for name in (CLEANER_OFFSETS, RECOVERY_POINTS):
        disk.remove(f"/data/{name}")
        disk.open(f"/data/{name}", create=True).append([b"rubbish"])
    again = Broker(disk, broker.config, clock=broker.clock)
    assert again.log(ONE).log_end_offset == 5


@damaged
@both_stops
def test_the_topic_id_is_given_again_by_the_metadata(broker, caplog, content, stop):
    again = restart(broker, stop, "/data/orders-0/partition.metadata", content)
    assert len(read_all(again.log(ONE))) == 5
    assert read_topic_id(again.disk, "/data/orders-0") == TOPIC_ID
    assert len(warnings(caplog, "partition.metadata")) == 1


@damaged
@both_stops
def test_a_producer_snapshot_is_removed_and_said(caplog, content, stop):
    broker = Broker(config=CONFIG)
    for sequence in range(8):
        append(broker.log(ONE), make_batch([b"x" * 100], producer=(5, 0, sequence)))
    broker.flush(broker.log(ONE))
    broker.checkpoint()
    broker.manager.close({})
    disk = broker.sim().kill()
    newest = max(name for name in disk.names("/data/orders-0") if name.endswith(".snapshot"))
    broker.disk = disk
    spoil(broker, f"/data/orders-0/{newest}", content)
    again = Broker(disk, CONFIG, clock=broker.clock)
    producer = again.log(ONE).producers.get(5)
    assert producer is not None
    assert producer.last_sequence == 7
    assert len(warnings(caplog, newest)) == 1


@damaged
def test_the_mark_of_a_clean_stop_counts_whatever_is_in_it(broker, content):
    broker.manager.close({})
    disk = broker.sim().kill()
    broker.disk = disk
    spoil(broker, "/data/.kafka_cleanshutdown", content)
    again = Broker(disk, CONFIG, clock=broker.clock)
    assert again.manager.directories[0].last_use.clean
    assert len(read_all(again.log(ONE))) == 5


def test_meta_properties_of_one_directory_cost_that_directory():
    disk = SimDisk(random.Random(1))
    first = Broker(disk, directories=("/one", "/two"))
    first.manager.close({})
    after = disk.kill()
    after.remove("/two/meta.properties")
    after.open("/two/meta.properties", create=True).append([b"version=77\n"])
    again = Broker(after, directories=("/one", "/two"))
    assert [one.offline for one in again.manager.directories] == [False, True]
    assert "/two/meta.properties" in str(again.errors[0])
    again.manager.release()
    # The metadata store must not look at it either: it would refuse to start.
    assert again.manager.lock() == ["/one"]


def test_a_log_that_makes_no_sense_costs_its_partition(broker, caplog, monkeypatch):
    open_log = directory_module.open_log

    def confused(resources, folder, *arguments, **options):
        if folder.endswith("orders-0"):
            raise CorruptRecords("nobody understands this")
        return open_log(resources, folder, *arguments, **options)

    monkeypatch.setattr(directory_module, "open_log", confused)
    again = broker.kill()
    assert len(read_all(again.log(OTHER))) == 5
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert line == "orders-0 cannot be opened and stays offline: nobody understands this"
    # No empty log takes its place; its folder goes only with its topic.
    before = again.disk.names("/data/orders-0")
    with pytest.raises(StorageError, match="nobody understands this"):
        again.log(ONE)
    assert again.disk.names("/data/orders-0") == before
    again.manager.delete(ONE)
    assert not again.disk.exists("/data/orders-0")
    assert append_values(again.log(ONE), b"new").base_offset == 0
