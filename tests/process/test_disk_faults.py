"""A full disk and a read-only folder under a real broker.

Producers are told KAFKA_STORAGE_ERROR; the other log directory, and everything that needs none,
goes on. What lies on a full disk is read meanwhile, and written to again once there is space.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from moldau.cluster.model import ResourceType
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.storage.disk import Disk
from moldau.storage.verify import verify_partition
from process.mounts import fill, grow, read_only, small_volume
from process.raw_client import EARLIEST, RawClient, batch_of
from process.serving import Serving, refused, snapshot

MIB = 1 << 20
HOUR_MS = 3_600_000
PARTITIONS = 4
TOPIC = "orders"
VALUE = bytes(100_000)
SMALL = 8 * MIB
"""Full after some eighty records."""

BUSY_CHORES = {
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
}
"""What a broker does from time to time meets the broken disk, too."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with small_volume(tmp_path / "small", SMALL) as place:
        yield place


def two_directories(directory: Path, small: Path) -> Serving:
    """Prepare a broker on a large folder, which holds the metadata, and a small one."""
    directories = f"{directory / 'large'},{small / 'data'}"
    return Serving(directory, overrides={"log.dirs": directories, **BUSY_CHORES})


def homes(folder: Path) -> set[int]:
    """Return the partitions of the topic that live in a log directory."""
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{TOPIC}-*")}


