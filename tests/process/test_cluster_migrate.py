"""`moldau cluster migrate` on a real ZooKeeper: a cluster moves to a quorum, and goes on there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from kits.cli_kit import moldau
from kits.local_cluster import (
    MOLDAU,
    PATIENCE_S,
    ended_with_block,
    free_base_port,
    run,
    states,
    status,
)
from moldau import Consumer, Producer, TopicPartition
from moldau.cli.clusters.layout import open_cluster
from moldau.cli.clusters.processes import command_of
from moldau.cli.zookeeper.connection import connect_to
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.opening import open_newest_snapshot
from moldau.cluster.quorum import Quorum
from moldau.storage.checkpoints import read_clean_mark
from moldau.storage.disk import Disk

GROUP = "readers"
SENT = [b"record %d" % number for number in range(30)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a cluster."""
    require_zookeeper()
    with ended_with_block(tmp_path / "cluster") as path:
        yield path


def send(bootstrap: str, values: list[bytes], topic: str = "orders") -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()


def read_as_group(bootstrap: str, count: int) -> list[bytes | None]:
    """Read on where the group has committed, and commit."""
    found: list[bytes | None] = []
    with Consumer(
        bootstrap, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        while len(found) < count:
            found.append(next(consumer).value)
        consumer.commit()
    return found


def up(folder: Path, *options: object) -> str:
    started = run(folder, "up", "--detach", *options)
    assert started.returncode == 0, started.stderr
    return started.stdout.strip().splitlines()[-1].removeprefix("BOOTSTRAP=")


def down(folder: Path) -> None:
    ended = run(folder, "down")
    assert ended.returncode == 0, ended.stderr


def shape(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "cluster.json").read_text())
    return found


def epochs_of_voter(folder: Path, number: int) -> dict[int, int]:
    """Return the last epoch of each broker, as a voter's first snapshot has it."""
    place = str(folder / f"broker-{number}" / "data" / METADATA_FOLDER)
    replay = open_newest_snapshot(Disk(), place, "", Quorum()).replay
    return {one.id: one.epoch for one in replay.image(0).brokers.values()}


def last_epoch_on_disk(folder: Path, number: int) -> int | None:
    """Return what a broker names when it registers: by another epoch it may have lost records."""
    mark = read_clean_mark(Disk(), str(folder / f"broker-{number}" / "data"))
    return None if mark is None else mark.broker_epoch


@pytest.mark.long
def test_a_cluster_moves_to_a_quorum_and_goes_on_there(folder: Path) -> None:
    port = free_base_port(3)
    options = ("--brokers", 3, "--base-port", port, "--zookeeper")
    bootstrap = up(folder, *options, "--override", "message.max.bytes=2000000")
    created = moldau("topic", "create", "orders", "-p", 3, "-b", bootstrap)
    assert created.status == 0, created.err
    send(bootstrap, SENT)
    assert read_as_group(bootstrap, 10) == SENT[:10]
    refused = run(folder, "migrate")
    assert (refused.returncode, "is already running" in refused.stderr) == (1, True)
    down(folder)

    rehearsed = run(folder, "migrate", "--dry-run")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert "nothing was written" in rehearsed.stdout
    assert not list(folder.glob("broker-*/data/__cluster_metadata-0"))
    moved = run(folder, "migrate")
    assert moved.returncode == 0, moved.stderr
    assert (shape(folder)["zookeeper"], shape(folder)["controller_count"]) == (None, 3)
    assert states(folder) == ["stopped"] * 3
    for number in (1, 2, 3):
        assert last_epoch_on_disk(folder, number) == epochs_of_voter(folder, 1)[number]
        assert epochs_of_voter(folder, number) == epochs_of_voter(folder, 1)

    assert up(folder) == bootstrap
    eventually(lambda: status(folder)["under_replicated_count"] == 0, "the ISR is whole")
    assert read_as_group(bootstrap, 20) == SENT[10:]
    send(bootstrap, [b"in the quorum"])
    created = moldau("topic", "create", "more", "-p", 2, "-b", bootstrap)
    assert created.status == 0, created.err
    assert run(folder, "kill", 1).returncode == 0
    send(bootstrap, [b"without one"])
    send(bootstrap, [b"first"], "more")
    assert read_as_group(bootstrap, 2) == [b"in the quorum", b"without one"]
    settings = (folder / "broker-2" / "server.properties").read_text()
    down(folder)
    assert "zookeeper" not in settings
    again = run(folder, "migrate")
    assert (again.returncode, "already" in again.stderr) == (1, True)


def new_settings(folder: Path, port: int) -> Path:
    """Write the settings of the only broker as the sole voter."""
    address = f"127.0.0.1:{port}"
    lines = [
        "node.id=1",
        "process.roles=broker,controller",
        f"listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{port + 10}",
        f"advertised.listeners=PLAINTEXT://{address}",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters=1@127.0.0.1:{port + 10}",
        f"log.dirs={folder / 'broker-1' / 'data'}",
        "offsets.topic.replication.factor=1",
    ]
    path = folder / "broker-1" / "new.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def migrate(connect: str, config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MOLDAU, "cluster", "migrate", "--zookeeper", connect, "--config", str(config)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.long
def test_a_move_is_given_up_or_ended_and_then_no_broker_starts_on_zookeeper(
    folder: Path, zookeeper: ZooKeeperNode
) -> None:
    port = free_base_port(1)
    connect = f"{zookeeper.address}/moving/out"
    options = ("--brokers", 1, "--base-port", port, "--zookeeper-connect", connect)
    bootstrap = up(folder, *options)
    created = moldau("topic", "create", "orders", "-b", bootstrap)
    assert created.status == 0, created.err
    send(bootstrap, SENT[:2])
    down(folder)
    config = new_settings(folder, port)
    assert "no cluster found" in migrate(f"{zookeeper.address}/wrong", config).stderr
    with connect_to(connect) as tree:
        quota = b'{"version":1,"config":{"producer_byte_rate":"1"}}'
        tree.create("/config/clients/c", quota, is_ephemeral=False, is_sequential=False)
        refused = migrate(connect, config)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "/config/clients/c" in refused.stderr
        tree.delete("/config/clients/c")
        # Written as far as the mark: the brokers go on with ZooKeeper.
        assert migrate(connect, config).returncode == 0
        tree.delete("/migration")
    restore_version_zero(folder)
    assert up(folder, *options) == bootstrap
    send(bootstrap, SENT[2:4])
    down(folder)

    moved = migrate(connect, config)
    assert moved.returncode == 0, moved.stderr
    again = migrate(connect, config)
    assert (again.returncode, "only the switch is left" in again.stdout) == (0, True)
    broker = open_cluster(folder).node(1)
    old = subprocess.run(
        command_of(broker), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert old.returncode == 1
    assert "has moved to a quorum" in old.stderr.splitlines()[-1]
    config.replace(broker.properties)
    assert run(folder, "start", 1).returncode == 0
    assert read_as_group(bootstrap, 4) == SENT[:4]


def restore_version_zero(folder: Path) -> None:
    """Leave `meta.properties` as it is before the switch."""
    path = folder / "broker-1" / "data" / "meta.properties"
    path.write_text(
        path.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
    )
