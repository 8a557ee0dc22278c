"""A log against a list: whatever is done to both, both hold the same."""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kits.log_kit import FOLDER, Broker, append, make_batch, read_all, region_bytes
from moldau.records.batch import parse_header
from moldau.records.record import read_records
from moldau.sim.disk import SimDisk
from moldau.storage.time_search import finish
from moldau.storage.topic_config import LogConfig
from moldau.storage.verify import verify_partition

CONFIG = LogConfig(
    segment_bytes=600, index_interval_bytes=120, retention_bytes=1500, retention_ms=-1
)
TIMES = st.integers(0, 40)
ANYWHERE = st.floats(0, 1)
EXAMPLES = 100


class Entry(NamedTuple):
    """One batch of the model."""

    base_offset: int
    values: tuple[bytes, ...]
    timestamps: tuple[int, ...]

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogMachine(RuleBasedStateMachine):
    """The log on a simulated disk, the model as a list of batches."""

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed):
        self.broker = Broker(SimDisk(random.Random(seed)), CONFIG, open_files=2, index_bytes=100)
        self.log = self.broker.log()
        self.entries: list[Entry] = []
        self.ever: set[Entry] = set()
        self.start = self.end = self.durable_end = 0
        self.count = 0
        self.epoch = 0

    def somewhere(self, where: float) -> int:
        return self.start + round(where * (self.end - self.start))

    def records(self):
        return [
            (entry.base_offset + number, value, stamp)
            for entry in self.entries
            for number, (value, stamp) in enumerate(
                zip(entry.values, entry.timestamps, strict=True)
            )
            if entry.base_offset + number >= self.start
        ]

    # What changes the log

    @rule(stamps=st.lists(TIMES, min_size=1, max_size=4), size=st.sampled_from([5, 60, 200]))
    def append(self, stamps, size):
        values = []
        for _ in stamps:
            self.count += 1
            values.append(b"%d" % self.count + b"." * (size // len(stamps)))
        entry = Entry(self.end, tuple(values), tuple(stamps))
        result = append(self.log, make_batch(values, timestamps=stamps), self.epoch)
        assert (result.base_offset, result.last_offset + 1) == (entry.base_offset, entry.end_offset)
        self.entries.append(entry)
        self.ever.add(entry)
        self.end = entry.end_offset

    @rule()
    def roll(self):
        self.log.roll()

    @rule(where=ANYWHERE)
    def truncate(self, where):
        offset = self.somewhere(where)
        cut = [entry for entry in self.entries if entry.end_offset > offset]
        end = min(offset, cut[0].base_offset) if cut else offset
        if end < self.start:
            return  # the high watermark is never below the start, nor is a truncation
        assert self.log.truncate_to(offset) is (offset < self.end)
        self.entries = self.entries[: len(self.entries) - len(cut)]
        self.end = end
        self.durable_end = min(self.durable_end, self.end)
        self.epoch += 1

    @rule(where=ANYWHERE)
    def delete_before(self, where):
        offset = self.somewhere(where)
        assert self.log.delete_records_before(offset) is (offset > self.start)
        self.start = offset

    @rule()
    def retain(self):
        size = self.log.size
        start = self.log.log_start_offset
        removed = self.log.retain(self.broker.clock.now_ms, self.end)
        if removed and start == self.log.log_start_offset:
            assert self.log.segments[0].base_offset <= start
        elif removed:
            assert CONFIG.retention_bytes <= self.log.size < size
        self.start = max(self.start, self.log.log_start_offset)
        self.entries = [e for e in self.entries if e.end_offset > self.log.segments[0].base_offset]

    @rule()
    def flush(self):
        self.broker.flush(self.log)
        self.durable_end = self.end

    @rule()
    def checkpoint(self):
        self.broker.checkpoint()

    # What ends the process

    def findings(self) -> list[str]:
        """What an offline check says; epochs are kept from the log's start on, batches longer."""
        found = map(str, verify_partition(self.broker.disk, FOLDER))
        return [line for line in found if not line.endswith("leader-epoch-checkpoint has -1")]

    def reopened(self, broker: Broker):
        self.broker = broker
        self.log = broker.log()
        first = self.log.segments[0].base_offset
        assert self.log.log_start_offset <= max(self.start, first)
        self.start = self.log.log_start_offset

    @rule()
    def stop(self):
        self.broker.manager.close({})
        assert self.findings() == []
        self.durable_end = self.end
        broker = self.broker._next(self.broker.sim().kill())
        assert broker.reports == {}
        self.reopened(broker)

    @rule()
    def kill(self):
        end = self.end
        self.reopened(self.broker.kill())
        assert self.log.log_end_offset == end

    @rule()
    def cut_power(self):
        kept = [entry for entry in self.entries if entry.end_offset <= self.durable_end]
        first = self.entries[0].base_offset if self.entries else self.end
        self.reopened(self.broker.cut_power())
        assert self.log.log_end_offset >= self.durable_end
        values = {record.offset: record.value for record in read_all(self.log)}
        found = [e for e in self.ever if values.get(e.end_offset - 1) == e.values[-1]]
        found.sort()
        # Removed segments may be back, and so may what was cut off; nothing else.
        assert [e for e in kept if e.end_offset > self.start] == [
            e for e in found if e.base_offset >= first and e.end_offset <= self.durable_end
        ]
        assert sum(len(e.values) for e in found) >= len(values)
        self.entries = found
        self.end = self.log.log_end_offset
        self.epoch += 1

    # What looks at it

    @rule(where=ANYWHERE, until=ANYWHERE, max_bytes=st.integers(1, 900), whole=st.booleans())
    def read(self, where, until, max_bytes, whole):
        offset = self.somewhere(where)
        ends = [entry.end_offset for entry in self.entries if entry.end_offset >= self.start]
        end_offset = ends[round(until * (len(ends) - 1))] if ends else self.end
        result = self.log.read(offset, max_bytes, end_offset, at_least_one=whole)
        content = region_bytes(result)
        assert len(content) == result.size
        if offset >= end_offset:
            assert not content
            return
        number = bisect_right([entry.base_offset for entry in self.entries], offset) - 1
        expected = self.entries[number:]
        if result.first_batch_cut:
            assert not whole
            assert len(content) == max_bytes
            return
        assert content
        position = 0
        while len(content) - position >= 61:
            header = parse_header(content, position)
            if position + header.size > len(content):
                break
            entry = expected.pop(0)
            assert header.base_offset == entry.base_offset
            assert header.next_offset <= end_offset
            values = tuple(record.value for record in read_records(content, position))
            assert values == entry.values
            position += header.size
        assert position > 0
        assert len(content) <= max_bytes or position == len(content)

    @rule(time=TIMES)
    def look_up(self, time):
        found = finish(self.log.search(time))
        expected = next((r for r in self.records() if r[2] >= time), None)
        assert (found and (found.offset, found.timestamp)) == (
            expected and (expected[0], expected[2])
        )

    @rule()
    def look_up_newest(self):
        found = finish(self.log.search(None))
        expected = max(self.records(), key=lambda r: (r[2], -r[0]), default=None)
        assert (found and (found.offset, found.timestamp)) == (
            expected and (expected[0], expected[2])
        )

    @invariant()
    def ends_agree(self):
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        assert self.log.recovery_point <= self.end

    def teardown(self):
        if hasattr(self, "log") and self.broker.sim().alive:
            assert [(r.offset, r.value, r.timestamp) for r in read_all(self.log)] == self.records()


def test_a_log_is_a_list():
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
