"""A reader: it reads every partition from its leader over and over, and checks what it gets.

It asks each new leader where the partition ends, and now and then again (P9). Sometimes it reads
from any broker, as a client with old metadata does: one that does not lead must refuse.
"""

from __future__ import annotations

import asyncio

from moldau.base.ids import NO_LEADER_EPOCH
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import RETRY_S, ClusterClient, ClusterTargets, LeaderView, NoAnswer
from moldau.sim.history import Read, Violation
from moldau.sim.workload.consumer import LATEST, fetched_records

FETCH_SIZE = 5_000
JUMP_CHANCE = 0.05
END_CHANCE = 0.15
ELSEWHERE_CHANCE = 0.1
PAUSE_S = 0.05


class ClusterReader(ClusterClient):
    """Reads what is committed."""

    def __init__(self, targets: ClusterTargets, name: str) -> None:
        super().__init__(targets, name)
        self._offsets = dict.fromkeys(range(len(targets.claims)), 0)
        self._ends = dict.fromkeys(self._offsets, 0)
        """The highest end of each partition that this client was told, or has read up to."""
        self._asked_epochs = dict.fromkeys(self._offsets, 0)
        """The last leader epoch in which it was told."""

    async def run(self) -> None:
        """Read until the run stops."""
        while not self.targets.stopped:
            number = self.chance.choice(list(self._offsets))
            claims = self.targets.claims[number]
            try:
                await self._work_on(number, claims)
            except NoAnswer:
                self.forget_leader(claims)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(self.chance.expovariate(1 / PAUSE_S))
        self.close()

    async def _work_on(self, number: int, claims: PartitionClaims) -> None:
        drawn = self.chance.random()
        leader = await self.leader_of(claims)
        if drawn < END_CHANCE or leader.epoch != self._asked_epochs[number]:
            await self._ask_end(number, claims, leader)
        elif drawn < END_CHANCE + ELSEWHERE_CHANCE:
            await self._read_elsewhere(number, claims)
        else:
            await self._read_on(number, claims)

    async def _ask_end(self, number: int, claims: PartitionClaims, leader: LeaderView) -> None:
        """P9: ask the leader for the latest offset, which never goes back for a client.

        The leader of the present epoch also knows of all that others were told. One of an epoch
        that is over may not, so that it is compared with this client's own knowledge only.
        """
        committed = claims.end
        partition = ListOffsetsPartition(claims.key.partition, leader.epoch, LATEST)
        topic = ListOffsetsTopic(claims.key.topic, [partition])
        response = await self.call(leader.node_id, ListOffsetsRequest(-1, topics=[topic]))
        result = response.topics[0].partitions[0]
        if result.error_code:
            self.check_refusal(f"the end of {claims.key}", result.error_code)
            self.forget_leader(claims)
            await asyncio.sleep(RETRY_S)
            return
        self.targets.seen["end told"] += 1
        self._asked_epochs[number] = leader.epoch
        state = self.targets.nodes.image.partition(claims.key)
        is_present = state is not None and state.leader_epoch == leader.epoch
        known = max(self._ends[number], committed if is_present else 0)
        if result.offset < known and not claims.is_exceeded:
            raise Violation(
                f"P9: {claims.key} ended at {known}, now at {result.offset} "
                f"on broker {leader.node_id} in epoch {leader.epoch}"
            )
        self._ends[number] = result.offset

    async def _read_elsewhere(self, number: int, claims: PartitionClaims) -> None:
        """Read from any broker, whoever leads.

        A leader of an epoch that is over still has what it knew to be committed, but may end there.
        """
        offset = self._offsets[number]
        stranger = LeaderView(self.any_node(), NO_LEADER_EPOCH)
        result = await self.fetch(claims, stranger, offset, max_wait_ms=0)
        if result.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self.take(claims, offset, result)

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
            self._offsets[number] = end = offset + len(records)
            self._ends[number] = max(self._ends[number], end)
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
