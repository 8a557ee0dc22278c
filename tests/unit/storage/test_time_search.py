"""A search by time in steps: what it does itself, what it hands away, what may happen meanwhile."""

from __future__ import annotations

import pickle

import pytest

from kits.log_kit import FOLDER, NOW_MS, Broker, append, make_batch
from moldau.base.errors import CorruptRecords, StorageError
from moldau.records.batch import HEADER_SIZE, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import message_set
from moldau.records.record import Record
from moldau.sim.disk_faults import Operation
from moldau.storage.time_search import IN_PLACE_COUNT, Look, finish, look_into
from moldau.storage.topic_config import LogConfig

CODECS = [codec for codec in Codec if codec]


@pytest.fixture
def broker() -> Broker:
    return Broker(config=LogConfig(segment_bytes=1000, index_interval_bytes=200))


@pytest.fixture
def log(broker):
    return broker.log()


@pytest.fixture
def large_log():
    return Broker().log()


def packed(*stamps: int, codec: Codec = Codec.ZSTD) -> bytes:
    """Build a compressed batch of one record for each timestamp."""
    builder = BatchBuilder(codec)
    for stamp in stamps:
        builder.append(stamp, b"key", b"value")
    return builder.build()


def claiming(batch: bytes, max_timestamp: int) -> bytes:
    """Let the header say that something newer is inside than there is."""
    header = parse_header(batch)._replace(max_timestamp=max_timestamp)
    return pack_batch(header, batch[HEADER_SIZE:])


def ended(search):
    """Return what a search finds that needs nobody."""
    with pytest.raises(StopIteration) as stop:
        next(search)
    return stop.value.value


def sent(search, seen):
    """Return what a search finds with this, its last, answer."""
    with pytest.raises(StopIteration) as stop:
        search.send(seen)
    return stop.value.value


class TestWhoLooks:
    def test_a_few_uncompressed_records_are_looked_at_in_place(self, log):
        append(log, make_batch([b"a", b"b"], timestamps=[100, 300]), 2)
        assert ended(log.search(200)) == (300, 1, 2)
        assert ended(log.search(None)) == (300, 1, 2)

    @pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
    def test_compressed_records_are_handed_away(self, log, codec):
        append(log, packed(100, 300, 200, codec=codec), 2)
        for wanted in (200, None):
            search = log.search(wanted)
            look = pickle.loads(pickle.dumps(next(search)))
            assert look_into(look) == (300, 1)
            assert sent(search, look_into(look)) == (300, 1, 2)

    def test_what_headers_and_indexes_rule_out_is_handed_to_nobody(self, log):
        append(log, packed(100))
        assert ended(log.search(101)) is None
        log.delete_records_before(1)
        assert ended(log.search(50)) is None
        assert ended(log.search(None)) is None

    def test_very_many_uncompressed_records_are_handed_away(self, large_log):
        stamps = list(range(IN_PLACE_COUNT + 1))
        append(large_log, make_batch([b""] * len(stamps), timestamps=stamps))
        look = next(large_log.search(IN_PLACE_COUNT))
        assert look_into(look) == (IN_PLACE_COUNT, IN_PLACE_COUNT)

    def test_uncompressed_records_are_read_up_to_the_one_that_is_found(self, log):
        good = make_batch([b"a", b"b"], timestamps=[100, 200])
        append(log, pack_batch(parse_header(good), good[HEADER_SIZE:-5] + b"\xff" * 5))
        assert ended(log.search(100)) == (100, 0, 0)
        with pytest.raises(CorruptRecords):
            next(log.search(200))

    def test_headers_that_lie_cannot_keep_a_search_at_work_in_place(self, large_log):
        count = IN_PLACE_COUNT // 2
        for _ in range(3):
            append(large_log, claiming(make_batch([b""] * count, timestamps=5), NOW_MS))
        look = next(large_log.search(NOW_MS))
        assert parse_header(look.content).base_offset == 2 * count
        assert finish(large_log.search(NOW_MS)) is None

    def test_a_compressed_batch_that_promised_too_much_is_passed_over(self, log):
        append(log, claiming(packed(100), 500))
        append(log, packed(500), 3)
        search = log.search(500)
        first = next(search)
        second = search.send(look_into(first))
        assert sent(search, look_into(second)) == (500, 1, 3)


