"""A client of a cluster: it looks up leaders, keeps a connection to each broker, and asks again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, NamedTuple

from moldau.base.errors import ProtocolError
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientError
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.nodes import Nodes
from moldau.sim.history import Violation
from moldau.sim.network import SimNetwork
from moldau.sim.workload.client import NO_TIMEOUT_MS, ignore_failure
from moldau.sim.workload.producer_ids import ProducerIds
from moldau.sim.world import World

CONNECT_PATIENCE_S = 1.0
ANSWER_PATIENCE_S = 3.0
RETRY_S = 0.1

PASSING_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)
"""What a client may be told while brokers come and go."""


class NoAnswer(Exception):  # noqa: N818 - it names the state
    """There was no answer, and it cannot be known what became of the request."""


class LeaderView(NamedTuple):
    """The newest leader of a partition that a client has heard of."""

    node_id: int
    epoch: int


class ClusterTargets:
    """What all clients of a run share."""

    def __init__(self, world: World, network: SimNetwork, nodes: Nodes) -> None:
        self.world = world
        self.network = network
        self.nodes = nodes
        self.claims: list[PartitionClaims] = []
        self.seen: Counter[str] = Counter()
        """What happened in this run; a run in which nothing happened proves nothing."""
        self.stopped = False
        """Clients finish what they have begun and end."""
        self.disks_failed = False
        """A disk was broken or full: brokers log errors, and refuse writes."""
        self.producer_ids = ProducerIds()


class ClusterClient:
    """One client, on a host of its own."""

    def __init__(self, targets: ClusterTargets, name: str) -> None:
        self.targets = targets
        self.name = name
        self.chance: random.Random = targets.world.random(name)
        self._host = targets.network.host(name)
        self._settings = ConnectionSettings(client_id=name, request_timeout_ms=NO_TIMEOUT_MS)
        self._connections: dict[int, ClientConnection] = {}
        self._leaders: dict[tuple[bytes, int], LeaderView] = {}
        self._last_epochs: dict[tuple[bytes, int], int] = {}
        """Leaders of earlier epochs are not believed: some brokers learn late of an election."""

    # Asking

    async def _connection(self, node_id: int) -> ClientConnection:
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            address = self.targets.nodes.by_id(node_id).process.address
            try:
                async with asyncio.timeout(CONNECT_PATIENCE_S):
                    connection = await ClientConnection.open(self._host, address, self._settings)
            except (OSError, ClientError) as error:
                raise NoAnswer(str(error)) from error
            self._connections[node_id] = connection
        return connection

    async def send(
        self, node_id: int, request: Any, version: int | None = None
    ) -> asyncio.Future[Any]:
        """Send a request to a broker; the future is for `answer`."""
        connection = await self._connection(node_id)
        if version is None:
            version = connection.agreed_version(type(request))
        try:
            future = connection.send(request, version)
        except ClientError as error:
            raise NoAnswer(str(error)) from error
        future.add_done_callback(ignore_failure)
        return future

    async def answer(
        self, node_id: int, future: asyncio.Future[Any], patience_s: float = ANSWER_PATIENCE_S
    ) -> Any:
        """Wait for an answer; NoAnswer, with the connection closed, if none comes in time."""
        try:
            async with asyncio.timeout(patience_s):
                return await future
        except (TimeoutError, ClientError) as error:
            if isinstance(error.__cause__, ProtocolError):
                raise Violation(f"protocol: {error.__cause__}") from error
            self.hang_up(node_id)
            raise NoAnswer(str(error)) from error

    async def call(
        self,
        node_id: int,
        request: Any,
        version: int | None = None,
        patience_s: float = ANSWER_PATIENCE_S,
    ) -> Any:
        """Send a request and wait for its answer; NoAnswer if none comes."""
        future = await self.send(node_id, request, version)
        return await self.answer(node_id, future, patience_s)

    def hang_up(self, node_id: int) -> None:
        """Close a connection: an answer to an old request must not come after a new one."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for node_id in list(self._connections):
            self.hang_up(node_id)

    def any_node(self) -> int:
        return self.chance.choice(self.targets.nodes.all).id

    # Leaders

    async def leader_of(self, claims: PartitionClaims) -> LeaderView:
        """Return the leader of a partition; NoAnswer if the broker that is asked knows none."""
        place = (claims.topic_id, claims.key.partition)
        known = self._leaders.get(place)
        if known is None:
            await self._ask_for_leaders(claims)
            known = self._leaders.get(place)
        if known is None:
            raise NoAnswer("no leader is known")
        return known

    def forget_leader(self, claims: PartitionClaims) -> None:
        """Look the leader up again before the next request."""
        place = (claims.topic_id, claims.key.partition)
        self._leaders.pop(place, None)

    async def _ask_for_leaders(self, claims: PartitionClaims) -> None:
        asked = [MetadataRequestTopic(claims.topic_id, claims.key.topic)]
        response = await self.call(self.any_node(), MetadataRequest(asked, False))
        for topic in response.topics:
            for partition in topic.partitions:
                place = (topic.topic_id, partition.partition_index)
                epoch = partition.leader_epoch
                # As Kafka's clients do: a broker without a controller names earlier leaders.
                if partition.leader_id >= 0 and epoch >= self._last_epochs.get(place, -1):
                    self._leaders[place] = LeaderView(partition.leader_id, epoch)
                    self._last_epochs[place] = epoch

    def check_refusal(self, what: str, code: int, message: str | None = None) -> None:
        """Raise Violation unless a client may be told this while brokers come and go."""
        error = ErrorCode.of(code)
        self.targets.seen[f"refused: {error.name}"] += 1
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self.targets.disks_failed:
            return
        if error not in PASSING_ERRORS:
            raise Violation(f"errors: {what} was refused: {error.name} {message or ''}")
