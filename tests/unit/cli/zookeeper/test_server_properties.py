"""What is read of the file of a ZooKeeper server before it is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.base.errors import UserError
from moldau.base.properties import parse_properties
from moldau.cli.zookeeper.server_properties import ServerProperties, read_server_properties


@pytest.fixture
def read(tmp_path):
    file = tmp_path / "zookeeper.properties"

    def read_text(text: str, **overrides: str) -> ServerProperties:
        file.write_text(text)
        return read_server_properties(file, overrides)

    return read_text


def test_the_data_and_the_address_are_read(read):
    found = read("# a comment\ndataDir = /var/zk \nclientPort=2182 \nclientPortAddress=::1\n")
    assert found.data == Path("/var/zk")
    assert found.address == ("::1", 2182)
    assert not found.is_ensemble_member


def test_a_relative_folder_is_that_below_the_folder_of_the_command(read):
    assert read("dataDir=zk\n").data == Path.cwd() / "zk"


@pytest.mark.parametrize("line", ["", "clientPortAddress=0.0.0.0", "clientPortAddress=[::]"])
def test_a_server_that_listens_everywhere_is_asked_on_loopback(read, line):
    assert read(f"dataDir=/zk\nclientPort=2181\n{line}\n").address == ("127.0.0.1", 2181)


def test_a_server_may_have_only_an_encrypted_port(read):
    assert read("dataDir=/zk\nsecureClientPort=2281\n").address is None


def test_members_of_an_ensemble_are_known_by_their_list(read):
    assert read("dataDir=/zk\nclientPort=2181\nserver.1=one:2888:3888\n").is_ensemble_member


def test_overrides_count_and_come_into_the_text(read):
    found = read("dataDir=/zk\ntickTime=2000\nclientPort=1\n", clientPort="2181", dataDir="/other")
    assert found.data == Path("/other")
    assert found.address == ("127.0.0.1", 2181)
    assert parse_properties(found.text) == {
        "dataDir": "/other", "tickTime": "2000", "clientPort": "2181",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clientPort=2181\n", "dataDir is missing"),
        ("dataDir=\n", "dataDir is missing"),
        ("dataDir=/zk\nclientPort=many\n", "clientPort=many is not a port"),
        ("dataDir=/zk\nclientPort=65536\n", "clientPort=65536 is not a port"),
        ("dataDir=\\u12\n", "line 1"),
    ],
)
def test_a_file_from_which_no_server_starts_is_one_line(read, tmp_path, text, told):
    with pytest.raises(UserError, match=f"{tmp_path}/zookeeper.properties: {told}"):
        read(text)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match="none: No such file or directory"):
        read_server_properties(tmp_path / "none", {})
