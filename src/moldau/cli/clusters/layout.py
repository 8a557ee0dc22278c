"""The folder of a cluster on one machine: which brokers it has, and where everything of them lies.

    DIR/cluster.json                 id, base port, numbers of brokers and controllers, where the
                                     metadata is kept; version of this layout
    DIR/broker-N/server.properties   written at every `moldau cluster up`
    DIR/broker-N/data                log directory
    DIR/broker-N/broker.log          what the process says, of all its runs
    DIR/broker-N/broker.pid          number, start time and command line of the process
    DIR/controller-N/                the same of a controller that is no broker
    DIR/zookeeper/                   the same of a ZooKeeper, if the cluster has its own

`cluster.json` comes first; only a move from ZooKeeper changes it. A folder with other contents is
not touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from moldau.base.errors import UserError
from moldau.cli.frame.failures import reason_of
from moldau.cli.zookeeper.server_process import pid_file

HOST: Final = "127.0.0.1"
FIRST_BROKER: Final = 1
DEFAULT_CONTROLLERS: Final = 3
"""How many brokers of a new cluster are controllers too, if it has so many: the first ones."""
CONTROLLER_OFFSET: Final = 10
"""From the base port to the port of the first controller."""
FIRST_CONTROLLER: Final = FIRST_BROKER + CONTROLLER_OFFSET
"""The number of the first controller that is no broker: numbers follow the ports."""
BROKERS_MAX: Final = CONTROLLER_OFFSET
"""One more would take the first controller's port."""
ZOOKEEPER_OFFSET: Final = 20
"""From the base port to the port of the cluster's own ZooKeeper; all brokers may be controllers."""
PORT_MAX: Final = 65535
BASE_PORT_MAX: Final = PORT_MAX - CONTROLLER_OFFSET

LAYOUT_VERSION: Final = 1
"""Of a cluster with one controller, as earlier releases wrote it."""
QUORUM_LAYOUT_VERSION: Final = 2
"""Of one with several, or that are no brokers. An earlier release would not start them."""
FILE_NAME: Final = "cluster.json"
NEW_FILE_NAME: Final = f"{FILE_NAME}.tmp"
"""What `write_atomically` leaves where it is interrupted."""


@dataclass(frozen=True, slots=True)
class ZooKeeperChoice:
    """Which ZooKeeper keeps the metadata of a cluster."""

    connect: str | None = None
    """The user's ensemble, as `zookeeper.connect` names it; None for a server in the folder."""

    def __str__(self) -> str:
        return "a ZooKeeper of its own" if self.connect is None else f"ZooKeeper at {self.connect}"


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """What is decided once for a cluster."""

    cluster_id: str | None
    """None with ZooKeeper: the first broker draws the id, and ZooKeeper keeps it."""
    base_port: int
    broker_count: int
    zookeeper: ZooKeeperChoice | None = None
    """None if brokers keep the metadata."""
    controller_count: int = 1
    """How many nodes vote on the metadata; without meaning with ZooKeeper."""
    has_controllers_apart: bool = False
    """Whether those that vote are no brokers. Otherwise the first brokers vote."""

    @property
    def metadata_place(self) -> str:
        """Where the metadata is, for messages."""
        if self.zookeeper is not None:
            return str(self.zookeeper)
        node = "controller" if self.has_controllers_apart else "broker"
        first = FIRST_CONTROLLER if self.has_controllers_apart else FIRST_BROKER
        if self.controller_count == 1:
            return f"its metadata in {node} {first}"
        return f"its metadata in {node}s {first} to {first + self.controller_count - 1}"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One broker of a cluster on this machine, or a controller that is none."""

    node_id: int
    port: int
    """Where clients reach a broker, and other nodes a controller that is no broker."""
    folder: Path
    controller_port: int | None
    """Where the others reach it as a controller; None if it is none."""
    is_broker: bool = True

    @property
    def is_voter(self) -> bool:
        """Whether it is a controller: among the first to start, and the last to stop."""
        return self.controller_port is not None

    @property
    def role(self) -> str:
        """What it is called, apart from its number."""
        return "broker" if self.is_broker else "controller"

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return f"{self.role} {self.node_id}"

    @property
    def address(self) -> str:
        """Where it is reached."""
        return f"{HOST}:{self.port}"

    @property
    def starts_first(self) -> bool:
        """Whether others need it at their start and at their end."""
        return self.is_voter

    @property
    def properties(self) -> Path:
        """Its settings."""
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What its process says."""
        return self.folder / f"{self.role}.log"

    @property
    def pid_file(self) -> Path:
        """What its process is known by."""
        return self.folder / f"{self.role}.pid"


