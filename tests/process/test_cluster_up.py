"""`moldau cluster up` and its companions as processes: brokers come up, die, return and stop."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_harness.topics import read_all, send
from kafka_harness.waiting import eventually
from kits.cli_kit import moldau
from kits.local_cluster import (
    brokers,
    ended_with_block,
    foreground,
    free_base_port,
    run,
    states,
)
from moldau.base.properties import parse_properties
from moldau.cli.clusters import preparing
from moldau.cli.clusters.layout import find_cluster
from moldau.cli.clusters.processes import find
from moldau.cli.operations.known_process import identity_of
from moldau.storage.directory import LOCK
from moldau.storage.disk import Disk


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a cluster."""
    with ended_with_block(tmp_path / "cluster") as path:
        yield path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_of_one_serves_until_a_signal_and_goes_on_with_its_data(
    folder: Path, number: signal.Signals
) -> None:
    port = free_base_port(2)
    with foreground(folder, "--brokers", 1, "--base-port", port) as up:
        assert up.bootstrap == f"127.0.0.1:{port}"
        assert up.said().startswith(f"broker 1 is up at 127.0.0.1:{port} (pid ")
        (one,) = brokers(folder)
        assert (one["id"], one["port"], one["state"], one["in_cluster"]) == (
            1, port, "running", True,
        )  # fmt: skip
        moldau("topic", "create", "orders", "-b", up.bootstrap)
        send(up.bootstrap, "orders", [b"first"])
        up.process.send_signal(number)
        assert up.ended() == 0
    assert states(folder) == ["stopped"]
    with foreground(folder) as up:
        assert read_all(up.bootstrap, "orders") == [b"first"]
        up.process.send_signal(number)
        assert up.ended() == 0


def test_a_broker_that_dies_is_reported_and_the_others_go_on(folder: Path) -> None:
    port = free_base_port(2)
    with foreground(folder, "--brokers", 2, "--base-port", port) as up:
        assert up.bootstrap == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
        assert [up.said().split(" (")[0] for _ in range(2)] == [
            f"broker 1 is up at 127.0.0.1:{port}",
            f"broker 2 is up at 127.0.0.1:{port + 1}",
        ]
        assert up.said().startswith("Ctrl-C stops the brokers")
        first, second = (one["pid"] for one in brokers(folder))

        killed = run(folder, "kill", 2)
        assert (killed.returncode, killed.stdout) == (0, "broker 2 was killed\n")
        assert up.said() == "broker 2 was killed by SIGKILL"
        assert states(folder) == ["running", "stopped"]

        started = run(folder, "start", 2)
        assert started.returncode == 0, started.stderr
        again = brokers(folder)[1]["pid"]
        assert started.stdout == f"broker 2 is up at 127.0.0.1:{port + 1} (pid {again})\n"
        assert again != second
        assert up.said() == f"broker 2 is running again (pid {again})"
        refused = run(folder, "start", 2)
        assert (refused.returncode, refused.stderr) == (
            1, f"moldau: broker 2 is already running (pid {again})\n",
        )  # fmt: skip

        # What another command has started is stopped too.
        assert [one["pid"] for one in brokers(folder)] == [first, again]
        up.process.send_signal(signal.SIGTERM)
        assert up.ended() == 0
    assert states(folder) == ["stopped", "stopped"]


def test_controllers_may_be_nodes_of_their_own(folder: Path) -> None:
    port = free_base_port(3)
    shape = ("--brokers", 1, "--controllers", 3, "--base-port", port)
    up = run(folder, "up", *shape, "--detach")
    assert (up.returncode, up.stdout) == (0, f"BOOTSTRAP=127.0.0.1:{port}\n"), up.stderr

    def status() -> dict[str, Any]:
        told: dict[str, Any] = moldau("cluster", "status", "--data", folder, "-o", "json").data
        return told

    told = status()
    assert [(one["id"], one["state"], one["port"]) for one in told["controllers"]] == [
        (number, "running", port + number - 1) for number in (11, 12, 13)
    ]
    assert [one["node"] for one in told["quorum"]["voters"]] == [11, 12, 13]
    active = told["controller"]
    killed = run(folder, "kill", active)
    assert (killed.returncode, killed.stdout) == (0, f"controller {active} was killed\n")
    eventually(lambda: status()["controller"] not in (None, active), "another one is active")
    started = run(folder, "start", active)
    where = f"127.0.0.1:{port + active - 1}"
    assert started.stdout.startswith(f"controller {active} is up at {where} (pid "), started.stderr
    down = run(folder, "down")
    assert down.stdout.splitlines()[0] == "broker 1 has stopped"
    assert down.stdout.count("controller 1") == 3


def test_the_last_broker_takes_the_command_with_it(folder: Path) -> None:
    with foreground(folder, "--brokers", 1, "--base-port", free_base_port(1)) as up:
        assert run(folder, "kill", 1).returncode == 0
        assert up.ended() == 1
    with foreground(folder) as up:
        down = run(folder, "down")
        assert (down.returncode, down.stdout) == (0, "broker 1 has stopped\n")
        assert up.ended() == 0