class TestOldMessages:
    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.label)
    def test_a_wrapper_is_handed_away_and_a_message_is_not(self, codec):
        broker = Broker()
        log = broker.log()
        records = [Record(number, stamp, b"k", b"v") for number, stamp in enumerate((100, 300))]
        broker.disk.open(f"{FOLDER}/{0:020d}.log").append([message_set(records, 1, codec)])
        log = broker.kill().log()
        assert log.log_end_offset == 2
        search = log.search(200)
        if codec:
            assert sent(search, look_into(next(search))) == (300, 1, -1)
        else:
            assert ended(search) == (300, 1, -1)
        log.delete_records_before(1)
        assert finish(log.search(None)) == (300, 1, -1)


class TestTheNewest:
    def test_records_before_the_logs_start_do_not_count(self, log):
        append(log, packed(900, 100, 200))
        append(log, packed(150))
        log.delete_records_before(1)
        assert finish(log.search(None)) == (200, 2, 0)

    def test_a_first_batch_that_is_not_the_newest_is_not_looked_at(self, log):
        append(log, packed(100, 200))
        append(log, make_batch(timestamps=300))
        log.delete_records_before(1)
        assert ended(log.search(None)) == (300, 2, 0)

    def test_a_first_batch_without_a_record_from_the_start_on_is_passed_over(self, log):
        batch = packed(900)
        header = parse_header(batch)._replace(last_offset_delta=1)
        append(log, pack_batch(header, batch[HEADER_SIZE:]))
        append(log, make_batch(timestamps=100))
        log.delete_records_before(1)
        assert finish(log.search(None)) == (100, 2, 0)


class TestMeanwhile:
    def test_the_log_may_grow_and_roll(self, log):
        append(log, packed(100))
        search = log.search(100)
        look = next(search)
        for _ in range(20):
            append(log, packed(50))
        assert len(log.segments) > 1
        assert sent(search, look_into(look)) == (100, 0, 0)

    def test_what_is_deleted_is_not_found(self, log):
        append(log, packed(100))
        append(log, packed(200), 1)
        search = log.search(50)
        stale = look_into(next(search))
        assert stale == (100, 0)
        log.delete_records_before(1)
        fresh = search.send(stale)
        assert sent(search, look_into(fresh)) == (200, 1, 1)

    @pytest.mark.parametrize("wanted", [50, None])
    def test_segments_that_go_make_it_begin_again(self, broker, log, wanted):
        for stamp in (300, 200):
            append(log, packed(*[stamp] * 60))
            log.roll()
        append(log, packed(100))
        search = log.search(wanted)
        look = next(search)
        old = log.segments[0]
        log.delete_records_before(60)
        assert log.retain(0, log.log_end_offset) == 1
        assert old not in log.segments
        assert broker.resources.scheduled_deletes
        fresh = search.send(look_into(look))
        assert sent(search, look_into(fresh)) == (200, 60, 0)

    def test_a_disk_that_fails_in_a_later_step_is_a_storage_error(self, broker, log):
        append(log, claiming(packed(100), 500))
        append(log, packed(500))
        search = log.search(500)
        look = next(search)
        broker.sim().faults.fail(Operation.READ, "/data")
        with pytest.raises(StorageError):
            search.send(look_into(look))


def test_a_batch_that_does_not_inflate_is_corrupt():
    batch = packed(100)
    broken = pack_batch(parse_header(batch), b"no codec made this")
    with pytest.raises(CorruptRecords):
        look_into(Look(broken, 0, 0))
