"""Which part a node plays in its cluster: who votes, and where the controllers are found. Pure.

These nodes come out of `process.roles` and the settings of the quorum:

* A node without a controller listener that names no other controller stands alone: its metadata is
  inside its process, and nobody else can join it.
* A `broker,controller` with a controller listener that names no other controller is the only voter:
  it stores the metadata, and other brokers join through that listener.
* A `broker,controller` whose settings name several controllers is one member of a quorum. With
  `controller.quorum.voters` the settings name the voters. `controller.quorum.bootstrap.servers` has
  addresses only, and the metadata log names the voters (KIP-853).
* A `broker` joins the quorum that the settings name, and observes its metadata.
* A `controller` alone is such a sole voter or such a member, and serves no clients.
* A node with `zookeeper.connect`, which has no `process.roles`, is a broker whose cluster is kept
  in ZooKeeper, and may be elected controller.

The rules, and the words of a refusal as far as people search for them, are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.base.network import Address
from moldau.cluster.zookeeper.client.connect_string import ConnectString, parse_connect_string
from moldau.cluster.zookeeper.client.tls import ZooKeeperTls
from moldau.server.configuration.values import BrokerValues
from moldau.server.configuration.zookeeper_tls import zookeeper_tls
from moldau.server.network.listeners import EVERY_INTERFACE

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"

_VOTER = re.compile(r"(?P<id>[0-9]{1,10})@(?P<address>.+)")
_NODE_ID_MAX: Final = 2**31 - 1
_ADDRESS = re.compile(
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\[\]:/,]+)):(?P<port>[0-9]{1,5})"
)


class NodeKind(Enum):
    """What a node does for the metadata of its cluster."""

    ALONE = "keeps its own metadata, and no other node can join it"
    VOTER = "stores the metadata of a cluster"
    MEMBER = "votes on the metadata of a cluster with others"
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
    """Where to look for the active controller. `controller.quorum.bootstrap.servers` is not looked
    at where voters are named."""
    controller_listener: str = ""
    """The listener by which controllers reach each other, in capitals: the first that
    `controller.listener.names` has; empty if there is none."""
    zookeeper: ConnectString | None = None
    """Where the metadata is kept, if it is there."""
    zookeeper_tls: ZooKeeperTls | None = None
    """How the connection to it is encrypted; None for not at all."""
    is_broker: bool = True
    """Whether this node has partitions and serves clients; False for a controller alone."""

    @property
    def votes_alone(self) -> bool:
        """Whether this node is the only voter of its quorum."""
        return self.kind in (NodeKind.ALONE, NodeKind.VOTER)

    @property
    def has_several_controllers(self) -> bool:
        """Whether this node belongs to a quorum of several, as a voter or as an observer."""
        return len(self.controllers) > 1 and self.zookeeper is None


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
    if not roles:
        raise ConfigError("process.roles must name broker, controller or both")
    voters = _voters(values)
    controllers = tuple(one.address for one in voters) or _bootstrap_servers(values)
    names = [name.upper() for name in values.entries("controller.listener.names")]
    if len(controllers) > 1:
        _check_addresses(VOTERS if voters else BOOTSTRAP, controllers)
    if "controller" in roles:
        _check_voter(values, voters)
        if not is_broker(values):
            _check_controller_listeners(names, listener_names)
        kind = _kind_of_voter(controllers, names, listener_names)
    else:
        _check_observer(values, voters, controllers, set(names).intersection(listener_names))
        kind = NodeKind.OBSERVER
    return QuorumSettings(
        kind, voters, controllers, names[0] if names else "", is_broker=is_broker(values)
    )


def is_broker(values: BrokerValues) -> bool:
    """Tell whether a node has partitions and serves clients."""
    return set(values.entries("process.roles")) != {"controller"}


def _check_addresses(key: str, controllers: Sequence[Address]) -> None:
    """Refuse controllers that other nodes would not find; ConfigError."""
    for index, one in enumerate(controllers):
        if one in controllers[:index]:
            raise ConfigError(f"{key}: {one} is named twice")
        if one.host in EVERY_INTERFACE:
            raise ConfigError(
                f"{key}: {one} is every interface of a machine, which no other node can connect to;"
                " name the machine"
            )


def _check_voter(values: BrokerValues, voters: Collection[Voter]) -> None:
    node_id = values.integer("node.id")
    if voters and all(one.node_id != node_id for one in voters):
        raise ConfigError(
            f"{VOTERS}: if process.roles contains the 'controller' role, the node id {node_id} "
            "must be included in the set of voters"
        )


def _kind_of_voter(
    controllers: Collection[Address], names: Collection[str], listener_names: Collection[str]
) -> NodeKind:
    if len(controllers) > 1:
        _check_controller_listeners(names, listener_names)
        return NodeKind.MEMBER
    # A single bootstrap address may stand for several controllers. Only the folder can tell: the
    # log or the first snapshot names the voters. Whoever opens it refuses one with other voters.
    # To a node that does not vote it makes no difference: it asks that address who leads.
    return NodeKind.VOTER if set(names).intersection(listener_names) else NodeKind.ALONE


def _check_controller_listeners(names: Collection[str], listener_names: Collection[str]) -> None:
    """Refuse a voter whom the others could not reach; ConfigError."""
    if not names:
        raise ConfigError(
            "controller.listener.names is not set: other nodes reach this one through a"
            " listener of its own. Add CONTROLLER://HOST:PORT to listeners, and set"
            " controller.listener.names=CONTROLLER"
        )
    missing = [name for name in names if name not in listener_names]
    if missing:
        raise ConfigError(
            f"controller.listener.names: {missing[0]} is not among listeners, and other nodes"
            f" reach this one through it. Add {missing[0]}://HOST:PORT to listeners"
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
    node_id = values.integer("node.id")
    if any(one.node_id == node_id for one in voters):
        raise ConfigError(
            f"{VOTERS}: if process.roles contains just the 'broker' role, the node id {node_id} "
            "must not be included in the set of voters"
        )
    if values.value(AUTO_JOIN):
        raise ConfigError(
            f"{AUTO_JOIN} is only supported when process.roles contains the 'controller' role"
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
        if matched is None or int(matched["id"]) > _NODE_ID_MAX:
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
