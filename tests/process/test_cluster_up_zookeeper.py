"""`moldau cluster up` on a real ZooKeeper: the controller and ZooKeeper die, and come back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from kits.cli_kit import moldau
from kits.local_cluster import (
    ended_with_block,
    foreground,
    free_base_port,
    run,
    states,
    status,
)
from moldau import Consumer, Producer, TopicPartition
from moldau.cli.zookeeper.connection import connect_to

SHORT_SESSIONS = ("--override", "zookeeper.session.timeout.ms=4000")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a cluster."""
    require_zookeeper()
    with ended_with_block(tmp_path / "cluster") as path:
        yield path


def send(bootstrap: str, value: bytes) -> None:
    with Producer(bootstrap) as producer:
        producer.send("orders", value).result(timeout=60)


def read(bootstrap: str, count: int) -> list[bytes | None]:
    """Return the first records of the topic."""
    found: list[bytes | None] = []
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        while len(found) < count:
            found.append(next(consumer).value)
    return found


def test_another_broker_takes_over_from_a_controller_that_dies(folder: Path) -> None:
    port = free_base_port(2)
    options = ("--brokers", 2, "--base-port", port, "--zookeeper", *SHORT_SESSIONS)
    with foreground(folder, *options) as up:
        assert up.zookeeper == f"127.0.0.1:{port + 20}"
        assert up.bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
        assert up.said().startswith(f"ZooKeeper is up at 127.0.0.1:{port + 20} (pid ")
        moldau("topic", "create", "orders", "-b", up.bootstrap)
        send(up.bootstrap, b"first")

        before = status(folder)
        assert (before["zookeeper"], before["zookeeper_state"]) == (up.zookeeper, "running")
        first = before["controller"]
        (second,) = {1, 2} - {first}
        assert run(folder, "kill", first).returncode == 0
        eventually(lambda: status(folder)["controller"] == second, "the other one is elected")
        after = status(folder)
        assert after["controller_epoch"] > before["controller_epoch"]
        eventually(lambda: status(folder)["under_replicated_count"] == 1, "the ISR has shrunk")
        send(up.bootstrap, b"second")

        started = run(folder, "start", first)
        assert started.returncode == 0, started.stderr
        eventually(lambda: status(folder)["under_replicated_count"] == 0, "the ISR is whole")
        assert read(up.bootstrap, 2) == [b"first", b"second"]
        up.process.send_signal(signal.SIGTERM)
        assert up.ended() == 0
    stopped = status(folder)
    assert stopped["zookeeper_state"] == "stopped"
    assert states(folder) == ["stopped", "stopped"]


@pytest.mark.long
def test_brokers_go_on_without_their_zookeeper(folder: Path) -> None:
    options = ("--brokers", 1, "--base-port", free_base_port(1), "--zookeeper")
    with foreground(folder, *options) as up:
        moldau("topic", "create", "orders", "-b", up.bootstrap)
        send(up.bootstrap, b"first")  # the broker gets ids for this producer and the next ones
        for _ in range(3):
            up.said()  # that both are up, and how to end them
        killed = run(folder, "kill", "zookeeper")
        assert (killed.returncode, killed.stdout) == (0, "ZooKeeper was killed\n")
        assert up.said() == "ZooKeeper was killed by SIGKILL"
        assert status(folder)["zookeeper_state"] == "stopped"
        send(up.bootstrap, b"meanwhile")

        started = run(folder, "start", "zookeeper")
        assert started.returncode == 0, started.stderr
        assert started.stdout.startswith(f"ZooKeeper is up at {up.zookeeper} (pid ")
        assert up.said() == f"ZooKeeper is running again (pid {status(folder)['zookeeper_pid']})"
        created = moldau("topic", "create", "more", "-b", up.bootstrap)
        assert created.status == 0, created.err
        down = run(folder, "down")
        assert (down.returncode, down.stdout.splitlines()[0]) == (0, "broker 1 has stopped")
        # One process has died on the way.
        assert up.ended() == 1
    assert status(folder)["zookeeper_state"] == "stopped"


@pytest.mark.long
def test_a_broker_brings_its_zookeeper_back(folder: Path) -> None:
    options = ("--brokers", 3, "--base-port", free_base_port(3), "--zookeeper", "--detach")
    up = run(folder, "up", *options, *SHORT_SESSIONS)
    assert up.returncode == 0, up.stderr
    assert run(folder, "stop", 1).returncode == 0
    assert run(folder, "stop", 3).returncode == 0
    assert run(folder, "stop", "zookeeper").stdout == "ZooKeeper has stopped\n"
    # In any order: none of them votes.
    for number in (3, 1):
        started = run(folder, "start", number)
        assert started.returncode == 0, started.stderr
        assert ("ZooKeeper is up" in started.stdout) == (number == 3)
    assert states(folder) == ["running"] * 3
    down = run(folder, "down")
    assert down.returncode == 0, down.stderr
    assert down.stdout.splitlines()[-1] == "ZooKeeper has stopped"
    assert len(down.stdout.splitlines()) == 4


@pytest.mark.long
def test_all_brokers_stop_although_their_zookeeper_is_gone(folder: Path) -> None:
    options = ("--brokers", 3, "--base-port", free_base_port(3), "--zookeeper", "--detach")
    up = run(folder, "up", *options)
    assert up.returncode == 0, up.stderr
    assert run(folder, "kill", "zookeeper").returncode == 0
    down = run(folder, "down")
    assert (down.returncode, len(down.stdout.splitlines())) == (0, 3), down.stderr
    assert states(folder) == ["stopped"] * 3


@pytest.mark.long
def test_an_ensemble_of_the_user_is_used_and_left_alone(
    folder: Path, zookeeper: ZooKeeperNode
) -> None:
    connect = f"{zookeeper.address}/some/cluster"
    options = ("--brokers", 1, "--base-port", free_base_port(1), "--zookeeper-connect", connect)
    up = run(folder, "up", *options, "--detach")
    assert (up.returncode, up.stdout.splitlines()[0]) == (0, f"ZooKeeper at {connect}"), up.stderr
    with connect_to(connect) as connection:
        assert connection.children("/brokers/ids")[0] == ["1"]
        told = status(folder)
        assert (told["zookeeper"], told["zookeeper_state"]) == (connect, None)
        assert (told["controller"], told["controller_epoch"]) == (1, 1)
        assert run(folder, "down").stdout == "broker 1 has stopped\n"
        assert connection.children("/brokers/ids")[0] == []
    assert not (folder / "zookeeper").exists()
