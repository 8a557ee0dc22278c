"""A reader: it reads every partition from its leader over and over, and checks what it gets."""

from __future__ import annotations

import asyncio

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import RETRY_S, ClusterClient, ClusterTargets, LeaderView, NoAnswer
from moldau.sim.history import Read, Violation
from moldau.sim.workload.consumer import fetched_records

FETCH_SIZE = 5_000
JUMP_CHANCE = 0.05
PAUSE_S = 0.05


class ClusterReader(ClusterClient):
    """Reads what is committed."""

    def __init__(self, targets: ClusterTargets, name: str) -> None:
        super().__init__(targets, name)
        self._offsets = dict.fromkeys(range(len(targets.claims)), 0)

    async def run(self) -> None:
        """Read until the run stops."""
        while not self.targets.stopped:
            number = self.chance.choice(list(self._offsets))
            claims = self.targets.claims[number]
            try:
                await self._read_on(number, claims)
            except NoAnswer:
                self.forget_leader(claims)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(self.chance.expovariate(1 / PAUSE_S))
        self.close()

    async def _read_on(self, number: int, claims: PartitionClaims) -> None:
        if self.chance.random() < JUMP_CHANCE:
            self._offsets[number] = self.chance.randrange(self._offsets[number] + 1)
        offset = self._offsets[number]
        leader = await self.leader_of(claims)
        result = await self.fetch(claims, leader, offset, max_wait_ms=100)
        records = self.take(claims, offset, result)
        if records is None:
            self.forget_leader(claims)
            await asyncio.sleep(RETRY_S)
            if claims.is_exceeded:
                self._offsets[number] = 0
        else:
            self._offsets[number] = offset + len(records)
            self.targets.seen["read"] += len(records)

    async def fetch(
        self, claims: PartitionClaims, leader: LeaderView, offset: int, max_wait_ms: int
    ) -> FetchablePartitionResponse:
        """Fetch once from a leader, in the epoch in which it is believed to lead."""
        wanted = FetchPartition(
            claims.key.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=offset,
            partition_max_bytes=FETCH_SIZE,
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=FETCH_SIZE,
            topics=[FetchTopic(claims.key.topic, claims.topic_id, [wanted])],
        )
        response = await self.call(leader.node_id, request)
        if response.error_code:
            self.check_refusal("a fetch", response.error_code)
            raise NoAnswer("the fetch was refused")
        result: FetchablePartitionResponse = response.responses[0].partitions[0]
        return result

    def take(
        self, claims: PartitionClaims, offset: int, result: FetchablePartitionResponse
    ) -> list[Read] | None:
        """Check the answer to a fetch; None if it was refused for a while."""
        name = str(claims.key)
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not claims.is_exceeded:
                raise Violation(f"P2: {name} does not know offset {offset}, read before")
            return None
        if result.error_code:
            self.check_refusal(f"a fetch of {name}", result.error_code)
            return None
        records = fetched_records(name, result.records, offset)
        if [record.offset for record in records] != list(range(offset, offset + len(records))):
            raise Violation(f"I5: {name} read from {offset}: {[one.offset for one in records]}")
        if records and records[-1].offset >= result.high_watermark:
            raise Violation(f"P3: {name} served above its high watermark {result.high_watermark}")
        claims.committed(offset, [record.value for record in records])
        return records
