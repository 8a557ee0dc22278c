"""The files in `config/`: each is what its reader takes, also the lines that are commented out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.base.properties import parse_properties
from moldau.cli.zookeeper.server_properties import read_server_properties
from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings

FOLDER = Path(__file__).parents[2] / "config"
SERVERS = ("server.properties", "server-quorum.properties", "server-zookeeper.properties")
OFFERED = re.compile(r"^#(?=[\w.]+=)", re.MULTILINE)
"""What stands before a setting that is commented out; comments have a blank there."""


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def load(name: str, *, with_offered: bool = False, **overrides: str) -> BrokerSettings:
    text = OFFERED.sub("", text_of(name)) if with_offered else text_of(name)
    given = {key.replace("_", "."): value for key, value in overrides.items()}
    return BrokerSettings.load(text, given, strict=True)


def test_every_file_is_tested_here():
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {*SERVERS, "zookeeper.properties", "producer.properties", "consumer.properties"}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("with_offered", [False, True])
def test_a_broker_takes_each_setting(name, with_offered):
    settings = load(name, with_offered=with_offered)
    assert settings.node_id == 1
    assert settings.endpoints[0].port == 9092
    idle = ", ".join(settings.warnings).removeprefix("accepted without effect: ")
    assert all(key.startswith("zookeeper.") for key in idle.split(", ") if key)


@pytest.mark.parametrize("name", SERVERS)
def test_values_are_given_once(name):
    keys = re.findall(r"^#?([\w.]+)=", text_of(name), re.MULTILINE)
    assert len(keys) == len(set(keys)) > 5


def test_a_broker_joins_the_quorum_by_the_variables_that_the_file_shows():
    text = text_of("server-quorum.properties")
    shown = dict(re.findall(r"(KAFKA_\w+)=(\S+)", text))
    assert shown.keys() == {"KAFKA_NODE_ID", "KAFKA_LOG_DIRS", "KAFKA_LISTENERS"}
    settings = BrokerSettings.load(text, {}, shown, strict=True)
    assert (settings.node_id, settings.quorum.kind) == (2, NodeKind.MEMBER)
    assert [endpoint.port for endpoint in settings.endpoints] == [9192]
    (controller,) = settings.listeners.controller
    own = settings.quorum.voters[1]
    assert (own.node_id, own.address.port) == (2, controller.port)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("producer.properties", AsyncProducer), ("consumer.properties", AsyncConsumer)],
)
def test_a_client_takes_each_setting_and_they_are_its_defaults(name, kind):
    settings = parse_properties(text_of(name))
    given = kind(**settings)
    assert len(settings) > 5
    own = {key: settings[key] for key in ("group.id",) if key in settings}
    default = kind(**own)
    assert given._connection_settings == default._connection_settings
    assert given._settings == default._settings


def test_a_zookeeper_takes_its_file(tmp_path):
    found = read_server_properties(FOLDER / "zookeeper.properties", {})
    assert found.address == ("127.0.0.1", 2181)
    assert found.data.name == "zookeeper-data"
    assert not found.is_ensemble_member
    file = tmp_path / "zookeeper.properties"
    file.write_text(OFFERED.sub("", text_of("zookeeper.properties")))
    assert read_server_properties(file, {}).is_ensemble_member
