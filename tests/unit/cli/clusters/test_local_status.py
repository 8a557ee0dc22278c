"""The status of a cluster on this machine while none of its brokers runs."""

from __future__ import annotations

import pytest

from kits.cli_kit import moldau
from kits.local_cluster import free_base_port
from moldau.cli.clusters import local_status
from moldau.cli.clusters.layout import ClusterShape, ZooKeeperChoice, encode
from moldau.cli.zookeeper import elected_controller
from moldau.cli.zookeeper.elected_controller import ElectedController


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cluster.json").write_bytes(encode(ClusterShape("the-id", 9092, 2)))
    return tmp_path


def test_brokers_that_do_not_run_are_shown_as_stopped(folder):
    ran = moldau("cluster", "status", "--data", folder, "-o", "json")
    assert (ran.status, ran.err) == (0, "")
    told = ran.data
    assert (told["cluster_id"], told["controller"]) == ("the-id", None)
    assert (told["under_replicated_count"], told["under_replicated"]) == (None, [])
    shown = [(one["id"], one["pid"], one["port"], one["state"]) for one in told["brokers"]]
    assert shown == [(1, None, 9092, "stopped"), (2, None, 9093, "stopped")]
    assert [one["in_cluster"] for one in told["brokers"]] == [None, None]


@pytest.mark.parametrize(
    ("choice", "connect", "state"),
    [
        (None, None, None),
        (ZooKeeperChoice(), "127.0.0.1:9112", "stopped"),
        (ZooKeeperChoice("127.0.0.1:1/kafka"), "127.0.0.1:1/kafka", None),
    ],
)
def test_it_is_told_which_zookeeper_there_is(folder, monkeypatch, choice, connect, state):
    monkeypatch.setattr(elected_controller, "PATIENCE_S", 0.1)
    (folder / "cluster.json").write_bytes(encode(ClusterShape("the-id", 9092, 2, choice)))
    told = moldau("cluster", "status", "--data", folder, "-o", "json").data
    assert (told["zookeeper"], told["zookeeper_state"]) == (connect, state)
    assert (told["controller"], told["controller_epoch"]) == (None, None)


def test_zookeeper_knows_who_the_controller_is(folder, monkeypatch):
    monkeypatch.setattr(local_status, "read_controller", lambda _: ElectedController(2, 5, "a"))
    shape = ClusterShape(None, 9092, 2, ZooKeeperChoice("z:2181"))
    (folder / "cluster.json").write_bytes(encode(shape))
    told = moldau("cluster", "status", "--data", folder, "-o", "json").data
    assert (told["controller"], told["controller_epoch"]) == (2, 5)
    assert [one["controller"] for one in told["brokers"]] == [False, True]
    table = moldau("cluster", "status", "--data", folder).out.splitlines()
    assert table[-2].split() == ["ZOOKEEPER", "STATE", "PID", "CONTROLLER", "EPOCH"]
    assert table[-1].split() == ["z:2181", "-", "-", "5"]


@pytest.mark.parametrize("verb", ["start", "stop", "kill"])
def test_only_a_cluster_with_a_zookeeper_has_one_to_start_or_end(folder, verb):
    ran = moldau("cluster", verb, "zookeeper", "--data", folder)
    assert (ran.status, ran.err) == (1, f"moldau: {folder} has no ZooKeeper of its own\n")


@pytest.mark.parametrize("word", ["0", "-1", "x", "ZooKeeper"])
def test_a_word_that_names_no_member_is_refused(folder, word):
    ran = moldau("cluster", "stop", "--data", folder, "--", word)
    assert ran.status == 2
    assert f"{word!r} is neither a node id nor 'zookeeper'" in ran.err


def test_one_zookeeper_is_enough(tmp_path):
    words = ("--zookeeper", "--zookeeper-connect", "z:2181")
    ran = moldau("cluster", "up", "--data", tmp_path, *words)
    assert ran.status == 2
    assert "--zookeeper-connect uses a running one: choose one" in ran.err


@pytest.mark.parametrize("words", [("--zookeeper",), ("--zookeeper-connect", "z:2181")])
def test_with_a_zookeeper_no_broker_votes(tmp_path, words):
    ran = moldau("cluster", "up", "--data", tmp_path / "new", "--controllers", 3, *words)
    assert ran.status == 2
    assert "with ZooKeeper any broker can be elected controller" in ran.err
    assert not (tmp_path / "new").exists()


def test_a_zookeeper_that_cannot_be_is_refused_before_anything_is_written(tmp_path):
    words = ("--base-port", free_base_port(3), "--zookeeper-connect", "z:port")
    ran = moldau("cluster", "up", "--data", tmp_path, *words)
    assert ran.status == 1
    assert "'port' is not a port; write host:port,host:port/chroot\n" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_line_for_each_broker(folder):
    lines = moldau("cluster", "status", "--data", folder).out.splitlines()
    assert lines[-3].split()[:4] == ["BROKER", "STATE", "PID", "PORT"]
    assert [line.split()[:4] for line in lines[-2:]] == [
        ["1", "stopped", "-", "9092"],
        ["2", "stopped", "-", "9093"],
    ]


@pytest.mark.parametrize("option", [("-b", "h:1"), ("-X", "a=b"), ("--profile", "p")])
def test_it_is_said_once_which_brokers_to_ask(folder, option):
    ran = moldau("cluster", "status", "--data", folder, *option)
    assert (ran.status, ran.out) == (2, "")
    assert "--data already names the brokers" in ran.err


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_broker_that_does_not_run_cannot_be_ended(folder, verb):
    ran = moldau("cluster", verb, 1, "--data", folder)
    assert (ran.status, ran.err) == (1, "moldau: broker 1 is not running\n")


def test_a_broker_is_not_started_before_its_controller(folder):
    ran = moldau("cluster", "start", 2, "--data", folder)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "moldau: the controller broker 1 is not running: start it first\n"


def test_it_is_said_which_brokers_to_start_together(folder):
    shape = ClusterShape("the-id", 9092, 4, controller_count=3)
    (folder / "cluster.json").write_bytes(encode(shape))
    ran = moldau("cluster", "start", 4, 4, "--data", folder)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "moldau: 0 of 3 controllers would run, but 2 are needed: start them together with"
        f" `moldau cluster start 1 2 4 --data {folder}`\n"
    )


def test_a_start_names_somebody(folder):
    ran = moldau("cluster", "start", "--data", folder)
    assert ran.status == 2
    assert "NODE|zookeeper" in ran.err


def test_a_cluster_that_does_not_run_is_down_already(folder):
    ran = moldau("cluster", "down", "--data", folder)
    assert (ran.status, ran.out, ran.err) == (0, "", f"no broker of {folder} is running\n")


def test_a_broker_that_is_not_there_is_refused(folder):
    for verb in ("start", "stop", "kill"):
        ran = moldau("cluster", verb, 3, "--data", folder)
        assert (ran.status, ran.err) == (1, f"moldau: {folder} has no broker 3: it has 1 to 2\n")