@dataclass(frozen=True, slots=True)
class LocalZooKeeper:
    """The ZooKeeper of a cluster on this machine."""

    port: int
    folder: Path

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return "ZooKeeper"

    @property
    def address(self) -> str:
        """Where brokers reach it."""
        return f"{HOST}:{self.port}"

    @property
    def starts_first(self) -> bool:
        """Whether others need it at their start and at their end."""
        return True

    @property
    def properties(self) -> Path:
        """Its settings."""
        return self.folder / "zookeeper.properties"

    @property
    def data(self) -> Path:
        """Its snapshots and its log of transactions."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What its process says."""
        return self.folder / "zookeeper.log"

    @property
    def pid_file(self) -> Path:
        """What its process is known by, also to ZooKeeper's own commands."""
        return pid_file(self.data)


Member: TypeAlias = LocalNode | LocalZooKeeper
"""What has a process of its own in a cluster on this machine."""


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """A cluster and the folder that it lies in."""

    path: Path
    """Absolute: the command lines of brokers name it."""
    shape: ClusterShape

    @property
    def brokers(self) -> list[LocalNode]:
        """Every broker, those that vote first."""
        shape, base_port = self.shape, self.shape.base_port
        has_voters = shape.zookeeper is None and not shape.has_controllers_apart
        voter_count = shape.controller_count if has_voters else 0
        return [
            LocalNode(
                FIRST_BROKER + index,
                base_port + index,
                self.path / f"broker-{FIRST_BROKER + index}",
                base_port + CONTROLLER_OFFSET + index if index < voter_count else None,
            )
            for index in range(self.shape.broker_count)
        ]

    @property
    def controllers(self) -> list[LocalNode]:
        """The controllers that are no brokers."""
        count = self.shape.controller_count if self.shape.has_controllers_apart else 0
        first_port = self.shape.base_port + CONTROLLER_OFFSET
        return [
            LocalNode(
                number := FIRST_CONTROLLER + index,
                port := first_port + index,
                self.path / f"controller-{number}",
                port,
                is_broker=False,
            )
            for index in range(count)
        ]

    @property
    def nodes(self) -> list[LocalNode]:
        """Every controller and every broker."""
        return [*self.controllers, *self.brokers]

    @property
    def voters(self) -> list[LocalNode]:
        """The nodes that vote on the metadata; none with ZooKeeper."""
        return [node for node in self.nodes if node.is_voter]

    @property
    def zookeeper(self) -> LocalZooKeeper | None:
        """Its own ZooKeeper; None if it has none."""
        choice = self.shape.zookeeper
        if choice is None or choice.connect is not None:
            return None
        return LocalZooKeeper(self.shape.base_port + ZOOKEEPER_OFFSET, self.path / "zookeeper")

    @property
    def zookeeper_connect(self) -> str | None:
        """Where the brokers find ZooKeeper; None if a broker keeps the metadata."""
        if self.zookeeper is not None:
            return self.zookeeper.address
        return None if self.shape.zookeeper is None else self.shape.zookeeper.connect

    @property
    def members(self) -> list[Member]:
        """Whatever has a process."""
        return [*self.nodes] if self.zookeeper is None else [self.zookeeper, *self.nodes]

    @property
    def bootstrap(self) -> str:
        """Every broker's address, as clients take it."""
        return ",".join(broker.address for broker in self.brokers)

    def node(self, number: int) -> LocalNode:
        """Return one broker or controller; UserError if there is none of that number."""
        for node in self.nodes:
            if node.node_id == number:
                return node
        apart = self.controllers
        others = f", and controllers {apart[0].node_id} to {apart[-1].node_id}" if apart else ""
        raise UserError(
            f"{self.path} has no broker {number}: it has 1 to {self.shape.broker_count}{others}"
        )


def start_order(members: Sequence[Member]) -> list[list[Member]]:
    """Order by start: ZooKeeper or all voters, then all others at once. They stop in reverse.

    Voters have to start together: one of several is ready only once a majority of them runs.
    """
    first = [member for member in members if member.starts_first]
    others = [member for member in members if not member.starts_first]
    return [wave for wave in (first, others) if wave]


def open_cluster(path: Path) -> ClusterFolder:
    """Find the cluster in a folder; UserError if there is none."""
    found = find_cluster(path)
    if found is None:
        raise UserError(f"{path} has no cluster: `moldau cluster up --data {path}` creates one")
    return found


def find_cluster(path: Path) -> ClusterFolder | None:
    """Find the cluster in a folder, None if it is new; UserError if it holds something else."""
    path = path.absolute()
    try:
        content = (path / FILE_NAME).read_bytes()
    except FileNotFoundError:
        _refuse_other_contents(path)
        return None
    except OSError as error:
        raise UserError(f"cannot read {path / FILE_NAME}: {reason_of(error)}") from None
    return ClusterFolder(path, _decode(path / FILE_NAME, content))


