"""What every command that talks to a cluster shares."""

from __future__ import annotations

import io

import pytest

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.options import OptionParser, text
from moldau.cli.kafka.running import (
    CommandFailed,
    client_settings,
    cluster_options,
    fitting,
    read_properties,
)
from moldau.cli.zookeeper import live_brokers
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import Consumer

PARSER = OptionParser([*cluster_options(), text("command-property", "k=v", "A setting.")])


@pytest.fixture
def console():
    return Console(io.BytesIO(), io.BytesIO(), io.BytesIO())


def settings(console: Console, *arguments: str) -> dict[str, object]:
    return client_settings(PARSER.parse(arguments), console)


def test_settings_come_from_a_file_single_pairs_and_the_address(console, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("client.id=me\nretry.backoff.ms=7\nbootstrap.servers=elsewhere:1\n")
    assert settings(
        console, "--command-config", str(file), "--command-property", "client.id=you",
        "--broker-list", "here:9092",
    ) == {
        "client.id": "you", "retry.backoff.ms": "7", "bootstrap.servers": "here:9092",
    }  # fmt: skip


def test_a_zookeeper_means_the_brokers_that_are_registered_there(console, monkeypatch):
    found = {"one:2181,two:2181/kafka": ["three:9092", "[::1]:9192"]}
    monkeypatch.setattr(live_brokers, "live_broker_addresses", found.__getitem__)
    given = settings(console, "--zookeeper", "one:2181,two:2181/kafka")
    assert given == {"bootstrap.servers": "three:9092,[::1]:9192"}
    assert b"three:9092,[::1]:9192" in console.stderr.getvalue()


def test_an_address_of_brokers_comes_before_one_of_zookeeper(console):
    given = settings(console, "--zookeeper", "one", "--bootstrap-server", "two:9092")
    assert given == {"bootstrap.servers": "two:9092"}


def test_a_zookeeper_that_is_no_address_is_one_line(console):
    with pytest.raises(CommandFailed, match=r"--zookeeper: .*'port' is not a port"):
        settings(console, "--zookeeper", "one:port")


def test_a_shared_file_may_speak_to_other_clients_too():
    shared = {"group.id": "g", "acks": "all", "client.id": "me", "key.deserializer": "x", "typo": 1}
    assert fitting(AsyncAdmin, shared) == {"client.id": "me", "typo": 1}
    assert fitting(Consumer, shared) == {"group.id": "g", "client.id": "me", "typo": 1}


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(CommandFailed, match="No such file"):
        read_properties(str(tmp_path / "none"))
