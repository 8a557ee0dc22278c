"""A compacted log against everything that was ever written to it.

Whatever is appended, committed, aborted, cleaned, cut short by a crash or left alone for a while:
a reader of committed records ends with the same map, no record ever changes or moves, a tombstone
goes only when its time has passed, and the files can be opened again.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kits.compaction_kit import (
    COMPACTED,
    clean,
    committed,
    final_map,
    finish_cleaning,
    keyed_batch,
    records,
    start_cleaning,
)
from kits.log_kit import FOLDER, Broker, append, marker
from moldau.records.compression import Codec
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.storage.compaction.swap import Limits
from moldau.storage.crash_points import COMPACTION_POINTS
from moldau.storage.verify import verify_partition

CONFIG = replace(COMPACTED, segment_bytes=1000)
EXAMPLES = 60
STEPS = 30
PRODUCERS = (21, 22)
KEYS = st.sampled_from([b"a", b"b", b"c", b"dd", b"e" * 70])
VALUES = st.none() | st.sampled_from([b"", b"v", b"w" * 40, b"x" * 150])
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
CODECS = st.sampled_from(list(Codec))
KEY_BYTES = st.sampled_from([1, 300, 1 << 20])


class Written(NamedTuple):
    """One record, or the end of a transaction, of the model."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    producer_id: int = -1
    commits: bool | None = None


