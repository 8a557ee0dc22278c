"""Brokers on ZooKeeper with two log directories each, of which one fails or is full.

Others lead what lay there, everything else stays where it is, and nothing acknowledged is lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode
from moldau.protocol.errors import ErrorCode
from process.cluster_history import traffic_on
from process.clusters import PartitionState
from process.mounts import fill, read_only, small_volume
from process.raw_client import RawClient, batch_of
from process.zookeeper_clusters import SHORT_ZOOKEEPER_SESSION, ZooKeeperCluster

pytestmark = pytest.mark.long

TOPIC = "events"
SPREAD = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0)] * 2
"""Every broker leads in both of its directories, and follows the others in both."""
SETTINGS = {
    **SHORT_ZOOKEEPER_SESSION,
    # What a broker does from time to time meets the broken disk soon.
    "log.flush.offset.checkpoint.interval.ms": "200",
    "auto.leader.rebalance.enable": "false",
}
LONG_LAG = {"replica.lag.time.max.ms": "30000"}
"""Longer than a test waits for a replica to leave its ISR: it does not leave because it lags."""


def first(cluster: ZooKeeperCluster, broker_id: int) -> Path:
    return cluster.folder(broker_id) / "first"


def second(cluster: ZooKeeperCluster, broker_id: int) -> Path:
    return cluster.folder(broker_id) / "second"


class TwoDirectories(ZooKeeperCluster):
    """Brokers with two log directories each."""

    def data(self, broker_id: int) -> Path:
        """Return where partitions are looked for: the parent of both directories."""
        return self.folder(broker_id)

    def log_bytes(self, broker_id: int, topic: str, partition: int) -> bytes:
        files = sorted(self.data(broker_id).glob(f"*/{topic}-{partition}/*.log"))
        return b"".join(file.read_bytes() for file in files)


def two_directories(
    tmp_path: Path, zookeeper: ZooKeeperNode, settings: dict[str, str]
) -> TwoDirectories:
    made = TwoDirectories(tmp_path, zookeeper, f"/{tmp_path.name}", settings=settings)
    for broker_id in made.ids:
        directories = f"{first(made, broker_id)},{second(made, broker_id)}"
        made.add_settings(broker_id, {"log.dirs": directories})
    return made


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeperNode) -> Iterator[TwoDirectories]:
    with two_directories(tmp_path, zookeeper, {**SETTINGS, **LONG_LAG}) as running:
        yield running


def homes(folder: Path) -> set[int]:
    """Return the partitions of the topic that live in a log directory."""
    return {int(path.name.rpartition("-")[2]) for path in folder.glob(f"{TOPIC}-*")}


def states_of(cluster: ZooKeeperCluster, partitions: set[int], via: int) -> list[PartitionState]:
    found = cluster.describe(TOPIC, via)
    return [found[index] for index in sorted(partitions)]


def wait_until_left(cluster: ZooKeeperCluster, broken: int, lost: set[int]) -> None:
    """Wait until all brokers know that a replica is in no ISR of these partitions."""
    for broker_id in cluster.serving:
        eventually(
            lambda via=broker_id: all(
                one.leader not in (-1, broken) and broken not in one.isr
                for one in states_of(cluster, lost, via)
            ),
            f"broker {broken} has left {lost}, as broker {broker_id} knows",
        )


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "another"])
@pytest.mark.parametrize("is_blank", [True, False], ids=["replaced", "repaired"])
def test_a_log_directory_that_fails_takes_its_replicas_alone(cluster, is_controller, is_blank):
    cluster.create_topic(TOPIC, SPREAD)
    controller, epoch = cluster.controller(), cluster.controller_epoch
    broken = controller if is_controller else cluster.others(controller)[0]
    folder = second(cluster, broken)
    lost, kept = homes(folder), homes(first(cluster, broken))
    before = states_of(cluster, kept, broken)
    assert any(one.leader == broken for one in before)
    assert any(one.leader == broken for one in states_of(cluster, lost, broken))
    cluster.expected_errors += [f"log directory {folder} is offline", "KAFKA_STORAGE_ERROR"]
    with ExitStack() as fault, traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        fault.enter_context(read_only(folder))
        wait_until_left(cluster, broken, lost)
        # No acknowledgement waits for the broken replica: it does not come back into an ISR.
        for partition in lost:
            traffic.wait_for_more(20, partition)
        assert all(broken not in one.isr for one in states_of(cluster, lost, controller))
        assert states_of(cluster, kept, broken) == before
        assert cluster.registered == set(cluster.ids)
        assert (cluster.controller(), cluster.controller_epoch) == (controller, epoch)
        assert cluster.tree.get_children("/log_dir_event_notification") == []
        told = [line for line in cluster.output(broken).splitlines() if "is offline" in line]
        assert len(told) == 1, told

        cluster.stop(broken)
        fault.close()
        if is_blank:
            shutil.rmtree(folder)
        cluster.start(broken)
        cluster.wait_in_sync(TOPIC)
        traffic.wait_for_more()
    traffic.history.check(cluster)


def elect(cluster: ZooKeeperCluster, broker_id: int) -> None:
    """Let brokers run for election until this one is the controller."""
    while cluster.controller() != broker_id:
        epoch = cluster.controller_epoch
        with suppress(NoNodeError):
            cluster.tree.delete("/controller")
        cluster.wait_for_controller(after=epoch)


FULL = 1
SIZE = 64 << 20


def test_a_full_disk_refuses_writes_and_takes_them_once_there_is_space(tmp_path, zookeeper):
    """It leads on, for readers. What it follows goes on without it."""
    cluster = ZooKeeperCluster(tmp_path, zookeeper, f"/{tmp_path.name}", settings=SETTINGS)
    with small_volume(tmp_path / "small", SIZE) as place:
        cluster.add_settings(FULL, {"log.dirs": str(place / "data")})
        cluster.data(FULL).symlink_to(place / "data")
        cluster.expected_errors += ["KAFKA_STORAGE_ERROR", "later-0 cannot be served"]
        with cluster, RawClient(cluster.address(FULL)) as client:
            cluster.create_topic(TOPIC, [(0, FULL, 2), (2, 0, FULL)])
            cluster.create_topic("led", [(FULL, 0, 2)])
            assert client.produce("led", batch_of([b"before"])).error_code == 0
            elect(cluster, FULL)  # a controller decides also for brokers that have room
            with traffic_on(cluster, TOPIC) as traffic:
                traffic.wait_for_more()
                filler = fill(place)
                wait_until_left(cluster, FULL, {0, 1})
                traffic.wait_for_more()
                refused = client.produce("led", batch_of([bytes(100_000)]))
                assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert [one.value for one in client.read_all("led")] == [b"before"]
                cluster.create_topic("later", [(FULL, 0, 2)], via=0, in_sync=False)
                eventually(lambda: cluster.leader("later", via=0) in (0, 2), "others lead")
                told = [one for one in cluster.output(FULL).splitlines() if "is full, " in one]
                assert len(told) == 1, told
                filler.unlink()
                for topic in (TOPIC, "led", "later"):
                    cluster.wait_in_sync(topic)
                traffic.wait_for_more()
            assert client.produce("led", batch_of([b"after"])).error_code == 0
            assert [one.value for one in client.read_all("led")] == [b"before", b"after"]
            traffic.history.check(cluster)
