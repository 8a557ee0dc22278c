"""A producer: bursts of batches to one partition after the other, each value once.

An idempotent producer sends a batch that was not acknowledged again, under its old sequence, until
it is. Any other producer gives it up: its values may be in the log once or not at all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.engine.errors import ConnectionLost
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.compression import Codec
from moldau.sim.history import Violation
from moldau.sim.workload.client import Link, Worker
from moldau.sim.workload.numbered_batches import (
    OUT_OF_ORDER,
    NumberedBatches,
    ProducerState,
    SentBatch,
)
from moldau.sim.workload.targets import Targets, TopicTarget

IN_FLIGHT_MAX = 5
"""As many as the broker remembers of an idempotent producer."""
LAST_VERSION_WITH_NAMES = 12


class ProducerPlan(NamedTuple):
    """What kind of producer it is."""

    acks: int
    idempotent: bool
    in_flight: int
    codec: Codec
    pause_s: float


@dataclass
class Lane(ProducerState):
    """One partition, as this producer writes to it."""

    topic: TopicTarget
    index: int
    era: int = -1
    """In which the producer id was given."""
    unanswered: deque[SentBatch] = field(default_factory=deque)
    forgotten: bool = False
    """The broker does not remember what it has of the batches sent again."""
    life: int = 0
    """Of the broker that what is unanswered was sent to first."""

    @property
    def name(self) -> str:
        return self.topic.histories[self.index].name


class Producer(Worker):
    """Writes to every topic there is."""

    def __init__(self, targets: Targets, name: str, plan: ProducerPlan) -> None:
        super().__init__(targets, name)
        self._plan = plan
        self._batches = NumberedBatches(
            targets.world, name, plan.codec, plan.in_flight, idempotent=plan.idempotent
        )
        self._lanes: dict[tuple[bytes, int], Lane] = {}

    @property
    def finished(self) -> bool:
        return self.targets.stopped and not any(
            lane.unanswered for lane in self._lanes.values() if not lane.topic.deleting
        )

    async def work(self, link: Link) -> None:
        while not self.finished:
            lane = self._choose()
            if lane is not None:
                await self._burst(link, lane)
            await asyncio.sleep(self.chance.expovariate(1 / self._plan.pause_s))

    def connection_lost(self) -> None:
        super().connection_lost()
        if not self._plan.idempotent:
            for lane in self._lanes.values():
                lane.unanswered.clear()

    def _choose(self) -> Lane | None:
        """Choose where to write; what was begun comes first when the run is to end."""
        if self.targets.stopped:
            lanes = self._lanes.values()
            return next((one for one in lanes if one.unanswered and not one.topic.deleting), None)
        topics = self.targets.live
        if not topics:
            return None
        topic = self.chance.choice(topics)
        index = self.chance.randrange(topic.partition_count)
        return self._lanes.setdefault((topic.id, index), Lane(topic, index))

    async def _burst(self, link: Link, lane: Lane) -> None:
        """Send some batches one behind the other, then wait for the answers to all of them."""
        if self._plan.idempotent and lane.era != self.targets.era:
            await self._begin(link, lane)
        if not lane.unanswered:
            lane.life = link.life
            self._fill(lane)
        known = link.known(lane.topic.histories[lane.index])
        sent = [(batch, self._send(link, lane, batch)) for batch in lane.unanswered]
        refused = False
        for batch, future in sent:
            response = await link.answer(future)
            if lane.topic.deleting:
                continue
            result = response and response.responses[0].partition_responses[0]
            if result is not None and result.error_code:
                self._refused(link, lane, result, after_another=refused)
                refused = self._plan.idempotent
            elif refused and not lane.forgotten:
                raise Violation(f"P4: {lane.name} took a batch behind one that it refused")
            elif result is not None:
                history = lane.topic.histories[lane.index]
                history.acknowledged(known, result.base_offset, batch.values)
                lane.begun = True
                self.targets.seen["acknowledged"] += 1
            if not refused:
                lane.unanswered.popleft()
        if lane.forgotten:
            self._start_over(lane)

    async def _begin(self, link: Link, lane: Lane) -> None:
        """Get a producer id for a partition; after a power cut what was under way is given up."""
        era = link.era
        answer = await link.call(InitProducerIdRequest(None, 60_000))
        if answer.error_code:
            self.check_refusal(lane.topic, "a producer id", answer.error_code, None)
            raise ConnectionLost("no producer id was given")
        self.targets.producer_ids.take(answer.producer_id)
        lane.producer_id = answer.producer_id
        self._start_over(lane)
        lane.era = era

    def _start_over(self, lane: Lane) -> None:
        """Give up what was under way: whether it is in the log is for readers to find out."""
        if lane.unanswered:
            lane.topic.histories[lane.index].given_up.add(self.name)
        lane.era, lane.next_sequence = -1, 0
        lane.begun = lane.forgotten = False
        lane.unanswered.clear()

    def _fill(self, lane: Lane) -> None:
        """Make new batches, unless the run is about to end."""
        if not self.targets.stopped:
            lane.unanswered.extend(self._batches.make_burst(lane.name, lane))

    def _send(self, link: Link, lane: Lane, batch: SentBatch) -> asyncio.Future[object]:
        topic = lane.topic
        data = [PartitionProduceData(lane.index, batch.data)]
        request = ProduceRequest(
            acks=self._plan.acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(topic.name, topic.id, data)],
        )
        version = None if topic.by_id else LAST_VERSION_WITH_NAMES
        future: asyncio.Future[object] = link.send(request, version, answered=self._plan.acks != 0)
        return future

    def _refused(
        self, link: Link, lane: Lane, result: PartitionProduceResponse, *, after_another: bool
    ) -> None:
        error = ErrorCode.of(result.error_code)
        if error in OUT_OF_ORDER:
            if after_another:
                return
            # A start shortens the memory for duplicates to one batch (`producer_snapshot`).
            lane.forgotten = link.life != lane.life and len(lane.unanswered) > 1
            if lane.forgotten:
                self.targets.seen["duplicates forgotten"] += 1
            elif lane.era == self.targets.era:
                raise Violation(
                    f"P4: {lane.name}, {self.name}: {error.name} {result.error_message}"
                )
            return
        self.check_refusal(lane.topic, "a batch", result.error_code, result.error_message)
        self.targets.seen["refused"] += 1
