"""Producer states against a model that remembers everything, through snapshots and replays."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.storage.producer_snapshot import format_snapshot, parse_snapshot
from moldau.storage.producers import ProducerStates

PRODUCERS = st.integers(1, 3)
COUNTS = st.integers(1, 3)
WRAP = 2**31


class ProducerMachine(RuleBasedStateMachine):
    """A leader, some producers that retry, and a restart at any moment."""

    def __init__(self):
        super().__init__()
        self.states = ProducerStates()
        self.log = []
        """Every batch appended, as bytes."""
        self.end = 0
        self.high_watermark = 0
        self.epochs = {}
        self.next_sequence = {}
        self.sent = {}
        """Per producer: (epoch, sequence, count) -> offset, since the last epoch or restart."""
        self.open = {}
        """Per producer: first offset of its open transaction."""
        self.closed = []
        """(first offset, marker's offset) of closed ones that are not replicated yet."""

    def built(self, producer, epoch, sequence, count, transactional):
        builder = BatchBuilder(
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
            base_offset=self.end,
        )
        for _ in range(count):
            builder.append(1000 + self.end, b"k", b"v")
        return builder.build()

    def appended(self, content, count):
        self.log.append(content)
        self.end += count

    @rule(producer=PRODUCERS, count=COUNTS, near_wrap=st.booleans(), transactional=st.booleans())
    def sends_the_next_batch(self, producer, count, near_wrap, transactional):
        epoch = self.epochs.setdefault(producer, 0)
        start = WRAP - 2 if near_wrap else 0
        sequence = self.next_sequence.setdefault(producer, start)
        transactional = transactional or producer in self.open
        content = self.built(producer, epoch, sequence, count, transactional)
        header = parse_header(content)
        assert self.states.check(header) is None
        self.states.apply(header, self.end)
        self.sent.setdefault(producer, {})[epoch, sequence, count] = self.end
        self.next_sequence[producer] = (sequence + count) % WRAP
        if transactional:
            self.open.setdefault(producer, self.end)
        self.appended(content, count)

    @rule(producer=PRODUCERS, back=st.integers(0, 7))
    def sends_an_old_batch_again(self, producer, back):
        known = list(self.sent.get(producer, {}).items())
        if back >= len(known):
            return
        (epoch, sequence, count), offset = known[-1 - back]
        header = parse_header(self.built(producer, epoch, sequence, count, transactional=True))
        if back >= 5:
            assert refused(self.states, header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return
        duplicate = self.states.check(header)
        assert duplicate.first_offset == offset
        assert duplicate.last_offset == offset + count - 1
        assert duplicate.first_sequence == sequence

    @rule(producer=PRODUCERS, skipped=st.integers(1, 1000), count=COUNTS)
    def leaves_a_gap(self, producer, skipped, count):
        if not self.sent.get(producer):
            return
        sequence = (self.next_sequence[producer] + skipped) % WRAP
        content = self.built(producer, self.epochs[producer], sequence, count, transactional=True)
        code = refused(self.states, parse_header(content))
        assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(producer=PRODUCERS)
    def begins_a_new_epoch(self, producer):
        if producer in self.epochs and producer not in self.open:
            self.epochs[producer] += 1
            self.next_sequence[producer] = 0
            self.sent[producer] = {}

    @rule(producer=PRODUCERS, aborted=st.booleans(), raises_epoch=st.booleans())
    def ends_its_transaction(self, producer, aborted, raises_epoch):
        if producer not in self.epochs:
            return
        if raises_epoch:
            self.epochs[producer] += 1
            self.next_sequence[producer] = 0
            self.sent[producer] = {}
        marker = EndTransactionMarker(aborted, coordinator_epoch=1)
        content = end_transaction_batch(
            marker, producer, self.epochs[producer], 1000, base_offset=self.end
        )
        header = parse_header(content)
        self.states.check_marker(header, marker, 0)
        completed = self.states.apply_marker(header, marker, self.end)
        first = self.open.pop(producer, None)
        if first is None:
            assert completed is None
        else:
            stable = min(self.open.values(), default=self.end + 1)
            assert completed == (producer, first, self.end, stable, aborted)
            self.closed.append((first, self.end))
        self.appended(content, 1)

    @rule(data=st.data())
    def the_high_watermark_moves(self, data):
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))
        self.states.high_watermark_moved(self.high_watermark)
        self.closed = [pair for pair in self.closed if pair[1] >= self.high_watermark]

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def restarts_from_a_snapshot_and_a_replay(self, data):
        """Only the last batch before the snapshot is remembered, all else is as before."""
        cut = data.draw(st.integers(0, len(self.log)))
        before = ProducerStates()
        for content in self.log[:cut]:
            before.replay(parse_header(content), content)
        again = ProducerStates(parse_snapshot(format_snapshot(before)))
        for content in self.log[cut:]:
            again.replay(parse_header(content), content)
        assert format_snapshot(sorted(again, key=by_id)) == format_snapshot(
            sorted(self.states, key=by_id)
        )
        for producer in again:
            remembered = places(self.states.get(producer.producer_id))
            assert places(producer) == remembered[len(remembered) - len(producer.batches) :]

    @invariant()
    def stability_is_that_of_the_model(self):
        firsts = [*self.open.values(), *(first for first, _ in self.closed)]
        assert self.states.first_unstable_offset == min(firsts, default=None)


def places(producer):
    """Leave the timestamp out: a snapshot has one for the producer and its last batch together."""
    return [batch[:3] for batch in producer.batches]


def refused(states, header):
    with pytest.raises(ApiError) as caught:
        states.check(header)
    return caught.value.code


def by_id(producer):
    return producer.producer_id


TestProducers = ProducerMachine.TestCase
TestProducers.settings = settings(max_examples=100, stateful_step_count=30)
