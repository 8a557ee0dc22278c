"""A cluster among those who mean it harm, and on disks that rot and fill up.

Whatever is refused here is refused with an answer or a closed connection and changes nothing.
`Cluster` checks at the end that no broker has logged an error or a traceback.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from moldau.base.limits import PLAIN_REQUEST_BYTES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.brokers import UnregisterBrokerRequest
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchTopic,
)
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from process.clusters import Cluster
from process.mounts import grow, small_volume
from process.raw_client import RawClient, batch_of

MIB = 1 << 20
CREATE_TOPICS = 19
FETCH_VERSION = 17
LEADER, FULL, OTHER = 2, 3, 1
"""Who leads what is written here, whose disk rots or is full, and the voter."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("hostile")) as made:
        yield made


def write(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    """Write records one by one, each with acks=all."""
    with RawClient(cluster.address(LEADER)) as client:
        for value in values:
            result = client.produce(topic, batch_of([value]))
            assert result.error_code == 0, ErrorCode(result.error_code).name


def read(cluster: Cluster, topic: str) -> list[bytes | None]:
    with RawClient(cluster.address(cluster.leader(topic))) as client:
        return [record.value for record in client.read_all(topic)]


def test_who_poses_as_a_replica_gets_kafkas_errors_and_moves_nothing(cluster):
    cluster.create_topic("posed", [(LEADER, OTHER)])
    write(cluster, "posed", [b"one", b"two"])
    asked = MetadataRequest([MetadataRequestTopic(name="posed")])
    with RawClient(cluster.address(LEADER)) as client:
        (topic,) = client.call(asked, 12).topics

        def fetch(replica: int, epoch: int, offset: int) -> ErrorCode:
            part = FetchPartition(0, 0, offset, -1, 0, MIB)
            state = FetchReplicaState(replica, epoch)
            wanted = FetchTopic("posed", topic.topic_id, [part])
            request = FetchRequest(replica_state=state, max_wait_ms=0, topics=[wanted])
            (answer,) = client.call(request, FETCH_VERSION).responses
            return ErrorCode(answer.partitions[0].error_code)

        assert fetch(FULL, -1, 2) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert fetch(99, -1, 2) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert fetch(LEADER, -1, 2) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert fetch(OTHER, 0, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetch(OTHER, -1, 2**62) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert client.offset("posed") == 2
    assert set(cluster.describe("posed", LEADER)[0].isr) == {LEADER, OTHER}


def test_a_request_too_large_to_be_forwarded_holds_up_no_other(cluster):
    header = struct.pack(">hhih", CREATE_TOPICS, 5, 1, -1)
    with RawClient(cluster.address(LEADER)) as client:
        client.send_frame(header + bytes(PLAIN_REQUEST_BYTES - len(header)))
        assert client.was_closed()
    cluster.create_topic("after", partitions=1, via=LEADER)
    said = [line for line in cluster.output(LEADER).splitlines() if "cannot be forwarded" in line]
    assert len(said) == 1


def test_a_live_broker_that_is_unregistered_is_back_in_every_isr(cluster):
    cluster.create_topic("quiet", [(LEADER, FULL, OTHER)])
    write(cluster, "quiet", [b"one"])
    with RawClient(cluster.address(LEADER)) as client:
        assert client.call(UnregisterBrokerRequest(FULL), 0).error_code == 0
    eventually(
        lambda: "does not know broker epoch" in cluster.output(FULL), "the broker has heard of it"
    )
    cluster.wait_in_sync("quiet")
    write(cluster, "quiet", [b"two"])
    cluster.check_replicas_equal("quiet")


def test_a_segment_that_rots_at_the_leader_is_not_copied_and_is_told_once(cluster):
    for topic in ("rotten", "sound"):
        cluster.create_topic(
            topic, [(LEADER, FULL, OTHER)], {"segment.bytes": "1048576", "min.insync.replicas": "1"}
        )
    values = [b"%d " % number + bytes(60_000) for number in range(40)]
    cluster.stop(FULL)
    for topic in ("rotten", "sound"):
        write(cluster, topic, values)
    closed = min((cluster.data(LEADER) / "rotten-0").glob("*.log"))
    flip(closed, 500_000)
    cluster.start(FULL)
    cluster.wait_in_sync("sound")
    told = "rotten-0: a corrupt batch at offset "
    eventually(lambda: told in cluster.output(FULL), "the follower says what it refuses")
    flip(closed, 500_000)
    cluster.check_replicas_equal("rotten")
    assert read(cluster, "rotten") == values
    assert cluster.output(FULL).count(told) == 1


def flip(path: Path, position: int) -> None:
    """Change one byte of a file; twice is as if it had never been changed."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))


def test_a_follower_whose_disk_is_full_leaves_the_isr_and_comes_back(tmp_path):
    cluster = Cluster(tmp_path / "brokers")
    with small_volume(tmp_path / "small", 8 * MIB) as small:
        shutil.move(cluster.data(FULL), small / "data")
        cluster.data(FULL).symlink_to(small / "data")
        with cluster:
            cluster.create_topic("large", [(LEADER, FULL, OTHER)])
            values = [b"%d " % number + bytes(200_000) for number in range(60)]
            write(cluster, "large", values)
            eventually(
                lambda: FULL not in cluster.describe("large", LEADER)[0].isr,
                "the full broker is out of the ISR",
            )
            told = [line for line in cluster.output(FULL).splitlines() if "is full" in line]
            assert len(told) == 1
            grow(small, 64 * MIB)
            cluster.check_replicas_equal("large")
            assert read(cluster, "large") == values
