"""Writers and readers of a compacted topic: few keys, written over and over, and now and then gone.

A writer is idempotent and waits for every answer, so that each of its keys has one history. A
reader goes from the start of a partition to its end, while the broker cleans under its feet.
"""

from __future__ import annotations

import asyncio

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.builder import BatchBuilder
from moldau.records.record import read_records
from moldau.sim.history import Violation
from moldau.sim.keyed_history import KeyedHistory
from moldau.sim.workload.client import RETRY_S, Link
from moldau.sim.workload.coordinated import Coordinated
from moldau.sim.workload.fetched import whole_batches
from moldau.sim.workload.targets import Targets

KEYS_PER_WRITER = 6
RECORDS_MAX = 3
DELETE_CHANCE = 0.15
LAST_PRODUCE_WITH_NAMES = 12
FETCH_VERSION = 12
FETCH_SIZES = (300, 3_000, 100_000)


class KeyedWriter(Coordinated):
    """Writes its own keys to one partition."""

    def __init__(self, targets: Targets, name: str, index: int) -> None:
        super().__init__(targets, name)
        self._index = index
        self._history = targets.keyed[index]
        self._producer_id = -1
        self._sequence = 0
        self._under_way: list[tuple[bytes, bytes | None]] = []

    @property
    def finished(self) -> bool:
        return self.targets.stopped and not self._under_way

    async def work(self, link: Link) -> None:
        while not self.finished:
            if self._producer_id < 0:
                await self._begin(link)
                continue
            if not self._under_way:
                self._fill()
            await self._send(link)
            await asyncio.sleep(self.chance.expovariate(50.0))

    async def _begin(self, link: Link) -> None:
        answer = await link.call(InitProducerIdRequest(None, 60_000))
        if answer.error_code:
            self.check_passes("a producer id", answer.error_code)
            await asyncio.sleep(RETRY_S)
        else:
            self._producer_id = answer.producer_id

    def _fill(self) -> None:
        numbers = self.chance.sample(range(KEYS_PER_WRITER), self.chance.randint(1, RECORDS_MAX))
        for number in numbers:
            key = f"{self.name}/{number}".encode()
            value = self._history.write(key, delete=self.chance.random() < DELETE_CHANCE)
            self._under_way.append((key, value))

    async def _send(self, link: Link) -> None:
        builder = BatchBuilder(
            producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequence
        )
        for key, value in self._under_way:
            builder.append(self.targets.world.clock.wall_ms(), key, value)
        topic = self.targets.compacted
        data = [PartitionProduceData(self._index, builder.build())]
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(topic.name, topic.id, data)]
        )
        response = await link.call(request, LAST_PRODUCE_WITH_NAMES)
        result = response.responses[0].partition_responses[0]
        if result.error_code:
            self.check_passes("a batch with keys", result.error_code)
            await asyncio.sleep(RETRY_S)
            return
        for key, _ in self._under_way:
            self._history.acknowledged(key)
        self._sequence += len(self._under_way)
        self._under_way.clear()
        self.targets.seen["key written"] += 1


class KeyedReader(Coordinated):
    """Reads partitions of the compacted topic, each as a whole."""

    async def work(self, link: Link) -> None:
        while not self.finished:
            for index, history in enumerate(self.targets.keyed):
                await self.read_whole(link, index, history)
            await asyncio.sleep(self.chance.expovariate(5.0))

    async def read_whole(self, link: Link, index: int, history: KeyedHistory) -> bool:
        """Read one partition; False if that is not possible now."""
        known = history.known()
        size = self.chance.choice(FETCH_SIZES)
        records: list[tuple[bytes, bytes | None]] = []
        offset = 0
        while True:
            wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=size)
            topic = self.targets.compacted
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=size,
                session_epoch=-1,
                topics=[FetchTopic(topic.name, topic.id, [wanted])],
            )
            result = (await link.call(request, FETCH_VERSION)).responses[0].partitions[0]
            if result.error_code:
                self._check_refusal(link, offset, result.error_code)
                return False
            begun = offset
            for header, batch in whole_batches(history.name, result.records):
                for record in read_records(batch):
                    if record.offset >= offset:
                        key = record.key or b""
                        history.found(link.era, record.offset, key, record.value)
                        records.append((key, record.value))
                offset = header.base_offset + header.last_offset_delta + 1
            if offset >= result.high_watermark:
                break
            if offset == begun:
                raise Violation(f"P7: {history.name} gives nothing at {offset}")
        history.whole(known, records)
        self.targets.seen["compacted partition read"] += 1
        return True

    def _check_refusal(self, link: Link, offset: int, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and link.era != self.targets.era:
            return
        self.check_passes(f"a fetch at {offset}", code)


class FinalKeyedReader(KeyedReader):
    """Reads everything once, when nobody writes any more."""

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets, "final-keyed-reader")
        self._done = False

    @property
    def finished(self) -> bool:
        return self._done

    async def work(self, link: Link) -> None:
        for index, history in enumerate(self.targets.keyed):
            if not await self.read_whole(link, index, history):
                raise Violation(f"P7: {history.name} cannot be read, when all is well")
        self._done = True
