"""Which part a node plays in its cluster: who votes, and where the controllers are found. Pure.

Four kinds of node come out of `process.roles` and the settings of the quorum:

* A node without a controller listener that names no other controller stands alone: its metadata is
  inside its process, and nobody else can join it.
* A `broker,controller` with a controller listener is the voter: it stores the metadata, and other
  brokers join through that listener.
* A `broker` joins the voter that the settings name, and observes its metadata.
* A node with `zookeeper.connect`, which has no `process.roles`, is a broker whose cluster is kept
  in ZooKeeper, and may be elected controller.

The rules, and the words of a refusal as far as people search for them, are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.cluster.zookeeper.client.connect_string import ConnectString, parse_connect_string
from moldau.cluster.zookeeper.client.tls import ZooKeeperTls
from moldau.server.configuration.values import BrokerValues
from moldau.server.configuration.zookeeper_tls import zookeeper_tls

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"

_VOTER = re.compile(r"(?P<id>[0-9]+)@(?P<address>.+)")
_ADDRESS = re.compile(
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\[\]:/,]+)):(?P<port>[0-9]{1,5})"
)


class NodeKind(Enum):
    """What a node does for the metadata of its cluster."""

    ALONE = "keeps its own metadata, and no other node can join it"
    VOTER = "stores the metadata of a cluster"
    OBSERVER = "follows the metadata that a voter stores"
    ELECTED = "keeps the metadata in ZooKeeper with others, and may be elected controller"


class Voter(NamedTuple):
    """A controller, as `controller.quorum.voters` names it."""

    node_id: int
    address: Address


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The part of one node, and where it finds the controllers."""

    kind: NodeKind
    voters: tuple[Voter, ...] = ()
    """Those that the settings name by their ids; empty where only addresses are known."""
    controllers: tuple[Address, ...] = ()
    """Where to look for the active controller."""
    zookeeper: ConnectString | None = None
    """Where the metadata is kept, if it is there."""
    zookeeper_tls: ZooKeeperTls | None = None
    """How the connection to it is encrypted; None for not at all."""


def quorum_settings(values: BrokerValues, listener_names: Collection[str]) -> QuorumSettings:
    """Decide what a node is; ConfigError if its settings contradict each other.

    `listener_names` are those of `listeners`, in capitals.
    """
    # Set, but empty (a variable that was not set, say), it must not start a broker that is alone.
    if values.is_set("zookeeper.connect"):
        if values.is_set("process.roles"):
            raise ConfigError(
                "zookeeper.connect and process.roles are both set: with process.roles the metadata"
                " is not in ZooKeeper. Remove one of them"
            )
        return QuorumSettings(
            NodeKind.ELECTED,
            zookeeper=parse_connect_string(values.text("zookeeper.connect") or ""),
            zookeeper_tls=zookeeper_tls(values),
        )
    roles = values.entries("process.roles")
    if "broker" not in roles:
        raise ConfigError("process.roles must name broker: a controller alone cannot be started")
    voters = _voters(values)
    controllers = tuple(one.address for one in voters) or _bootstrap_servers(values)
    controller_names = {name.upper() for name in values.entries("controller.listener.names")}
    if "controller" in roles:
        _check_voter(values, voters)
        is_open = bool(controller_names.intersection(listener_names))
        kind = NodeKind.VOTER if is_open else NodeKind.ALONE
        return QuorumSettings(kind, voters, controllers)
    _check_observer(values, voters, controllers, controller_names.intersection(listener_names))
    return QuorumSettings(NodeKind.OBSERVER, voters, controllers)


def _check_voter(values: BrokerValues, voters: Collection[Voter]) -> None:
    if len(voters) > 1 or len(values.entries(BOOTSTRAP)) > 1:
        key = VOTERS if len(voters) > 1 else BOOTSTRAP
        raise ConfigError(
            f"{key} names {len(values.entries(key))} nodes: "
            "a quorum of several controllers is not part of this version"
        )
    node_id = values.integer("node.id")
    if voters and all(one.node_id != node_id for one in voters):
        raise ConfigError(
            f"{VOTERS}: if process.roles contains the 'controller' role, the node id {node_id} "
            "must be included in the set of voters"
        )


def _check_observer(
    values: BrokerValues,
    voters: Collection[Voter],
    controllers: Collection[Address],
    opened: Collection[str],
) -> None:
    if not controllers:
        raise ConfigError(
            "process.roles names no controller: "
            f"{VOTERS} or {BOOTSTRAP} must say where one is, as 1@HOST:PORT or HOST:PORT"
        )
    if len(voters) > 1:
        raise ConfigError(
            f"{VOTERS} names {len(voters)} nodes: "
            "a quorum of several controllers is not part of this version"
        )
    node_id = values.integer("node.id")
    if any(one.node_id == node_id for one in voters):
        raise ConfigError(
            f"{VOTERS}: if process.roles contains just the 'broker' role, the node id {node_id} "
            "must not be included in the set of voters"
        )
    if opened:
        raise ConfigError(
            f"controller.listener.names: {', '.join(sorted(opened))} must not be among listeners "
            "of a node with just the 'broker' role"
        )


def _voters(values: BrokerValues) -> tuple[Voter, ...]:
    found: dict[int, Voter] = {}
    for entry in values.entries(VOTERS):
        matched = _VOTER.fullmatch(entry)
        if matched is None:
            raise ConfigError(f"{VOTERS}: {entry!r} is not of the form ID@HOST:PORT")
        voter = Voter(int(matched["id"]), _address(VOTERS, matched["address"]))
        if voter.node_id in found:
            raise ConfigError(f"{VOTERS}: node {voter.node_id} is named twice")
        found[voter.node_id] = voter
    return tuple(found.values())


def _bootstrap_servers(values: BrokerValues) -> tuple[Address, ...]:
    return tuple(_address(BOOTSTRAP, entry) for entry in values.entries(BOOTSTRAP))


def _address(key: str, text: str) -> Address:
    matched = _ADDRESS.fullmatch(text)
    if matched is None or not 0 < int(matched["port"]) < 65536:
        raise ConfigError(f"{key}: {text!r} is not of the form HOST:PORT")
    return Address(matched["bracketed"] or matched["host"], int(matched["port"]))