def refuse_other_shape(
    found: ClusterFolder,
    broker_count: int | None,
    base_port: int | None,
    zookeeper: ZooKeeperChoice | None = None,
    controller_count: int | None = None,
) -> None:
    """Raise UserError if a cluster is not of the shape that was asked for; None asks for any."""
    shape = found.shape
    if broker_count not in (None, shape.broker_count):
        raise UserError(
            f"{found.path} has a cluster with brokers={shape.broker_count}, not {broker_count}"
        )
    if base_port not in (None, shape.base_port):
        raise UserError(
            f"{found.path} has a cluster with base-port={shape.base_port}, not {base_port}"
        )
    if zookeeper not in (None, shape.zookeeper):
        kept = shape.metadata_place
        raise UserError(f"{found.path} has a cluster with {kept}, not with {zookeeper}")
    if controller_count is not None and shape.zookeeper is not None:
        raise UserError(
            f"{found.path} has a cluster with {shape.zookeeper}, not with --controllers"
        )
    own_count = shape.controller_count if shape.has_controllers_apart else 0
    if controller_count not in (None, own_count):
        raise UserError(
            f"{found.path} has a cluster with {shape.metadata_place}, not with --controllers"
            f" {controller_count}"
        )


def encode(shape: ClusterShape) -> bytes:
    """Write `cluster.json`."""
    is_known_before = shape.controller_count == 1 and not shape.has_controllers_apart
    version = LAYOUT_VERSION if is_known_before else QUORUM_LAYOUT_VERSION
    return (json.dumps({"version": version, **asdict(shape)}, indent=2) + "\n").encode()


def _decode(file: Path, content: bytes) -> ClusterShape:
    try:
        told = json.loads(content)
    except ValueError:
        raise UserError(f"{file} is damaged: it is not JSON") from None
    if not isinstance(told, dict):
        raise UserError(f"{file} is damaged: it is not a JSON object")
    if told.get("version") not in (LAYOUT_VERSION, QUORUM_LAYOUT_VERSION):
        raise UserError(
            f"{file} has version {told.get('version')!r}; this release supports {LAYOUT_VERSION}"
            f" and {QUORUM_LAYOUT_VERSION}"
        )
    zookeeper = _zookeeper(file, told)
    broker_count = _number(file, told, "broker_count", BROKERS_MAX)
    # Earlier releases wrote no number of controllers, and had one, which was a broker.
    has_controllers_apart = told.get("has_controllers_apart", False) is True
    controller_count = _number(
        file,
        {"controller_count": 1, **told},
        "controller_count",
        BROKERS_MAX if has_controllers_apart else broker_count,
    )
    return ClusterShape(
        _cluster_id(file, told) if zookeeper is None else None,
        _number(file, told, "base_port", base_port_max(zookeeper, controller_count)),
        broker_count,
        zookeeper,
        controller_count,
        has_controllers_apart,
    )


def default_controller_count(broker_count: int) -> int:
    """Return how many brokers of a new cluster vote, if nobody says.

    Two that vote are worse than one: both would have to run.
    """
    return DEFAULT_CONTROLLERS if broker_count >= DEFAULT_CONTROLLERS else 1


def base_port_max(zookeeper: ZooKeeperChoice | None, controller_count: int) -> int:
    """Return the largest base port that leaves room for the ports after it."""
    if zookeeper is None:
        return BASE_PORT_MAX - (controller_count - 1)
    return PORT_MAX - ZOOKEEPER_OFFSET if zookeeper.connect is None else BASE_PORT_MAX


def _cluster_id(file: Path, told: Mapping[str, Any]) -> str:
    cluster_id = told.get("cluster_id")
    if not isinstance(cluster_id, str) or not cluster_id:
        raise UserError(f"{file} is damaged: cluster_id is {cluster_id!r}")
    return cluster_id


def _zookeeper(file: Path, told: Mapping[str, Any]) -> ZooKeeperChoice | None:
    """Read which ZooKeeper there is; files of earlier releases have none."""
    choice = told.get("zookeeper")
    if choice is None:
        return None
    connect = choice.get("connect", "") if isinstance(choice, dict) else ""
    if connect is None or (isinstance(connect, str) and connect):
        return ZooKeeperChoice(connect)
    raise UserError(f"{file} is damaged: zookeeper is {choice!r}")


def _number(file: Path, told: Mapping[str, Any], key: str, largest: int) -> int:
    value = told.get(key)
    if type(value) is not int or not 1 <= value <= largest:
        raise UserError(f"{file} is damaged: {key} is {value!r}, expected 1 to {largest}")
    return value


def _refuse_other_contents(path: Path) -> None:
    try:
        others = sorted(one.name for one in path.iterdir() if one.name != NEW_FILE_NAME)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"cannot use {path}: {reason_of(error)}") from None
    if others:
        raise UserError(
            f"{path} is not the folder of a cluster: it has {others[0]}, but no {FILE_NAME}"
        )
