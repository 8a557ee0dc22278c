"""Sends the requests of group members and transactional producers to the right broker of a cluster.

The clients of `sim.workload` ask over a `Link`. The link of a cluster looks at each request, and
sends it to the leader of its partition or to the coordinator of its group or transactional id.

A former coordinator that has not heard of its successor answers from memory, as Kafka's does. It
can write nothing, so it refuses commits. But its assignments and offsets may be out of date, so
such an answer counts as none. It may also tell a transactional producer that its transaction does
not exist. The producer then begins anew, as Kafka's clients do.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from moldau.cluster.image import MetadataImage
from moldau.engine.errors import ConnectionLost
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import FetchRequest, ProduceRequest
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from moldau.sim.cluster.client import PASSING_ERRORS, ClusterClient, LeaderView, NoAnswer
from moldau.sim.cluster.coordination_targets import CoordinationTargets
from moldau.sim.history import Violation
from moldau.sim.workload.client import Link
from moldau.sim.workload.coordinated import COORDINATOR_PASSING, Coordinated, CoordinatorKind

PATIENCE_S = 3.0
LIVES_PER_EPOCH = 1_000
"""More than a broker is started in a run."""

PASSING_IN_A_CLUSTER = PASSING_ERRORS | COORDINATOR_PASSING | {ErrorCode.KAFKA_STORAGE_ERROR}
"""KAFKA_STORAGE_ERROR, because a controller that is stopping has closed its store."""

ANSWERED_FROM_MEMORY = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetFetchRequest)


class RoutedLink(Link):
    """All connections of one client."""

    def __init__(self, targets: CoordinationTargets, client: ClusterClient) -> None:
        self._targets = targets
        self._client = client
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self.era = 0
        self.life = 0
        """Which coordinator gave the last answer, in which of its lives and terms."""
        self.asked_image = MetadataImage()
        """What the broker that was asked last knew of the cluster then."""
        self.patience_s = PATIENCE_S

    async def call(
        self, request: Any, version: int | None = None, *, patience_s: float | None = None
    ) -> Any:
        """Ask the broker that a request is for; ConnectionLost if no answer can be used."""
        patience_s = patience_s or self.patience_s
        try:
            if isinstance(request, FindCoordinatorRequest):
                return await self._client.call(self._client.any_node(), request)
            if isinstance(request, ProduceRequest | FetchRequest):
                leader = await self._leader(request)
                return await self._ask(leader.node_id, request, version, patience_s)
            return await self._call_coordinator(request, version, patience_s)
        except NoAnswer as error:
            self.forget()
            raise ConnectionLost(str(error)) from error

    async def _ask(self, node_id: int, request: Any, version: int | None, patience_s: float) -> Any:
        """Ask one broker, and remember what it knew of the cluster before."""
        broker = self._targets.cluster.nodes.by_id(node_id).process.broker
        self.asked_image = MetadataImage() if broker is None else broker.parts.store.image
        return await self._client.call(node_id, request, version, patience_s)

    async def _leader(self, request: ProduceRequest | FetchRequest) -> LeaderView:
        """Look up the leader of the one partition that a request names."""
        if isinstance(request, ProduceRequest):
            index = request.topic_data[0].partition_data[0].index
            return await self._client.leader_of(self._targets.places[index])
        wanted = request.topics[0].partitions[0]
        leader = await self._client.leader_of(self._targets.places[wanted.partition])
        wanted.current_leader_epoch = leader.epoch
        return leader

    async def _call_coordinator(self, request: Any, version: int | None, patience_s: float) -> Any:
        kind, key = _coordinator_key(request)
        node_id = await self._coordinator(kind, key)
        term = self._targets.term(kind, key)
        response = await self._ask(node_id, request, version, patience_s)
        if isinstance(request, ANSWERED_FROM_MEMORY):
            if node_id != term.leader or term != self._targets.term(kind, key):
                self._targets.seen["answer of a former coordinator"] += 1
                raise NoAnswer(f"broker {node_id} may not coordinate {key} any more")
            life = self._targets.cluster.nodes.by_id(node_id).process.life
            self.life = term.leader_epoch * LIVES_PER_EPOCH + life
        return response

    async def _coordinator(self, kind: CoordinatorKind, key: str) -> int:
        node_id = self._coordinators.get((kind, key))
        if node_id is None:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            response = await self._client.call(self._client.any_node(), request)
            found = response.coordinators[0]
            if found.error_code:
                raise NoAnswer(f"no coordinator of {key} is known")
            node_id = self._coordinators[kind, key] = found.node_id
        return node_id

    def forget(self) -> None:
        """Look everything up again before the next request."""
        self._coordinators.clear()
        for place in self._targets.places:
            self._client.forget_leader(place)

    def close(self) -> None:
        self._client.close()


def _coordinator_key(request: Any) -> tuple[CoordinatorKind, str]:
    """Return the kind of coordinator that a request is for, and its group or transactional id."""
    match request:
        case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
            return CoordinatorKind.TRANSACTION, str(request.transactional_id)
        case AddPartitionsToTxnRequest():
            return CoordinatorKind.TRANSACTION, request.v3_and_below_transactional_id
        case OffsetFetchRequest():
            return CoordinatorKind.GROUP, request.groups[0].group_id
        case (
            OffsetCommitRequest()
            | TxnOffsetCommitRequest()
            | JoinGroupRequest()
            | SyncGroupRequest()
            | HeartbeatRequest()
            | LeaveGroupRequest()
        ):
            return CoordinatorKind.GROUP, request.group_id
    raise TypeError(f"no broker is known for {type(request).__name__}")


class RoutedClient(Coordinated):
    """A client of coordinators, whichever brokers they are on."""

    targets: CoordinationTargets
    _link: RoutedLink | None = None

    async def run(self) -> None:
        """Work until the run stops, or until more was lost than the promises are for."""
        try:
            await super().run()
        except Violation:
            if not self.targets.is_void:
                raise
            self.targets.seen["coordination beyond the promise"] += 1

    @cached_property
    def _cluster_client(self) -> ClusterClient:
        """Return the one client behind all links: it remembers the newest leader epochs.

        A reader keeps its offsets over a lost connection. If it forgot the epochs, an isolated
        broker could send it to a former leader, which ends below those offsets.
        """
        return ClusterClient(self.targets.cluster, self.name)

    async def connect(self) -> Link | None:
        self._link = RoutedLink(self.targets, self._cluster_client)
        return self._link

    def passes(self, code: int) -> bool:
        if self._link is not None:
            self._link.forget()
        if ErrorCode.of(code) in PASSING_IN_A_CLUSTER:
            self.targets.seen["coordinator away"] += 1
            return True
        return False
