"""A damaged `.txnindex` is found when it is read, and made anew as it was from the batches."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kits.log_kit import FOLDER, Broker, append, append_values, make_batch, marker
from moldau.base.errors import CorruptRecords
from moldau.base.files import read_whole
from moldau.storage.indexes import (
    ABORTED_ENTRY_SIZE,
    AbortedIndex,
    AbortedTransaction,
    encode_aborted,
)
from moldau.storage.log import Log
from moldau.storage.producer_snapshot import snapshot_name
from moldau.storage.segment import Segment
from moldau.storage.transaction_index import DamagedTransactionIndex
from moldau.storage.transaction_index_rebuild import begin_rebuild, rebuild_step

ENTRIES = (
    AbortedTransaction(9, 90, 110, 95),
    AbortedTransaction(7, 95, 111, 112),
    AbortedTransaction(9, 115, 120, 121),
)
BASE, END = 100, 130


def abort(log: Log, producer_id: int, epoch: int) -> None:
    log.append_marker(*marker(producer_id, epoch, aborted=True), 0, transaction_version=1)


def write_transactions(log: Log, seed: int = 1, count: int = 60) -> None:
    """Let five producers begin, commit and abort at random, over several segments."""
    dice = random.Random(seed)
    sequences = dict.fromkeys(range(5), 0)
    for number in range(count):
        producer = dice.randrange(5)
        known = log.producers.get(producer)
        is_open = known is not None and known.transaction_first_offset >= 0
        if is_open and dice.random() < 0.5:
            aborted = dice.random() < 0.7
            log.append_marker(*marker(producer, 0, aborted=aborted), 0, transaction_version=1)
        else:
            sequence = sequences[producer]
            append(log, make_batch(producer=(producer, 0, sequence), transactional=True))
            sequences[producer] += 1
        if number % 12 == 11:
            log.roll()


def closed_with_aborts(log: Log) -> list[Segment]:
    return [one for one in log.segments[:-1] if one.has_aborted]


def rebuild(broker: Broker, segment: Segment, budget_bytes: int = 1 << 30) -> bytes:
    """Make an index anew as the broker does, step by step."""
    log = broker.log()
    step = begin_rebuild(broker.disk, log.folder, segment.base_offset)
    for one in log.segments:
        if one.base_offset > segment.base_offset:
            break
        step = step.at_next_segment()
        while step.position < one.size:
            step = rebuild_step(broker.disk, one.path, step, one.size, budget_bytes)
    return step.entries


@pytest.fixture
def broker() -> Broker:
    made = Broker()
    write_transactions(made.log())
    assert len(closed_with_aborts(made.log())) == 5
    return made


# Finding damage


def test_what_may_be_an_index_is_taken():
    AbortedIndex().check(BASE, END)
    AbortedIndex.decode(encode_aborted(ENTRIES)).check(BASE, END)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((ENTRIES[1], ENTRIES[0]), "does not ascend"),
        ((ENTRIES[0], ENTRIES[0]), "does not ascend"),
        ((ENTRIES[0]._replace(first_offset=10, last_offset=99),), "markers from 99 to 99"),
        ((*ENTRIES, AbortedTransaction(9, 121, 130, 131)), "markers from 110 to 130"),
        ((*ENTRIES, ENTRIES[2]._replace(first_offset=125, last_offset=125)), "cannot be one"),
        ((ENTRIES[0], ENTRIES[1]._replace(producer_id=-1)), "cannot be one"),
        ((ENTRIES[0], ENTRIES[1]._replace(first_offset=-5)), "cannot be one"),
        ((ENTRIES[0], ENTRIES[1]._replace(last_stable_offset=-5)), "cannot be one"),
        ((ENTRIES[0], ENTRIES[1]._replace(last_stable_offset=113)), "cannot be one"),
    ],
)
def test_what_cannot_be_an_index_is_refused(entries, message):
    with pytest.raises(CorruptRecords, match=message):
        AbortedIndex.decode(encode_aborted(entries)).check(BASE, END)


def test_zeros_are_no_entries_even_in_the_first_segment():
    with pytest.raises(CorruptRecords, match="cannot be one"):
        AbortedIndex.decode(bytes(ABORTED_ENTRY_SIZE)).check(0, 10)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "half an entry": lambda content: content[:-1],
    "more than the entries": lambda content: content + b"\0",
    "another version": lambda content: b"\x01" + content[1:],
    "nothing": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "garbage": lambda content: bytes(255 - byte for byte in content),
    "twice": lambda content: content + content,
}
damaged = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())


@damaged
def test_damage_is_found_when_the_file_is_first_read(broker, damage):
    segment = closed_with_aborts(broker.log())[2]
    path, base_offset = segment.transactions_path, segment.base_offset
    spoil(broker, path, damage(read_whole(broker.disk, path)))
    log = broker.stop().log()
    with pytest.raises(DamagedTransactionIndex) as caught:
        log.aborted_transactions(base_offset, log.read(base_offset, 1 << 20, log.log_end_offset))
    assert (caught.value.path, caught.value.base_offset) == (path, base_offset)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_vanished_is_damaged_too(broker):
    segment = closed_with_aborts(broker.log())[0]
    base_offset = segment.base_offset
    broker = broker.stop()
    broker.disk.remove(segment.transactions_path)
    log = broker.log()
    with pytest.raises(DamagedTransactionIndex, match="the file is gone"):
        log.aborted_transactions(base_offset, log.read(base_offset, 1 << 20, log.log_end_offset))


def spoil(broker: Broker, path: str, content: bytes) -> None:
    broker.disk.remove(path)
    broker.disk.open(path, create=True).append([content])


# Making it anew


@pytest.mark.parametrize("budget_bytes", [1, 200, 1 << 30])
@pytest.mark.parametrize("seed", range(5))
def test_the_new_index_is_the_old_one_byte_for_byte(seed, budget_bytes):
    broker = Broker()
    write_transactions(broker.log(), seed)
    segments = closed_with_aborts(broker.log())
    assert segments
    for segment in segments:
        stored = read_whole(broker.disk, segment.transactions_path)
        assert rebuild(broker, segment, budget_bytes) == stored


@pytest.mark.parametrize("content", [None, b"rubbish"], ids=["missing", "damaged"])
def test_without_a_snapshot_the_segments_before_tell_the_same(broker, content):
    log = broker.log()
    for segment in log.segments[1:4]:
        path = f"{FOLDER}/{snapshot_name(segment.base_offset)}"
        broker.disk.remove(path)
        if content is not None:
            broker.disk.open(path, create=True).append([content])
    for segment in closed_with_aborts(log):
        stored = read_whole(broker.disk, segment.transactions_path)
        assert rebuild(broker, segment) == stored


def test_a_snapshot_inside_a_segment_is_gone_on_from(broker):
    """An orderly stop leaves one at the log's end, wherever in its segment that is."""
    append(broker.log(), make_batch(producer=(50, 0, 0), transactional=True))
    broker = broker.stop()
    log = broker.log()
    base_offset = log.active.base_offset
    broker.disk.remove(f"{FOLDER}/{snapshot_name(base_offset)}")
    append(log, make_batch(producer=(50, 0, 1), transactional=True))
    abort(log, 50, 0)
    log.roll()
    segment = log.segments[-2]
    assert begin_rebuild(broker.disk, FOLDER, segment.base_offset).known_offset < base_offset
    assert rebuild(broker, segment) == read_whole(broker.disk, segment.transactions_path)