class CompactionMachine(RuleBasedStateMachine):
    """The log on a simulated disk, the model as a list of all that was written."""

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed):
        self.broker = Broker(SimDisk(random.Random(seed)), CONFIG, open_files=3)
        self.log = self.broker.log()
        self.written: list[Written] = []
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.first_cleaned_ms: dict[int, int] = {}

    # The model

    def fates(self) -> dict[int, bool | None]:
        """By offset, whether a record was committed; None while that is undecided."""
        found: dict[int, bool | None] = {}
        waiting: dict[int, list[int]] = {}
        for one in self.written:
            if one.commits is not None:
                for offset in waiting.pop(one.producer_id, []):
                    found[offset] = one.commits
            elif one.producer_id >= 0:
                waiting.setdefault(one.producer_id, []).append(one.offset)
                found[one.offset] = None
            else:
                found[one.offset] = True
        return found

    def stable_end(self) -> int:
        undecided = [offset for offset, fate in self.fates().items() if fate is None]
        return min(undecided, default=self.log.log_end_offset)

    def expected(self) -> dict[bytes, bytes]:
        fates, end = self.fates(), self.stable_end()
        state: dict[bytes, bytes] = {}
        for one in self.written:
            if one.commits is None and one.offset < end and fates[one.offset]:
                state.pop(one.key, None)
                if one.value is not None:
                    state[one.key] = one.value
        return state

    def open_transactions(self) -> set[int]:
        begun: set[int] = set()
        for one in self.written:
            if one.commits is not None:
                begun.discard(one.producer_id)
            elif one.producer_id >= 0:
                begun.add(one.producer_id)
        return begun

    # What changes the log

    def now(self) -> int:
        return self.broker.clock.now_ms

    def note(self, base_offset, pairs, producer_id=-1):
        for number, (key, value) in enumerate(pairs):
            self.written.append(Written(base_offset + number, key, value, self.now(), producer_id))
        self.settle()

    def settle(self):
        self.log.producers.high_watermark_moved(self.log.log_end_offset)

    @rule(pairs=PAIRS, codec=CODECS)
    def append(self, pairs, codec):
        batch = keyed_batch(pairs, codec=codec, timestamps=self.now())
        self.note(append(self.log, batch).base_offset, pairs)

    @rule(pairs=PAIRS, producer_id=st.sampled_from(PRODUCERS), codec=CODECS)
    def append_in_transaction(self, pairs, producer_id, codec):
        sequence = self.sequences[producer_id]
        batch = keyed_batch(
            pairs,
            codec=codec,
            timestamps=self.now(),
            producer=(producer_id, 0, sequence),
            transactional=True,
        )
        self.note(append(self.log, batch).base_offset, pairs, producer_id)
        self.sequences[producer_id] = sequence + len(pairs)

    @precondition(lambda self: self.open_transactions())
    @rule(commits=st.booleans(), which=st.integers(0, 1))
    def end_transaction(self, commits, which):
        begun = sorted(self.open_transactions())
        producer_id = begun[which % len(begun)]
        content, header = marker(producer_id, 0, aborted=not commits)
        offset = self.log.append_marker(content, header, 0, transaction_version=1).base_offset
        self.written.append(Written(offset, None, None, 0, producer_id, commits))
        self.settle()

    @rule()
    def roll(self):
        self.log.roll()

    @rule(elapsed_ms=st.sampled_from([1, 400, 1000]))
    def wait(self, elapsed_ms):
        self.broker.clock.now_ms += elapsed_ms
        self.broker.remove_expired(self.now())

    @rule(key_bytes=KEY_BYTES)
    def clean(self, key_bytes):
        self.broker.flush(self.log)
        outcome = clean(self.broker, stable=self.stable_end(), limits=Limits(key_bytes, 256))
        self.cleaned_up_to(outcome.end_offset)
        self.no_key_is_there_twice_below(outcome.end_offset)

    @rule(name=st.sampled_from(COMPACTION_POINTS), hit=st.integers(1, 5), power=st.booleans())
    def crash_while_cleaning(self, name, hit, power):
        cleaning = start_cleaning(self.broker, stable=self.stable_end())
        plan = CrashPlan(name, hit=hit)
        try:
            with plan:
                finish_cleaning(self.broker, cleaning)
        except Crashed:
            pass
        # How far it got is not known; what it reached counts from now.
        self.cleaned_up_to(cleaning.plan.end_offset)
        self.reopen(self.broker.cut_power() if power else self.broker.kill())

    @rule()
    def kill(self):
        self.reopen(self.broker.kill())

    @rule()
    def cut_power(self):
        # What was never flushed may be lost in the middle of a compacted log; not the subject here.
        self.broker.flush(self.log)
        self.reopen(self.broker.cut_power())

    @rule()
    def stop(self):
        self.reopen(self.broker.stop())
        assert not self.broker.reports

    def reopen(self, broker):
        durable_end = self.log.recovery_point
        self.broker, self.log = broker, broker.log()
        assert self.log.log_end_offset >= durable_end
        self.written = [one for one in self.written if one.offset < self.log.log_end_offset]
        self.settle()
        for producer_id in PRODUCERS:
            known = self.log.producers.get(producer_id)
            self.sequences[producer_id] = 0 if known is None else known.last_sequence + 1

    def cleaned_up_to(self, end_offset):
        for one in self.written:
            if one.offset < end_offset and one.value is None and one.commits is None:
                self.first_cleaned_ms.setdefault(one.offset, self.now())

    def no_key_is_there_twice_below(self, end_offset):
        keys = [one.key for one in committed(self.log) if one.offset < end_offset]
        assert len(keys) == len(set(keys))

    # What is always true

    @invariant()
    def a_reader_ends_with_the_same_map(self):
        if hasattr(self, "log"):
            assert final_map(self.log) == self.expected()

    @invariant()
    def every_record_is_where_and_what_it_was(self):
        if hasattr(self, "log"):
            by_offset = {one.offset: one for one in self.written}
            for record in records(self.log):
                one = by_offset[record.offset]
                assert record[:4] == (one.offset, one.timestamp, one.key, one.value)

    @invariant()
    def a_tombstone_stays_for_its_time(self):
        if not hasattr(self, "log"):
            return
        fates, end = self.fates(), self.stable_end()
        newest = {
            one.key: one
            for one in self.written
            if one.commits is None and one.offset < end and fates[one.offset]
        }
        there = {record.offset for record in records(self.log)}
        for one in newest.values():
            cleaned_ms = self.first_cleaned_ms.get(one.offset, self.now())
            if one.value is None and self.now() < cleaned_ms + CONFIG.delete_retention_ms:
                assert one.offset in there

    def teardown(self):
        if hasattr(self, "log"):
            self.broker.manager.close({})
            assert verify_partition(self.broker.disk, FOLDER, compacted=True) == []


def test_compaction_changes_nothing_that_a_reader_could_tell():
    run_state_machine_as_test(
        CompactionMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )
