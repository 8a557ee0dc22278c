"""Which addresses commands take from the nodes of brokers."""

from __future__ import annotations

import contextlib

import pytest

from moldau.base.errors import UserError
from moldau.cli.zookeeper import live_brokers
from moldau.cli.zookeeper.connection import NodeMissing
from moldau.cli.zookeeper.live_brokers import live_broker_addresses
from moldau.cluster.model import Endpoint
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker


class Nodes:
    """What a connection reads, without a server."""

    def __init__(self, brokers: dict[str, bytes | None] | None) -> None:
        self.brokers = brokers

    def children(self, path: str) -> tuple[list[str], None]:
        assert path == "/brokers/ids"
        if self.brokers is None:
            raise NodeMissing(path)
        return sorted(self.brokers), None

    def read(self, path: str) -> tuple[bytes, None]:
        data = self.brokers[path.removeprefix("/brokers/ids/")]
        if data is None:
            raise NodeMissing(path)
        return data, None


@pytest.fixture
def found(monkeypatch):
    def addresses(brokers: dict[str, bytes | None] | None) -> list[str]:
        opened = contextlib.nullcontext(Nodes(brokers))
        monkeypatch.setattr(live_brokers, "connect_to", lambda connect: opened)
        return live_broker_addresses("zk:2181/kafka")

    return addresses


def node(*endpoints: Endpoint) -> bytes:
    return encode_broker(BrokerNode(endpoints))


def test_each_broker_has_its_first_plain_address(found):
    encrypted = Endpoint("SECURE", "one", 9093, 1)
    brokers = {
        "10": node(Endpoint("IN", "::1", 9092, 0)),
        "2": node(encrypted, Endpoint("IN", "one", 9092, 0), Endpoint("OUT", "one", 9094, 0)),
        "3": node(encrypted),
        "4": None,
        "5": b"{",
        "x": b"",
        "6": b'{"version":1,"host":"old","port":9095}',
    }
    assert found(brokers) == ["one:9092", "old:9095", "[::1]:9092"]


@pytest.mark.parametrize("brokers", [None, {}, {"1": None}])
def test_no_broker_is_one_line(found, brokers):
    with pytest.raises(UserError, match="no broker is registered in ZooKeeper at zk:2181/kafka"):
        found(brokers)


def test_brokers_that_cannot_be_reached_in_plain_are_one_line(found):
    with pytest.raises(UserError, match="has a PLAINTEXT listener"):
        found({"1": node(Endpoint("SECURE", "one", 9093, 1))})
