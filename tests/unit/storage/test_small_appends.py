"""Small batches, one after the other: as checked records and as batches, with changes between."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kits import log_kit
from kits.log_kit import NOW_MS, append, make_batch, stored_batches
from moldau.base.errors import StorageError
from moldau.records.batch import CHECKED_POSITION
from moldau.sim.disk_faults import Operation
from moldau.storage.tail import RECENT_BATCHES
from moldau.storage.topic_config import LogConfig

CONFIG = LogConfig(
    segment_bytes=3000, index_interval_bytes=400, segment_ms=5000, segment_index_bytes=48
)
SIZES, TIMES = st.integers(0, 200), st.integers(-2000, 9000)
CHECKED = st.tuples(st.just("checked"), SIZES, TIMES)
RUNS = st.tuples(st.just("run"), SIZES, st.integers(3, 12))
STEPS = st.one_of(
    RUNS,
    CHECKED,
    st.tuples(st.just("batch"), SIZES, st.integers(1, 3), TIMES),
    st.tuples(st.just("untimed"), SIZES),
    st.tuples(st.just("large"), st.integers(2100, 2900)),
    st.tuples(st.just("truncate"), st.integers(0, 30)),
    st.tuples(st.just("configure"), st.sampled_from([100, 400, 2000]), st.integers(3000, 6000)),
    st.tuples(st.just("lead_anew")),
    st.tuples(st.just("follow"), SIZES, st.integers(0, 3)),
    st.tuples(st.just("stop")),
    st.tuples(st.just("kill")),
)


class Twin:
    """One of two logs that go through the same steps."""

    def __init__(self):
        self.broker = log_kit.Broker(config=CONFIG)
        self.log = self.broker.log()
        self.epoch = 0

    def take(self, step):
        name, *values = step
        getattr(self, name)(*values)

    def batch(self, size, count, later_ms):
        batch = make_batch([b"x" * size] * count, timestamps=NOW_MS + later_ms)
        append(self.log, batch, self.epoch)

    def checked(self, size, later_ms):
        batch = make_batch([b"x" * size], timestamps=NOW_MS + later_ms)
        self.log.append_checked(batch[CHECKED_POSITION:], NOW_MS + later_ms, self.epoch)

    def run(self, size, count):
        for _ in range(count):
            self.checked(size, 0)

    def untimed(self, size):
        append(self.log, make_batch([b"x" * size], timestamps=-1), self.epoch)

    def large(self, size):
        self.batch(size, 1, 0)

    def truncate(self, back):
        self.log.truncate_to(max(self.log.log_start_offset, self.log.log_end_offset - back))

    def configure(self, interval, segment_bytes):
        self.log.update_config(
            replace(CONFIG, index_interval_bytes=interval, segment_bytes=segment_bytes)
        )

    def lead_anew(self):
        self.epoch += 1

    def follow(self, size, gap):
        """Take two batches from a leader of the next epoch, with a gap that compaction has left."""
        self.epoch += 1
        end_offset = self.log.log_end_offset
        offsets = (end_offset + gap, end_offset + gap + 1)
        options = {"leader_epoch": self.epoch}
        batches = [make_batch([b"x" * size], base_offset=one, **options) for one in offsets]
        self.log.append_as_follower(b"".join(batches))

    def stop(self):
        self.broker = self.broker.stop()
        self.log = self.broker.log()

    def kill(self):
        self.broker = self.broker.kill()
        self.log = self.broker.log()

    def state(self):
        """Everything that is stored, and where readers are sent."""
        segments = []
        for segment in self.log.segments:
            indexes = segment.indexes()
            first, end = segment.base_offset, self.log.log_end_offset
            segments.append(
                {
                    "first": first,
                    "content": segment.handle().read(0, segment.size),
                    "offsets": indexes.offsets.encode(),
                    "times": indexes.times.encode(),
                    "largest": segment.largest(),
                    "positions": [segment.position_of(offset) for offset in range(first, end)],
                }
            )
        return self.log.log_end_offset, self.log.epochs.entries, segments


class AsBatches(Twin):
    """Appends checked records as whole batches."""

    def checked(self, size, later_ms):
        self.batch(size, 1, later_ms)


@given(st.lists(STEPS, min_size=5, max_size=30))
@example([("configure", 2000, 6000), ("run", 10, 4), ("configure", 100, 6000), ("run", 10, 3)])
@example([("run", 10, 3), ("checked", 10, 9000), ("run", 10, 3)])
@example([("run", 10, 3), ("truncate", 2), ("run", 10, 12)])
def test_a_checked_record_is_stored_as_its_batch_would_be(steps):
    checked, whole = Twin(), AsBatches()
    for step in steps:
        checked.take(step)
        whole.take(step)
        # At once: a restart would make indexes anew, and hide what was wrong with them.
        assert checked.state() == whole.state()


@given(st.lists(st.sampled_from(["lead_anew", "follow", "run"]), max_size=20))
def test_an_epoch_begins_with_its_first_batch(steps):
    twin, first_offsets = Twin(), {}
    for step in steps:
        twin.take((step, *{"follow": (10, 3), "run": (10, 2)}.get(step, ())))
        for batch in stored_batches(twin.log):
            assert batch.header is not None
            first_offsets.setdefault(batch.header.leader_epoch, batch.base_offset)
    assert dict(twin.log.epochs.entries) == first_offsets


class TestBehindSmallBatches:
    """What comes behind small batches."""

    @pytest.fixture
    def twin(self):
        twin = Twin()
        twin.log.update_config(LogConfig())
        twin.run(10, 5)
        return twin

    def test_a_log_that_is_flushed_in_time_is_noted_with_every_batch(self, twin):
        twin.log.update_config(LogConfig(flush_ms=1000))
        for _ in range(3):
            twin.run(10, 3)
            assert list(twin.broker.resources.timed) == [twin.log]
            twin.broker.resources.timed.clear()

    def test_a_log_that_is_offline_takes_nothing_more(self, twin):
        faults = twin.broker.sim().faults
        faults.fail(Operation.APPEND, "/data", times=1)
        faults.fail(Operation.TRUNCATE, "/data", times=1)
        for _ in range(2):
            with pytest.raises(StorageError):
                twin.checked(10, 0)
        assert twin.log.offline
        assert twin.log.log_end_offset == 5

    def test_a_write_that_was_taken_back_leaves_the_log_as_it_was(self, twin):
        before = twin.state()
        twin.broker.sim().faults.fill_up(after_size=30)
        with pytest.raises(StorageError):
            twin.checked(10, 0)
        assert twin.state() == before
        twin.broker.sim().faults.heal()
        twin.checked(10, 0)
        assert len(stored_batches(twin.log)) == 6

    def test_a_log_that_was_let_go_takes_nothing_more(self, twin):
        twin.log.let_go()
        with pytest.raises(StorageError):
            twin.checked(10, 0)

    def test_a_descriptor_that_was_given_up_is_opened_again(self, twin):
        twin.log.active.let_go()
        twin.checked(10, 0)
        assert twin.log.active.file is not None
        assert len(stored_batches(twin.log)) == 6


def test_what_is_remembered_of_batches_is_bounded_whatever_the_interval():
    twin = Twin()
    twin.log.update_config(LogConfig(index_interval_bytes=1 << 30))
    twin.run(10, 2000)
    tail = twin.log.active.tail
    remembered = [offset for offset in range(2000) if tail.position_of(offset) is not None]
    assert RECENT_BATCHES <= len(remembered) <= 2 * RECENT_BATCHES
