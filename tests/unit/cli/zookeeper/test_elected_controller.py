"""What ZooKeeper tells of the controller."""

from __future__ import annotations

import contextlib

import pytest

from moldau.base.errors import UserError
from moldau.cli.zookeeper import elected_controller
from moldau.cli.zookeeper.connection import NodeMissing
from moldau.cli.zookeeper.elected_controller import read_controller
from moldau.cluster.zookeeper.nodes.controller_nodes import ControllerNode, encode_controller

HELD = encode_controller(ControllerNode(2))


class Nodes:
    """What a connection reads, without a server."""

    def __init__(self, nodes):
        self.nodes = nodes

    def read(self, path):
        if path not in self.nodes:
            raise NodeMissing(path)
        return self.nodes[path], None


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (
            {"/controller": HELD, "/controller_epoch": b"7", "/cluster/id": b'{"id":"a"}'},
            (2, 7, "a"),
        ),
        ({"/controller_epoch": b"7"}, (None, 7, None)),
        ({}, (None, None, None)),
        ({"/controller": b"{", "/controller_epoch": b"7"}, None),
    ],
)
def test_the_controller_holds_a_node(monkeypatch, nodes, told):
    opened = contextlib.nullcontext(Nodes(nodes))
    monkeypatch.setattr(elected_controller, "connect_to", lambda *_, **__: opened)
    assert read_controller("zk:2181") == told


def test_a_zookeeper_that_does_not_answer_tells_nothing(monkeypatch):
    def refuse(*_, **__):
        raise UserError("no answer from ZooKeeper")

    monkeypatch.setattr(elected_controller, "connect_to", refuse)
    assert read_controller("zk:2181") is None
