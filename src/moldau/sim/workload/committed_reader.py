"""A reader of the topic that transactions write to: filters as consumers do, and checks all of it.

Whoever reads committed records gets the aborted ones too, with a list of whose they are, and leaves
them out; the broker only holds back what is not decided. So what is checked is broker and filter
together: nothing that was not committed may remain.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    AbortedTransaction,
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from moldau.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from moldau.records.control import end_transaction_marker
from moldau.records.record import read_records
from moldau.sim.history import Violation
from moldau.sim.workload.client import RETRY_S, Link
from moldau.sim.workload.coordinated import Coordinated
from moldau.sim.workload.fetched import whole_batches
from moldau.sim.workload.targets import Targets
from moldau.sim.workload.transactor import OFFSET_PARTITION, group_of

JUMP_CHANCE = 0.1
OFFSET_CHANCE = 0.2


class ReaderPlan(NamedTuple):
    """What kind of reader it is."""

    version: int
    committed_only: bool
    max_bytes: int


class Fetched(NamedTuple):
    """One answer, taken apart."""

    next_offset: int
    values: list[bytes]
    """What an application would be given."""


class AbortedFilter:
    """Tells which batches of an answer belong to transactions that were aborted."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._begins: dict[int, list[int]] = defaultdict(list)
        for one in transactions:
            self._begins[one.producer_id].append(one.first_offset)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader, batch: bytes) -> bool:
        """Take the next batch; tell whether an application must not see it."""
        producer, begins = header.producer_id, self._begins[header.producer_id]
        later = [first for first in begins if first > header.base_offset]
        if len(later) < len(begins):
            self._begins[producer] = later
            self._open.add(producer)
        if header.attributes & CONTROL_BIT:
            marker = end_transaction_marker(batch)
            if marker is not None and marker.aborted:
                self._open.discard(producer)
            return False
        return bool(header.attributes & TRANSACTIONAL_BIT) and producer in self._open


class CommittedReader(Coordinated):
    """Reads every partition of the kept topic, over and over, from anywhere."""

    def __init__(self, targets: Targets, name: str, plan: ReaderPlan) -> None:
        super().__init__(targets, name)
        self._plan = plan
        self._offsets: dict[int, int] = {}
        self._stable_ends: dict[tuple[int, int], int] = {}
        """By era and partition, the highest that was told."""
        self._content: dict[tuple[int, int, int], bytes] = {}
        """By era, partition and offset: what is there stays."""

    async def work(self, link: Link) -> None:
        while not self.finished:
            for index in range(self.targets.kept.partition_count):
                await self._read(link, index)
            if self.chance.random() < OFFSET_CHANCE:
                await self._read_offset(link)
            await asyncio.sleep(self.chance.expovariate(20.0))

    async def _read(self, link: Link, index: int) -> None:
        offset = self._offsets.get(index, 0)
        end = self._stable_ends.get((link.era, index), 0)
        if offset > end or self.chance.random() < JUMP_CHANCE:
            offset = self.chance.randrange(end + 1)
        fetched = await self.fetch(link, index, offset)
        if fetched is not None:
            self._offsets[index] = fetched.next_offset
            self.targets.seen["committed value read"] += len(fetched.values)

    async def _read_offset(self, link: Link) -> None:
        owners = self.targets.transactions.owners
        if not owners:
            return
        owner = self.chance.choice(owners)
        found = await self.read_offsets(link, group_of(owner))
        if found is not None:
            self.targets.transactions.offset_read(owner, found[OFFSET_PARTITION])

    async def fetch(self, link: Link, index: int, offset: int) -> Fetched | None:
        """Read on from an offset; None if the partition cannot be read now."""
        topic, plan = self.targets.kept, self._plan
        known = self._stable_ends.get((link.era, index), 0)
        wanted = FetchPartition(index, fetch_offset=offset, partition_max_bytes=plan.max_bytes)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=self.chance.choice((0, 1)),
            max_bytes=plan.max_bytes,
            isolation_level=int(plan.committed_only),
            session_epoch=-1,
            topics=[FetchTopic(topic.name, topic.id, [wanted])],
        )
        response = await link.call(request, plan.version)
        result = response.responses[0].partitions[0]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and link.era != self.targets.era:
            return None
        if result.error_code:
            self.check_passes(f"a fetch at {offset}", result.error_code)
            await asyncio.sleep(RETRY_S)
            return None
        self.check_stable(index, known, result)
        self._stable_ends[link.era, index] = result.last_stable_offset
        return self._taken_apart(link, index, offset, result)

    def check_stable(self, index: int, known: int, result: FetchablePartitionResponse) -> None:
        """P9: what is stable stays so."""
        if not known <= result.last_stable_offset <= result.high_watermark:
            raise Violation(
                f"P9: {self.targets.kept.name}-{index} was stable up to {known}, now up to "
                f"{result.last_stable_offset} of {result.high_watermark}"
            )

    def _taken_apart(
        self, link: Link, index: int, offset: int, result: FetchablePartitionResponse
    ) -> Fetched:
        place = f"{self.targets.kept.name}-{index}"
        committed_only = self._plan.committed_only
        limit = result.last_stable_offset if committed_only else result.high_watermark
        aborted = AbortedFilter(result.aborted_transactions or ())
        values: list[bytes] = []
        for header, batch in whole_batches(place, result.records):
            last = header.base_offset + header.last_offset_delta
            if not header.base_offset <= offset <= last:
                raise Violation(f"I5: {place} served {header.base_offset} where {offset} was next")
            if last >= limit:
                raise Violation(f"P3: {place} served {last}, it may be read up to {limit}")
            offset = last + 1
            hidden = aborted.hides(header, batch)
            if header.attributes & CONTROL_BIT:
                continue
            for record in read_records(batch):
                value = record.value or b""
                self._check_same(link.era, index, record.offset, value)
                if hidden:
                    self.targets.transactions.left_out(place, value)
                elif committed_only:
                    self.targets.transactions.seen(place, value)
                    values.append(value)
            self.targets.seen["aborted batch left out"] += hidden
        return Fetched(offset, values)

    def _check_same(self, era: int, index: int, offset: int, value: bytes) -> None:
        known = self._content.setdefault((era, index, offset), value)
        if known != value:
            raise Violation(
                f"P2: {self.targets.kept.name}-{index} held {known!r} at {offset}, now {value!r}"
            )
