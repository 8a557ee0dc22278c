"""Whatever bytes lie in an internal topic, its shards load, serve, and keep every good record.

Random bytes seldom get past the first field, so most records here are good ones with a few bytes
changed. Nothing but UnknownRecord and ProtocolError may come of them: the count of bugs stays 0.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.coordinator_kit import MemoryLog, marker
from kits.log_kit import HandClock
from moldau.base.ids import PartitionKey
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    FORM_BEFORE_2_1,
    CommittedOffset,
    OffsetKey,
    group_record,
    offset_record,
    offset_tombstone,
)
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.groups.snapshot import GroupSnapshot, MemberSnapshot
from moldau.coordination.outcome import Caller, ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.records import tombstone, transaction_record
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.sweeping import TransactionSettings
from moldau.coordination.transactions.transaction import Transaction, TransactionState
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.offsets import OffsetFetchRequestGroup
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec

EXAMPLES = int(os.environ.get("MOLDAU_FUZZ_EXAMPLES", "40"))
"""For a longer run."""

NOW_MS = 1_700_000_000_000
NEVER_EXPIRES = 2**62
GOOD_OFFSET = 4_711
PRODUCER = ProducerIdentity(7, 0)
CALLER = Caller(9, "client", "/127.0.0.1")


def member(name):
    return MemberSnapshot(name, f"{name}-1", "client", "/1.2.3.4", 60_000, 10_000, b"\0\0", b"a")


def snapshot(*names):
    leader = names[0] if names else None
    return GroupSnapshot("consumer", 3, "range", leader, NOW_MS, tuple(map(member, names)))


GROUP_RECORDS = [
    group_record(CURRENT_FORM, "bad", snapshot()),
    group_record(CURRENT_FORM, "bad", snapshot("m", "n")),
    group_record(FORM_BEFORE_2_1, "bad", snapshot("m", "n")),
    group_record(CURRENT_FORM, "bad", None),
    offset_record(CURRENT_FORM, OffsetKey("bad", "t", 0), CommittedOffset(5, 1, "", NOW_MS)),
    offset_record(
        CURRENT_FORM, OffsetKey("bad", "t", 0), CommittedOffset(5, 1, "x", 1, -1, b"i" * 16)
    ),
    offset_record(FORM_BEFORE_2_1, OffsetKey("bad", "t", 1), CommittedOffset(5, 1, "note", 1, 2)),
    offset_tombstone(OffsetKey("bad", "t", 0)),
]


def transaction(name, state=TransactionState.EMPTY, partitions=()):
    return Transaction(
        transactional_id=name,
        producer_id=4,
        producer_epoch=1,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset(partitions),
        start_ms=NOW_MS,
        last_update_ms=NOW_MS,
    )


TRANSACTION_RECORDS = [
    transaction_record(transaction("bad", state, [PartitionKey("t", 0)]), version)
    for state in list(TransactionState)[:6]
    for version in (0, 2)
] + [tombstone("bad")]

GOOD = {
    "groups": [
        offset_record(
            CURRENT_FORM,
            OffsetKey(f"good-{number}", "t", 0),
            CommittedOffset(GOOD_OFFSET, commit_timestamp=NEVER_EXPIRES),
        )
        for number in range(3)
    ],
    "transactions": [transaction_record(transaction(f"good-{n}"), 2) for n in range(3)],
}
REAL = {"groups": GROUP_RECORDS, "transactions": TRANSACTION_RECORDS}


@st.composite
def changed(draw, data):
    """Good bytes with a few of them replaced, cut out or put in."""
    if data is None:
        return draw(st.none() | st.binary(max_size=8))
    out = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(out)))
        new = draw(st.sampled_from([b"\xff", b"\x7f\xff\xff\xff", b"\x80", b""]) | st.binary())
        out[start : start + draw(st.sampled_from([0, len(new), 1, 50]))] = new
    return bytes(out)


def bad_records(kind):
    noise = st.tuples(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
    mutants = st.sampled_from(REAL[kind]).flatmap(
        lambda record: st.tuples(changed(record.key), changed(record.value))
    )
    values = st.sampled_from(REAL[kind]).flatmap(
        lambda record: st.tuples(st.just(record.key), changed(record.value))
    )
    return values | mutants | noise


@st.composite
def logs(draw, kind):
    """Batches of bad records around good ones; some are damaged as a whole."""
    log = MemoryLog()
    for good in GOOD[kind]:
        for _ in range(draw(st.integers(0, 2))):
            log.append(draw(bad_batches(kind)))
        if draw(st.booleans()):
            log.append(marker(PRODUCER, aborted=draw(st.booleans())))
        builder = BatchBuilder()
        builder.append(NOW_MS, *good)
        log.append(builder.build())
    return log


@st.composite
def bad_batches(draw, kind):
    transactional = draw(st.booleans())
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    builder = BatchBuilder(
        draw(st.sampled_from([Codec.NONE, Codec.GZIP])), **(producer if transactional else {})
    )
    for key, value in draw(st.lists(bad_records(kind), min_size=1, max_size=5)):
        builder.append(NOW_MS, key, value)
    batch = bytearray(builder.build())
    if draw(st.integers(0, 5)) == 0:
        batch[draw(st.integers(61, len(batch) - 1))] ^= draw(st.integers(1, 255))
    return bytes(batch)


def group_shard():
    settings = ShardSettings(GroupSettings(0, 6_000, 30_000, 100))
    return GroupShard(settings, random.Random(1))


def transaction_shard():
    settings = TransactionSettings(
        max_timeout_ms=900_000,
        abort_interval_ms=1,
        expiration_ms=1,
        expiration_interval_ms=1,
        transaction_version=lambda: 2,
    )
    return TransactionShard(0, settings)


async def loaded(log, make):
    """Load a shard and let its first timers fire."""
    runtime = Runtime("__internal", 1, lambda *_: make(), HandClock(), perform=lambda effect: None)
    runtime.lead(log)
    await asyncio.gather(*runtime._loads.values())
    for _ in range(5):
        await asyncio.sleep(0)
    return runtime


async def asked(runtime, decide):
    answer = runtime.call("k", decide, lambda code: code)
    return await answer if isinstance(answer, asyncio.Future) else answer


async def use_groups(runtime):
    """Ask for everything that loading may have left; return the good offsets."""
    (shard,) = runtime.shards
    for group_id in tuple(shard._groups):
        described = await asked(runtime, lambda s, t, _, g=group_id: s.describe_group(g, 5, t))
        assert described.group.error_code == ErrorCode.NONE
        for one in described.members:
            one.described(described.protocol)
        wanted = OffsetFetchRequestGroup(group_id, topics=None)
        found = await asked(runtime, lambda s, t, _, w=wanted: s.fetch(w, t, require_stable=True))
        for topic in found.topics:
            for partition in topic.partitions:
                topic.tell(partition)
        protocol = JoinGroupRequestProtocol("range", b"")
        join = JoinGroupRequest(group_id, 10_000, 10, "", None, "consumer", [protocol])
        runtime.call("k", lambda s, t, now, j=join: s.join(j, CALLER, t, now), lambda code: code)
    for timer in (*runtime._hosts[0]._timers,):
        runtime._hosts[0]._fire(timer)
    return [
        (await asked(runtime, lambda s, t, _, w=wanted: s.fetch(w, t, require_stable=False)))
        .topics[0]
        .tell(0)
        .committed_offset
        for wanted in (OffsetFetchRequestGroup(f"good-{n}", topics=None) for n in range(3))
    ]


@settings(deadline=None, max_examples=EXAMPLES)
@given(logs("groups"))
def test_a_group_shard_loads_whatever_lies_in_its_partition(log):
    async def work():
        runtime = await loaded(log, group_shard)
        assert runtime.refusals == (ErrorCode.NONE,)
        assert await use_groups(runtime) == [GOOD_OFFSET] * 3
        assert runtime.refusals == (ErrorCode.NONE,)
        assert runtime.bugs.count == 0
        await runtime.close()

    asyncio.run(work())


@settings(deadline=None, max_examples=EXAMPLES)
@given(logs("transactions"))
def test_a_transaction_shard_loads_whatever_lies_in_its_partition(log):
    async def work():
        runtime = await loaded(log, transaction_shard)
        assert runtime.refusals == (ErrorCode.NONE,)
        for number in range(3):
            name = f"good-{number}"
            found = await asked(runtime, lambda s, t, _, n=name: s.describe(n, t))
            assert found == transaction(name)
        assert runtime.refusals == (ErrorCode.NONE,)
        assert runtime.bugs.count == 0
        await runtime.close()

    asyncio.run(work())


@pytest.mark.parametrize("kind", ["groups", "transactions"])
def test_a_log_of_nothing_but_noise_leaves_an_empty_shard(kind, caplog):
    async def work():
        log = MemoryLog()
        for number in range(50):
            builder = BatchBuilder()
            builder.append(NOW_MS, bytes([number]) * number, bytes(number))
            log.append(builder.build())
        make = group_shard if kind == "groups" else transaction_shard
        runtime = await loaded(log, make)
        assert runtime.refusals == (ErrorCode.NONE,)
        assert runtime.load_times.skipped_records == 50
        await runtime.close()

    asyncio.run(work())
    assert "__internal-0: the record at offset 0 is skipped" in caplog.text
