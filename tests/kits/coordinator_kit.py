"""What tests of the coordinator runtime share: a log in memory, and a shard that keeps a map."""

from __future__ import annotations

import asyncio

from kits.log_kit import HandClock
from moldau.coordination.outcome import NOTHING, Outcome, Reply, StateRecord, UnknownRecord
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ApiError
from moldau.records.batch import CHECKED_POSITION, PREFIX_SIZE, batch_prefix, parse_header, seal
from moldau.records.builder import BatchBuilder
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.records.record import read_records
from moldau.replication.delayed import DelayedOperations


class MemoryLog:
    """The port of a partition, whose commits happen when a test says so."""

    def __init__(self, index=0, leader_epoch=0, *, commits=True, batches=()):
        self.index = index
        self.leader_epoch = leader_epoch
        self.commits = commits
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.committed_offset = 0
        self.refusal = None
        self.batches = []
        self.reads = 0
        self.unreadable = None
        self.delayed = DelayedOperations()
        for batch in batches:
            self.append(batch)

    def append(self, batch, header=None):
        if self.refusal is not None:
            raise ApiError(self.refusal)
        assert header in (None, parse_header(batch))
        header = parse_header(batch)
        prefix = batch_prefix(self.log_end_offset, len(batch), self.leader_epoch)
        self.batches.append((self.log_end_offset, prefix + batch[PREFIX_SIZE:]))
        self.log_end_offset += header.last_offset_delta + 1
        if self.commits:
            self.commit()

    def append_committed(self, checked, timestamp):
        if not self.commits or self.refusal is not None:
            return None
        batch = seal(0, checked, 0)
        header = parse_header(batch)
        assert not header.last_offset_delta
        assert header.max_timestamp == timestamp
        self.append(batch)
        return self.log_end_offset

    def commit(self, offset=None):
        self.committed_offset = self.log_end_offset if offset is None else offset
        self.delayed.complete(self.committed_offset)

    async def read(self, offset, max_bytes):
        self.reads += 1
        await asyncio.sleep(0)
        if self.unreadable is not None:
            raise self.unreadable
        found = b""
        for base, batch in self.batches:
            if base + parse_header(batch).last_offset_delta < offset:
                continue
            found += batch
            if len(found) >= max_bytes:
                # As from a file: the first batch whole, the last one cut.
                return found if len(found) == len(batch) else found[:max_bytes]
        return found

    def next_start(self, offset):
        return self.log_end_offset

    def delay(self, offset, done, timeout_s=None):
        return self.delayed.add(offset, done, timeout_s)

    def moved_to(self, leader_epoch, *, commits=True):
        """The same log, led in another epoch."""
        other = MemoryLog(self.index, leader_epoch, commits=commits)
        other.batches = self.batches
        other.log_end_offset = self.log_end_offset
        other.committed_offset = self.committed_offset
        return other


class MapShard:
    """Keeps a map of keys and values, some of them undecided until a transaction ends."""

    def __init__(self, index=0, leader_epoch=0):
        self.index = index
        self.leader_epoch = leader_epoch
        self.map = {}
        self.undecided = {}
        self.parked = []
        self.fired = []
        self.load_count = 0
        self.serves = asyncio.Event()
        self.heard = asyncio.Event()
        self.has_resigned = False
        self.after_load = NOTHING

    # The protocol

    def replay(self, record, producer):
        if record.key == b"unknown":
            raise UnknownRecord("a type of the future")
        if record.key == b"broken":
            raise ValueError("a bug")
        changes = self.map if producer is None else self.undecided.setdefault(producer[0], {})
        changes[record.key] = record.value

    def transaction_ended(self, producer, *, committed):
        changes = self.undecided.pop(producer.producer_id, {})
        if committed:
            self.map.update(changes)

    def loaded(self, now):
        self.load_count += 1
        self.serves.set()
        return self.after_load

    def timer_fired(self, key, now):
        self.fired.append(key)
        self.heard.set()
        return Outcome(records=[StateRecord(b"fired", str(key).encode())])

    def resigned(self):
        self.has_resigned = True

    # Requests

    def put(self, ticket, key, value, **more):
        return Outcome(
            records=[StateRecord(key, value)], replies=[Reply(ticket, ("put", value))], **more
        )

    def get(self, ticket, key, **more):
        return Outcome(replies=[Reply(ticket, ("got", self.map.get(key)))], **more)

    def park(self, ticket):
        self.parked.append(ticket)
        return NOTHING

    def put_again(self, asked, wall_ms, monotonic):
        key, value, _ = asked
        builder = BatchBuilder()
        builder.append(wall_ms, key, value)
        return builder.build()[CHECKED_POSITION:], value

    def replay_again(self, asked, value):
        key, _, bug = asked
        self.replay(StateRecord(b"broken" if bug == "replaying" else key, value), None)


def failed(code):
    """The response for an error of the coordinator itself."""
    return ("failed", code.name)


class Bench:
    """A runtime of one partition, its log, and what it was asked to do outside."""

    def __init__(self, log=None, **settings):
        self.effects = []
        self.shards = []
        settings.setdefault("perform", self.effects.append)
        self.runtime = Runtime("internal", 1, self._make, HandClock(), **settings)
        self.log = log or MemoryLog()

    def _make(self, index, leader_epoch):
        self.shards.append(MapShard(index, leader_epoch))
        return self.shards[-1]

    @property
    def shard(self):
        return self.shards[-1]

    async def begin(self):
        self.runtime.lead(self.log)
        await self.settle()
        return self

    async def settle(self):
        for _ in range(20):
            await asyncio.sleep(0)

    def put(self, key, value, **more):
        return self.runtime.call("k", lambda s, t, _: s.put(t, key, value, **more), failed)

    def get(self, key, **more):
        return self.runtime.call("k", lambda s, t, _: s.get(t, key, **more), failed)

    def park(self):
        return self.runtime.call("k", lambda s, t, _: s.park(t), failed)

    def write_at_once(self, key, value, *, bug=None):
        host = self.runtime.host_for("k")
        asked = (key, value, bug)
        return host is not None and host.write_at_once(
            MapShard.put_again, MapShard.replay_again, asked, 0.0
        )

    def do(self, outcome):
        self.runtime.tell("k", lambda shard, now: outcome)

    def stored(self):
        return [
            (record.key, record.value)
            for _, batch in self.log.batches
            for record in read_records(batch)
        ]


def run(work):
    return asyncio.run(work())


async def batches(*records, **settings):
    """The batches that putting these records leaves behind."""
    bench = await Bench(**settings).begin()
    for key, value in records:
        bench.put(key, value)
    return [batch for _, batch in bench.log.batches]


def one(key, value):
    """A batch of one record."""
    builder = BatchBuilder()
    builder.append(1, key, value)
    return builder.build()


def marker(producer, *, aborted):
    return end_transaction_batch(EndTransactionMarker(aborted, 0), *producer, 1)