class Ledger:
    """Records by partition that the broker has promised to keep."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def write(self, client: RawClient, index: int) -> ErrorCode:
        """Send the next record of a partition."""
        value = b"%d/%d " % (index, len(self.values[index])) + VALUE
        answer = client.produce(TOPIC, batch_of([value]), index)
        if not answer.error_code:
            assert answer.base_offset == len(self.values[index])
            self.values[index].append(value)
        return ErrorCode(answer.error_code)

    def write_until_refused(self, client: RawClient, indexes: set[int]) -> ErrorCode:
        for number in range(1000):
            for index in sorted(indexes):
                if code := self.write(client, index):
                    assert number, "nothing was written at all"
                    return code
        raise AssertionError("the disk never was full")

    def write_when_let_in(self, client: RawClient, index: int) -> None:
        """Send the next record until the broker has noticed that there is space."""
        deadline = time.monotonic() + 30
        while code := self.write(client, index):
            assert code is ErrorCode.KAFKA_STORAGE_ERROR
            assert time.monotonic() < deadline, "writes were never let in again"
            time.sleep(0.05)

    def check(self, client: RawClient) -> None:
        for index, values in self.values.items():
            assert [record.value for record in client.read_all(TOPIC, index)] == values


def connected(broker: Serving) -> RawClient:
    return RawClient((broker.host, broker.port))


def test_a_full_log_directory_refuses_writes_alone_and_takes_them_once_there_is_space(
    tmp_path, small
):
    ledger = Ledger()
    with two_directories(tmp_path, small) as broker, connected(broker) as client:
        assert client.create_topic(TOPIC, PARTITIONS) == 0
        lost, kept = homes(small / "data"), homes(tmp_path / "large")
        assert len(lost) == len(kept) == PARTITIONS // 2

        assert ledger.write_until_refused(client, lost) is ErrorCode.KAFKA_STORAGE_ERROR
        for index in lost:
            assert ledger.write(client, index) is ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch(TOPIC, 0, index).records
        for index in kept:
            assert ledger.write(client, index) is ErrorCode.NONE
            assert client.fetch(TOPIC, 0, index).records
        ledger.check(client)
        with connected(broker) as another:
            assert another.call(ApiVersionsRequest("raw", "1"), 3).error_code == 0
        (line,) = [line for line in broker.errors.splitlines() if "is full" in line]
        assert str(small / "data") in line
        grow(small, 8 * SMALL)
        for index in lost:
            ledger.write_when_let_in(client, index)
        ledger.check(client)
        assert "offline" not in broker.errors

    with two_directories(tmp_path, small) as broker, connected(broker) as client:
        ledger.check(client)
        for index in lost | kept:
            assert ledger.write(client, index) is ErrorCode.NONE
        ledger.check(client)
    for folder in (*(small / "data").glob(f"{TOPIC}-*"), *(tmp_path / "large").glob(f"{TOPIC}-*")):
        assert not verify_partition(Disk(), str(folder))


@pytest.mark.parametrize("end", [Serving.stop, Serving.kill], ids=["stopped", "killed"])
def test_a_start_with_a_full_log_directory_reads_from_it_and_writes_once_there_is_space(
    tmp_path, small, end
):
    ledger = Ledger()
    broker = two_directories(tmp_path, small).start()
    with connected(broker) as client:
        assert client.create_topic(TOPIC, PARTITIONS) == 0
        lost = homes(small / "data")
        assert ledger.write_until_refused(client, lost) is ErrorCode.KAFKA_STORAGE_ERROR
    end(broker)
    fill(small)

    with two_directories(tmp_path, small) as broker, connected(broker) as client:
        ledger.check(client)
        for index in lost:
            assert ledger.write(client, index) is ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = [line for line in broker.errors.splitlines() if "is full" in line]
        assert str(small / "data") in line
        assert "offline" not in broker.errors
        grow(small, 8 * SMALL)
        for index in lost:
            ledger.write_when_let_in(client, index)
        ledger.check(client)
    with two_directories(tmp_path, small) as broker, connected(broker) as client:
        ledger.check(client)
    for folder in (small / "data").glob(f"{TOPIC}-*"):
        assert not verify_partition(Disk(), str(folder))


def alter_retention(client: RawClient, retention_ms: int) -> ErrorCode:
    """Change a config of the topic, which nobody but the metadata has to write down."""
    change = IncrementalAlterableConfig("retention.ms", 0, str(HOUR_MS + retention_ms))
    topic = IncrementalAlterConfigsResource(ResourceType.TOPIC, TOPIC, [change])
    (answer,) = client.call(IncrementalAlterConfigsRequest([topic]), 1).responses
    return ErrorCode(answer.error_code)


def test_a_full_disk_under_everything_loses_nothing_that_was_acknowledged(tmp_path, small):
    ledger = Ledger()
    broker = Serving(tmp_path, data=small / "data", overrides=BUSY_CHORES).start()
    try:
        with connected(broker) as client:
            assert client.create_topic(TOPIC, PARTITIONS) == 0
            for index in range(PARTITIONS):
                assert ledger.write(client, index) is ErrorCode.NONE
            filler = fill(small)
            for index in range(PARTITIONS):
                assert ledger.write(client, index) is ErrorCode.KAFKA_STORAGE_ERROR
                assert client.fetch(TOPIC, 0, index).records
            assert client.create_topic("more", 1) is ErrorCode.KAFKA_STORAGE_ERROR
            # The journal of the metadata has a page to go on with, then it is refused as well.
            codes = [alter_retention(client, number) for number in range(200)]
            assert codes[-1] is ErrorCode.KAFKA_STORAGE_ERROR
            asked = MetadataRequest([MetadataRequestTopic(name="made-by-itself")])
            (topic,) = client.call(asked, 8).topics
            assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.call(ApiVersionsRequest("raw", "1"), 3).error_code == 0
            filler.unlink()
            for index in range(PARTITIONS):
                ledger.write_when_let_in(client, index)
            # A journal that was refused again and again is tried after half a minute at most.
            eventually(lambda: client.create_topic("more", 1) is ErrorCode.NONE, "it is created")
            assert alter_retention(client, 0) is ErrorCode.NONE
            ledger.check(client)
            filler = fill(small)
            assert ledger.write(client, 0) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.stop() == 0
        assert "Traceback" not in broker.errors, broker.errors
    finally:
        broker.kill()
    line = refused(tmp_path, data=small / "data")
    assert "No space left" in line

    filler.unlink()
    with Serving(tmp_path, data=small / "data") as broker, connected(broker) as client:
        ledger.check(client)
        assert ledger.write(client, 0) is ErrorCode.NONE


def test_a_log_goes_on_in_the_next_file_where_one_may_not_grow(tmp_path):
    """RLIMIT_FSIZE is far below `segment.bytes`, and cuts the last batch of each file in two."""
    ledger = Ledger()
    with Serving(tmp_path, file_size_max=MIB // 2) as broker, connected(broker) as client:
        assert client.create_topic(TOPIC, PARTITIONS) == 0
        for _ in range(23):
            assert ledger.write(client, 0) is ErrorCode.NONE
        too_large = client.produce(TOPIC, batch_of([bytes(MIB * 3 // 4)]), 0)
        assert too_large.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert ledger.write(client, 0) is ErrorCode.NONE
        assert ledger.write(client, 1) is ErrorCode.NONE
        ledger.check(client)
        assert "offline" not in broker.errors
    folder = tmp_path / "data" / f"{TOPIC}-0"
    assert len(list(folder.glob("*.log"))) == 6
    assert not verify_partition(Disk(), str(folder))
    with Serving(tmp_path) as broker, connected(broker) as client:
        ledger.check(client)
        assert ledger.write(client, 0) is ErrorCode.NONE


def test_a_read_only_log_directory_stays_offline_while_the_other_serves(tmp_path):
    ledger = Ledger()
    second = tmp_path / "second"
    second.mkdir()
    with two_directories(tmp_path, second) as broker, connected(broker) as client:
        assert client.create_topic(TOPIC, PARTITIONS) == 0
        for index in range(PARTITIONS):
            assert ledger.write(client, index) is ErrorCode.NONE
    lost, kept = homes(second / "data"), homes(tmp_path / "large")
    assert lost
    assert kept

    before = snapshot(second)
    with (
        read_only(second),
        two_directories(tmp_path, second) as broker,
        connected(broker) as client,
    ):
        (line,) = [line for line in broker.errors.splitlines() if "log directory" in line]
        assert str(second / "data") in line
        for index in kept:
            assert ledger.write(client, index) is ErrorCode.NONE
        for index in lost:
            assert ledger.write(client, index) is ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch(TOPIC, 0, index).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(AssertionError, match="KAFKA_STORAGE_ERROR"):
                client.offset(TOPIC, index, EARLIEST)
        assert client.create_topic("made-meanwhile", 2) == 0
        assert client.produce("made-meanwhile", batch_of([b"v"]), 1).error_code == 0
    assert snapshot(second) == before

    with two_directories(tmp_path, second) as broker, connected(broker) as client:
        ledger.check(client)
        assert client.offset("made-meanwhile", 1) == 1


def test_a_read_only_folder_for_everything_is_refused_in_one_line(tmp_path):
    place = tmp_path / "only"
    place.mkdir()
    with Serving(tmp_path, data=place / "data"):
        pass
    before = snapshot(place)
    with read_only(place):
        line = refused(tmp_path, data=place / "data")
    assert str(place / "data") in line
    assert "ead-only" in line
    assert snapshot(place) == before
