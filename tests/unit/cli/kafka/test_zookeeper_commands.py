"""The commands around ZooKeeper, as far as they need no server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kits.kafka_command_kit import ours
from moldau.cli.kafka.running_zookeepers import forget, note, noted
from moldau.cli.kafka.zookeeper_texts import children_line, status_lines
from moldau.cli.zookeeper.connection import NodeStatus


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOLDAU_RUN_DIR", str(tmp_path / "run"))


def test_a_status_is_printed_as_zookeeper_prints_it(monkeypatch):
    status = NodeStatus(3, 17, 1_700_000_000_000, 1_700_000_060_999, 2, 1, 0, -2, 4, 5, 9)
    lines = status_lines(status)
    assert lines[0] == "cZxid = 0x3"
    assert lines[2] == "mZxid = 0x11"
    assert lines[4:] == [
        "pZxid = 0x9", "cversion = 1", "dataVersion = 2", "aclVersion = 0",
        "ephemeralOwner = 0xfffffffffffffffe", "dataLength = 4", "numChildren = 5",
    ]  # fmt: skip
    assert lines[1].startswith("ctime = Tue Nov 14 ") or lines[1].startswith("ctime = Wed Nov 15 ")
    assert lines[1].endswith(" 2023")
    assert children_line(["a", "b"]) == "[a, b]"
    assert children_line([]) == "[]"


def test_a_missing_kazoo_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    said = ours("zookeeper-shell", "localhost:2181", "ls", "/")
    assert (said.stdout, said.status) == ("Connecting to localhost:2181\n", 1)
    assert said.stderr == (
        "kazoo, which connects to ZooKeeper, is not installed: pip install 'moldau[zookeeper]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "USAGE: zookeeper-shell.sh"),
        (("-server",), "USAGE: zookeeper-shell.sh"),
        (("localhost:2181", "-frob", "ls"), "USAGE: zookeeper-shell.sh"),
        (("localhost:2181", "-timeout", "soon"), "-timeout soon: expected milliseconds"),
        (("localhost:2181", "-zk-tls-config-file", "f"), "-zk-tls-config-file: this shell"),
        (("localhost:port",), "zookeeper.connect=localhost:port: 'port' is not a port"),
    ],
)
def test_a_wrong_command_line_of_the_shell_is_refused(arguments, told):
    said = ours("zookeeper-shell", *arguments)
    assert said.status == 1
    assert said.stderr.startswith(told)


@pytest.mark.parametrize(
    "arguments", [(), ("-daemon",), ("-h",), ("f", "--frob"), ("f", "--override")]
)
def test_a_server_is_not_started_without_its_file(arguments):
    said = ours("zookeeper-server-start", *arguments)
    assert said.status == 1
    assert said.stderr.startswith("USAGE: zookeeper-server-start.sh [-daemon]")


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    file = tmp_path / "none"
    for command in ("zookeeper-server-start", "zookeeper-server-stop"):
        assert ours(command, file).stderr == f"{file}: No such file or directory\n"


def test_a_daemon_whose_output_has_no_place_is_not_started(tmp_path, monkeypatch):
    file = tmp_path / "zookeeper.properties"
    file.write_text(f"dataDir={tmp_path}/data\n")
    monkeypatch.setenv("LOG_DIR", str(file))
    for name, output in (("zookeeper", "zookeeper.out"), ("kafka", "kafkaServer.out")):
        said = ours(f"{name}-server-start", "-daemon", file)
        assert (said.stdout, said.status) == ("", 1)
        assert said.stderr == f"cannot write {file}/{output}: File exists\n"


def test_nobody_is_stopped_where_nobody_was_started(tmp_path):
    said = ours("zookeeper-server-stop")
    assert (said.stdout, said.status) == ("No zookeeper server to stop\n", 1)
    note(tmp_path)
    assert ours("zookeeper-server-stop").status == 1


def test_data_directories_are_noted_until_they_are_forgotten(tmp_path):
    assert noted() == []
    one, other = tmp_path / "one", Path("/somewhere/ü else")
    note(one)
    note(other)
    note(one)
    assert sorted(noted()) == sorted([one, other])
    forget(one)
    forget(one)
    assert noted() == [other]
    assert ours("kafka-server-stop").stdout == "No kafka server to stop\n"
    # A directory that is gone has no server any more.
    assert ours("zookeeper-server-stop").status == 1
    assert noted() == []
