"""A writer: bursts of batches to the leader of one partition after the other, each value once.

An idempotent writer sends a batch that was not acknowledged again, under its old sequence, until it
is. Any other writer gives it up: its values may be in the log once or not at all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.compression import Codec
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import RETRY_S, ClusterClient, ClusterTargets, LeaderView, NoAnswer
from moldau.sim.cluster.swarm import WriterPlan
from moldau.sim.history import Violation
from moldau.sim.workload.numbered_batches import (
    OUT_OF_ORDER,
    NumberedBatches,
    ProducerState,
    SentBatch,
)

TIMEOUT_MS = 1_500
ACKS_ALL = -1


@dataclass
class WriterLane(ProducerState):
    """One partition, as this writer writes to it."""

    claims: PartitionClaims
    unanswered: list[SentBatch] = field(default_factory=list)
    burst: int = 0
    """How many batches were in flight together when the oldest was sent first."""


class ClusterWriter(ClusterClient):
    """Writes to every partition there is."""

    def __init__(self, targets: ClusterTargets, name: str, plan: WriterPlan) -> None:
        super().__init__(targets, name)
        self._plan = plan
        self._batches = NumberedBatches(
            targets.world, name, Codec.NONE, plan.in_flight, idempotent=plan.idempotent
        )
        self._lanes = [WriterLane(claims) for claims in targets.claims]

    async def run(self) -> None:
        """Write until the run stops, and until nothing is left unanswered."""
        while lane := self._choose():
            try:
                await self._burst(lane)
            except NoAnswer:
                self.targets.seen["no answer"] += 1
                self._failed(lane)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(self.chance.expovariate(1 / self._plan.pause_s))
        self.close()

    def _choose(self) -> WriterLane | None:
        if self.targets.stopped:
            return next((lane for lane in self._lanes if lane.unanswered), None)
        return self.chance.choice(self._lanes)

    def _failed(self, lane: WriterLane) -> None:
        self.forget_leader(lane.claims)
        if not self._plan.idempotent:
            lane.unanswered.clear()

    async def _burst(self, lane: WriterLane) -> None:
        """Send some batches one behind the other, then take the answers to all of them."""
        if self._plan.idempotent and lane.producer_id < 0:
            await self._get_producer_id(lane)
        leader = await self.leader_of(lane.claims)
        if not lane.unanswered:
            lane.unanswered = self._batches.make_burst(str(lane.claims.key), lane)
            lane.burst = len(lane.unanswered)
        sent = [
            (batch, await self.send(leader.node_id, self._request(lane, batch)))
            for batch in lane.unanswered
        ]
        refused = False
        for number, (batch, future) in enumerate(sent):
            response = await self.answer(leader.node_id, future)
            result = response.responses[0].partition_responses[0]
            error = ErrorCode.of(result.error_code)
            if not error:
                self._acknowledged(lane, batch, result.base_offset)
            elif error in OUT_OF_ORDER and self._plan.idempotent:
                if not refused:
                    told = f"{error.name} {result.error_message}"
                    self._start_over(lane, leader, number, told)
                    return
            else:
                self.check_refusal(f"a batch for {lane.claims.key}", error, result.error_message)
                refused = True
        if refused:
            self._failed(lane)
            await asyncio.sleep(RETRY_S)

    def _acknowledged(self, lane: WriterLane, batch: SentBatch, offset: int) -> None:
        lane.unanswered.remove(batch)
        lane.begun = True
        self.targets.seen["acknowledged"] += 1
        if self._plan.acks == ACKS_ALL:
            lane.claims.committed(offset, batch.values)

    def _start_over(self, lane: WriterLane, leader: LeaderView, number: int, told: str) -> None:
        """Go on with another producer id; whether the batches under way are there is unknown.

        A start shortens a broker's memory for duplicates to one batch (`producer_snapshot`). So
        only a batch that never had another behind it must be recognised. A broker whose id another
        one has taken may believe in an epoch that is over, and lack what was written since.
        """
        is_current = self.targets.nodes.is_registered(leader.node_id)
        if lane.burst == 1 and number == 0 and is_current and not lane.claims.is_exceeded:
            raise Violation(f"P4: {lane.claims.key}, {self.name}: {told}")
        self.targets.seen["duplicates forgotten"] += 1
        lane.claims.given_up.add(self.name)
        lane.producer_id, lane.next_sequence, lane.begun = -1, 0, False
        lane.unanswered.clear()

    async def _get_producer_id(self, lane: WriterLane) -> None:
        answer = await self.call(self.any_node(), InitProducerIdRequest(None, 60_000))
        if answer.error_code:
            # A controller that is stopping has closed the store that ids come from.
            if answer.error_code != ErrorCode.KAFKA_STORAGE_ERROR:
                self.check_refusal("a producer id", answer.error_code)
            raise NoAnswer("no producer id was given")
        self.targets.producer_ids.take(answer.producer_id)
        lane.producer_id = answer.producer_id

    def _request(self, lane: WriterLane, batch: SentBatch) -> ProduceRequest:
        key = lane.claims.key
        data = [PartitionProduceData(key.partition, batch.data)]
        topic = TopicProduceData(key.topic, lane.claims.topic_id, data)
        return ProduceRequest(acks=self._plan.acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])
