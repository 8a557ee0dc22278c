"""Whatever a log holds, a consumer sees what a plain model of the log says it should see."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.consumer_kit import fetched, marker, ready, take_all
from moldau.base.errors import CorruptRecords
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.consuming.holding import Holding
from moldau.client.errors import CorruptAnswer
from moldau.records.batch import TimestampType
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.record import read_records

PRODUCERS = 3


class Log(NamedTuple):
    """A partition: its bytes, its records, and which of them were aborted."""

    content: bytes
    records: list[tuple[int, bytes | None, bytes | None]]
    committed: list[tuple[int, bytes | None, bytes | None]]
    aborted: list[tuple[int, int]]
    end: int


texts = st.none() | st.binary(max_size=70)
batch_shapes = st.tuples(
    st.integers(-1, PRODUCERS - 1),
    st.lists(st.tuples(texts, texts, st.integers(1, 3)), max_size=5),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD]),
)
markers = st.tuples(st.integers(0, PRODUCERS - 1), st.booleans())


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Draw batches with holes, plain and transactional, and markers that end transactions."""
    content, offset = [], 0
    records: list[tuple[int, bytes | None, bytes | None]] = []
    open_since: dict[int, int] = {}
    fate: dict[int, list[int]] = {producer: [] for producer in range(PRODUCERS)}
    aborted, hidden = [], set()
    for step in draw(st.lists(batch_shapes | markers, max_size=12)):
        if len(step) == 2:
            producer, is_aborted = step
            content.append(marker(offset, producer, aborted=is_aborted))
            if producer in open_since and is_aborted:
                aborted.append((producer, open_since[producer]))
                hidden.update(fate[producer])
            open_since.pop(producer, None)
            fate[producer] = []
            offset += 1
            continue
        producer, rows, codec = step
        builder = BatchBuilder(
            codec,
            base_offset=offset,
            leader_epoch=1,
            producer_id=producer,
            transactional=producer >= 0,
        )
        delta = -1
        for key, value, gap in rows:
            delta += gap
            builder.append(1000 + delta, key, value, offset_delta=delta)
            records.append((offset + delta, key, value))
            if producer >= 0:
                fate[producer].append(offset + delta)
        if delta < 0:
            continue
        if producer >= 0:
            open_since.setdefault(producer, offset)
        content.append(builder.build())
        offset += delta + 1
    committed = [record for record in records if record[0] not in hidden]
    return Log(b"".join(content), records, committed, aborted, offset)


def seen(records):
    return [(record.offset, record.key, record.value) for record in records]


@settings(max_examples=60)
@given(logs(), st.data())
def test_every_record_from_a_position_on_is_seen_once_and_in_order(log, data):
    start = data.draw(st.integers(0, log.end))
    count = data.draw(st.integers(1, 6))
    for rules, expected in (
        (DecodingRules(), log.records),
        (DecodingRules(committed_only=True), log.committed),
    ):
        answer = fetched(log.content, start, aborted=log.aborted, rules=rules)
        taken = take_all(answer, count)
        assert seen(taken) == [record for record in expected if record[0] >= start]
        assert answer.next_offset == max(start, log.end)


@settings(max_examples=60)
@given(logs(), st.data())
def test_a_user_who_stops_anywhere_goes_on_exactly_there(log, data):
    state, holding = ready(0), Holding()
    answer = fetched(log.content, 0, aborted=log.aborted, state=state)
    handed = []
    while (taken := answer.take(data.draw(st.integers(1, 4)))) is not None:
        if not taken.records:
            state.settle(taken.next_offset, taken.leader_epoch)
            continue
        walk = holding.hand_out_walk(answer, taken)
        for _ in range(data.draw(st.integers(0, len(taken.records)))):
            handed.append(next(walk.rest))
            assert holding.consumed(state)[0] > handed[-1].offset
            assert holding.processed(state)[0] <= handed[-1].offset
        left = holding.settle()
        if left is not None:
            answer.put_back(left[1])
        assert state.offset <= log.end
        if handed:
            assert state.offset > handed[-1].offset
    assert seen(handed) == log.records
    assert state.offset == log.end


rows = st.tuples(
    st.sampled_from([0, 1, 63, 64, -64, -65, 8191, 8192, -9000, 2**40]),
    st.none() | st.sampled_from([b"", b"k" * 63, b"k" * 64, b"k" * 9000]),
    st.none() | st.sampled_from([b"", b"v" * 63, b"v" * 64, b"v" * 8185, b"v" * 9000]),
    st.sampled_from([(), (), (), (("h", None), ("i", b"1"))]),
    st.sampled_from([1, 1, 1, 2, 70, 9000]),
)


@settings(max_examples=80)
@given(st.lists(rows, min_size=1, max_size=130), st.booleans(), st.integers(1, 200))
def test_the_short_way_and_the_general_one_see_the_same(drawn, by_broker, count):
    kind = TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME
    builder = BatchBuilder(base_offset=5, leader_epoch=2, timestamp_type=kind)
    delta = -1
    for timestamp, key, value, headers, gap in drawn:
        delta += gap
        builder.append(10**12 + timestamp, key, value, headers, offset_delta=delta)
    content = builder.build()
    expected = [
        ("t", 0, one.offset, one.timestamp, kind, one.key, one.value, one.headers, 2)
        for one in read_records(content)
    ]
    assert take_all(fetched(content, 5), count) == expected


@settings(max_examples=150)
@given(logs(), st.data())
def test_damaged_bytes_are_named_or_harmless_and_never_anything_else(log, data):
    if not log.content:
        return
    damaged = bytearray(log.content)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    checked = data.draw(st.booleans())
    try:
        answer = fetched(bytes(damaged), 0, rules=DecodingRules(check_crcs=checked))
    except CorruptRecords:
        return
    last = -1
    try:
        while (taken := answer.take(3)) is not None:
            for record in taken.records:
                assert record.offset >= 0
                last = record.offset
            assert taken.next_offset > last or not taken.records
    except CorruptAnswer:
        return