def test_a_transaction_that_began_before_the_log_does_is_aborted_all_the_same():
    broker = Broker()
    log = broker.log()
    append(log, make_batch(producer=(9, 0, 0), transactional=True))
    log.roll()
    append_values(log, b"between")
    append(log, make_batch(producer=(9, 0, 1), transactional=True))
    abort(log, 9, 0)
    log.roll()
    log.delete_records_before(1)
    assert log.retain(broker.clock.wall_ms(), log.log_end_offset) == 1
    for name in broker.disk.names(FOLDER):
        if name.endswith(".snapshot"):
            broker.disk.remove(f"{FOLDER}/{name}")
    # Its first record that is left is at 2.
    assert rebuild(broker, log.segments[0]) == encode_aborted([AbortedTransaction(9, 2, 3, 4)])


def test_a_segment_without_aborts_has_an_empty_one(broker):
    log = broker.log()
    append(log, make_batch(producer=(60, 0, 0), transactional=True))
    log.append_marker(*marker(60, 0, aborted=False), 0, transaction_version=1)
    log.roll()
    assert rebuild(broker, log.segments[-2]) == b""


def test_a_marker_that_rotted_leaves_nothing_to_guess(broker):
    log = broker.log()
    segment = closed_with_aborts(log)[0]
    control = next(one for one in segment.batches() if one.header and one.header.control)
    broker.sim().flip_bit(segment.path, control.end_position - 1)
    with pytest.raises(CorruptRecords, match="does not match its CRC"):
        rebuild(broker, segment)


@pytest.mark.parametrize("position", [16, 8])  # the magic, and the length
def test_a_header_that_rotted_leaves_nothing_to_guess(broker, position):
    segment = closed_with_aborts(broker.log())[0]
    broker.sim().flip_bit(segment.path, position, bit=6)
    with pytest.raises(CorruptRecords):
        rebuild(broker, segment)