def test_brokers_stop_although_their_folder_was_deleted(folder: Path) -> None:
    with foreground(folder, "--brokers", 2, "--base-port", free_base_port(2)) as up:
        pids = [one["pid"] for one in brokers(folder)]
        shutil.rmtree(folder)
        up.process.send_signal(signal.SIGINT)
        assert up.ended() == 0
    for pid in pids:
        assert not identity_of(pid).partition(b"\n")[2]


def test_a_second_signal_ends_brokers_that_do_not_stop(folder: Path) -> None:
    with foreground(folder, "--brokers", 2, "--base-port", free_base_port(2)) as up:
        cluster = find_cluster(folder)
        assert cluster is not None
        paused = find(cluster.node(2))
        assert paused is not None
        with paused:
            paused.signal(signal.SIGSTOP)
            up.process.send_signal(signal.SIGINT)
            assert states(folder) == ["running", "running"]
            up.process.send_signal(signal.SIGTERM)
            assert up.ended() == 128 + signal.SIGTERM
    assert states(folder) == ["stopped", "stopped"]


@pytest.mark.skipif(
    signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="by nohup, which the brokers inherit"
)
def test_brokers_stop_with_a_terminal_that_nobody_can_write_to_any_more(folder: Path) -> None:
    with foreground(folder, "--brokers", 2, "--base-port", free_base_port(2)) as up:
        assert up.process.stderr is not None
        up.process.stderr.close()
        assert run(folder, "kill", 2).returncode == 0
        up.process.send_signal(signal.SIGHUP)
        assert up.ended() == 0
    assert states(folder) == ["stopped", "stopped"]


def test_a_broker_whose_disk_was_wiped_comes_back_as_the_same_one(folder: Path) -> None:
    up = run(folder, "up", "--brokers", 2, "--base-port", free_base_port(2), "--detach")
    assert up.returncode == 0, up.stderr
    assert run(folder, "kill", 2).returncode == 0
    shutil.rmtree(folder / "broker-2" / "data")
    started = run(folder, "start", 2)
    assert started.returncode == 0, started.stderr
    identities = [
        parse_properties((folder / f"broker-{number}" / "data" / "meta.properties").read_text())
        for number in (1, 2)
    ]
    assert len({one["cluster.id"] for one in identities}) == 1
    assert [one["node.id"] for one in identities] == ["1", "2"]


def test_a_detached_cluster_runs_until_it_is_taken_down(folder: Path) -> None:
    port = free_base_port(2)
    up = run(folder, "up", "--brokers", 2, "--base-port", port, "--detach")
    assert (up.returncode, up.stdout) == (0, f"BOOTSTRAP=127.0.0.1:{port},127.0.0.1:{port + 1}\n")
    pids = [one["pid"] for one in brokers(folder)]
    refused = run(folder, "up")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"moldau: broker 1 is already running (pid {pids[0]}): ")
    assert "`moldau cluster down` stops all" in refused.stderr
    stopped = run(folder, "stop", 2)
    assert (stopped.returncode, stopped.stdout) == (0, "broker 2 has stopped\n")
    assert states(folder) == ["running", "stopped"]
    assert run(folder, "start", 2).returncode == 0
    down = run(folder, "down")
    # The controller is the last: the other one tells it that it leaves.
    assert (down.returncode, down.stdout) == (0, "broker 2 has stopped\nbroker 1 has stopped\n")
    assert states(folder) == ["stopped", "stopped"]
    for pid in pids:
        # Of a process that has ended no command line is left, even before its status is asked for.
        assert not identity_of(pid).partition(b"\n")[2]


def test_settings_reach_every_broker(folder: Path) -> None:
    options = ("--brokers", 1, "--base-port", free_base_port(1), "--override", "num.partitions=5")
    with foreground(folder, *options) as up:
        moldau("topic", "create", "orders", "-b", up.bootstrap)
        assert moldau("topic", "list", "-b", up.bootstrap).rows == [["orders", "5"]]


def test_if_one_broker_does_not_come_up_none_is_left(folder: Path) -> None:
    cluster = preparing.claim(folder, 2, free_base_port(2))
    folder.mkdir()
    preparing.prepare(cluster, {})
    lock = Disk().lock(str(cluster.node(2).data / LOCK))
    up = run(folder, "up")
    lock.release()
    assert (up.returncode, up.stdout) == (1, "")
    lines = up.stderr.splitlines()
    log = folder / "broker-2" / "broker.log"
    assert lines[-1] == (f"moldau: broker 2 did not start: it ended; the end of {log} is above")
    assert f"  {log.read_text().splitlines()[-1]}" in lines
    assert str(cluster.node(2).data) in lines[-2]
    assert states(folder) == ["stopped", "stopped"]
