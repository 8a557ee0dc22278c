"""A truncation that is prepared in steps, and what it costs then."""

from __future__ import annotations

import random

import pytest

from kits.log_kit import Broker, append, make_batch, marker, stored_batches
from moldau.storage import producer_history, tail_loading
from moldau.storage.topic_config import LogConfig

INTERVAL = 400


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    monkeypatch.setattr(producer_history, "BATCHES_PER_STEP", 5)


def filled(count=60, seed=1):
    """A log in which several producers write, some of them in transactions."""
    chance, sequences = random.Random(seed), {}
    log = Broker(config=LogConfig(segment_bytes=3_000, index_interval_bytes=INTERVAL)).log()
    for _ in range(count):
        producer_id = chance.randrange(4)
        if producer_id >= 2 and sequences.get(producer_id, 0) and chance.random() < 0.3:
            log.append_marker(*marker(producer_id, 0, aborted=chance.random() < 0.5), 0, 1)
            continue
        sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = sequence + 1
        producer = (producer_id, 0, sequence)
        append(log, make_batch(producer=producer, transactional=producer_id >= 2))
    return log


def state(log):
    producers = sorted(log.producers, key=lambda producer: producer.producer_id)
    return producers, log.first_unstable_offset, log.log_end_offset, stored_batches(log)


def steps_of(log, offset):
    return sum(1 for _ in log.prepare_truncation(offset))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [1, 7, 20, 33, 59])
def test_a_prepared_truncation_ends_like_one_that_is_not(offset, seed):
    prepared, plain = filled(seed=seed), filled(seed=seed)
    steps_of(prepared, offset)
    assert state(prepared) == state(plain)
    assert prepared.truncate_to(offset)
    assert plain.truncate_to(offset)
    assert state(prepared) == state(plain)


def test_the_headers_are_read_in_steps_and_not_again_by_the_truncation(monkeypatch):
    log = filled()
    offset = log.log_end_offset - 1
    base_offset = log.active.base_offset
    assert offset - base_offset > 10
    assert steps_of(log, offset) == (offset - base_offset) // 5
    replayed = []
    monkeypatch.setattr(producer_history, "replay_batch", lambda *told: replayed.append(told))
    log.truncate_to(offset)
    assert replayed == []


def test_what_was_prepared_is_not_used_for_another_log():
    log, plain = filled(), filled()
    steps_of(log, 50)
    for one in (log, plain):
        one.truncate_to(40)
        for _ in range(20):
            append(one, make_batch(producer=(9, 0, -1)))
        one.truncate_to(50)
    assert state(log) == state(plain)


def test_a_preparation_that_is_left_half_way_harms_nothing():
    log, plain = filled(), filled()
    next(log.prepare_truncation(50))
    log.truncate_to(30)
    plain.truncate_to(30)
    assert state(log) == state(plain)


@pytest.mark.parametrize(
    "change", [lambda log: append(log, make_batch()), lambda log: log.truncate_to(3)]
)
def test_a_log_that_changes_meanwhile_ends_the_preparation(change):
    log, plain = filled(), filled()
    steps = log.prepare_truncation(55)
    next(steps)
    change(log)
    change(plain)
    assert list(steps) == []
    assert state(log) == state(plain)


def lose_indexes(broker, segment):
    for suffix in (".index", ".timeindex"):
        broker.disk.remove(segment.stem + suffix)


def keep_indexes(broker, segment):
    """Leave everything as it is."""


@pytest.mark.patches
@pytest.mark.parametrize("spoil", [keep_indexes, lose_indexes])
def test_the_indexes_of_a_segment_that_becomes_active_again_are_loaded_in_steps(spoil, monkeypatch):
    monkeypatch.setattr(tail_loading, "BATCHES_PER_STEP", 5)
    monkeypatch.setattr(tail_loading, "PIECE_BYTES", 24)
    config = LogConfig(segment_bytes=10_000, index_interval_bytes=100)
    broker, plain = Broker(config=config), Broker(config=config)
    for one in (broker, plain):
        for number in range(200):
            append(one.log(), make_batch(timestamps=1_000 + number))
        spoil(one, one.log().segments[0])
    log, segment = broker.log(), broker.log().segments[0]
    offset = log.segments[1].base_offset - 3
    assert segment.tail is None
    loads = []

    def counted(files, loaded):
        loads.append(loaded.base_offset)
        return (yield from load(files, loaded))

    load = tail_loading.stored_tail
    monkeypatch.setattr(tail_loading, "stored_tail", counted)
    monkeypatch.setattr("moldau.storage.segment.stored_tail", counted)
    # Without steps for the indexes there would be those of the headers alone.
    headers = offset // producer_history.BATCHES_PER_STEP
    assert steps_of(log, offset) > headers + 10
    log.truncate_to(offset)
    assert loads == [0]
    plain.log().truncate_to(offset)
    for one in (broker, plain):
        append(one.log(), make_batch(timestamps=5_000))
        one.log().roll()
    assert state(log) == state(plain.log())
    indexes, others = segment.indexes(), plain.log().segments[0].indexes()
    assert indexes.offsets.encode() == others.offsets.encode()
    assert indexes.times.encode() == others.times.encode()


@pytest.mark.parametrize("offset", [-1, 60, 1000])
def test_what_is_not_in_the_log_needs_no_preparation(offset):
    log = filled()
    assert steps_of(log, offset) == 0


@pytest.mark.patches
@pytest.mark.parametrize("stamps", [[5] * 40, list(range(40, 0, -1)), [1, 9, 3] * 13])
@pytest.mark.parametrize("count", [1, 13, 39])
def test_the_largest_timestamp_is_found_by_a_short_walk(stamps, count, monkeypatch):
    log = Broker(config=LogConfig(index_interval_bytes=INTERVAL)).log()
    for stamp in stamps:
        append(log, make_batch(timestamps=stamp))
    segment = log.active
    size = stored_batches(log)[0].size
    starts = []
    walk = type(segment).batches

    def batches(self, position=0):
        starts.append((position, self.size))
        return walk(self, position)

    monkeypatch.setattr(type(segment), "batches", batches)
    segment.truncate_to(count)
    position, end = starts[-1]
    assert segment.largest().timestamp == max(stamps[:count])
    assert end - position <= INTERVAL + 3 * size
