"""How long staged batches are waited for, and what is said when they do not come."""

from types import SimpleNamespace

import pytest

from kits.log_kit import HandClock, make_batch
from moldau.client.records import TopicPartition
from moldau.spark.errors import WriteInterrupted
from moldau.spark.sink.staged_batches import StagedBatches
from moldau.spark.sink.staging import Located, Share, StagedRows

PLACE = TopicPartition("staging", 0)
SHARE = Share("w", 0, 0, 1)
BATCH = make_batch()
ALMOST_S = 59


def staged(*offsets):
    located = tuple(Located("t", 0, len(BATCH), offset) for offset in offsets)
    return StagedRows(SHARE, len(offsets), (), *PLACE, located)


def record(offset, key=SHARE.label):
    return SimpleNamespace(
        topic=PLACE.topic, partition=PLACE.partition, offset=offset, key=key, value=BATCH
    )


class Scripted:
    """A consumer whose polls are given, each with how long it takes."""

    def __init__(self, clock, polls):
        self._clock = clock
        self._polls = iter(polls)

    def assign(self, places):
        """Take anything."""

    def seek(self, place, offset):
        """Go anywhere."""

    def poll(self, timeout_ms):
        lasted_s, records = next(self._polls)
        self._clock.now_ms += lasted_s * 1000
        return records


def batches(clock, polls, *offsets):
    return StagedBatches(Scripted(clock, polls), [staged(*offsets)], clock).batches()


def test_the_time_that_a_batch_takes_to_be_sent_does_not_count():
    clock = HandClock()
    reading = batches(clock, [(0, [record(0)]), (0, []), (0, [record(1)])], 0, 1)
    next(reading)
    clock.now_ms += 120_000
    next(reading)
    assert next(reading, None) is None


def test_records_of_others_are_a_sign_of_life():
    clock = HandClock()
    others = (ALMOST_S, [record(0, b"another attempt")])
    reading = batches(clock, [others, others, (ALMOST_S, []), (0, [record(5)])], 5)
    assert len(list(reading)) == 1


def test_rows_that_cannot_be_read_are_not_said_to_be_gone():
    with pytest.raises(WriteInterrupted, match=r"could not be read for 60 s.* staging-0 can be"):
        list(batches(HandClock(), [(ALMOST_S, []), (ALMOST_S, [])], 0))
