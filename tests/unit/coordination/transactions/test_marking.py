"""Every partition of a decided transaction gets its marker, whatever it takes."""

from __future__ import annotations

import pytest

from kits.transaction_kit import ORDERS_0, ORDERS_1, Desk
from moldau.coordination.transactions.effects import MarkerResult, MarkersLate
from moldau.coordination.transactions.marking import (
    RETRY_FIRST_S,
    RETRY_MAX_S,
    SendMarkers,
)
from moldau.coordination.transactions.transaction import TransactionState
from moldau.protocol.errors import ErrorCode

RETRY_MS = round(RETRY_FIRST_S * 1000)
RETRY_MAX_MS = round(RETRY_MAX_S * 1000)
COPIER = SendMarkers("copier")


@pytest.fixture
def desk():
    """A desk with a transaction that was just committed."""
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0, ORDERS_1)
    desk.end(producer)
    return desk


def is_complete(desk):
    return desk.state().state is TransactionState.COMPLETE_COMMIT


def test_what_could_not_be_written_is_tried_again_until_it_is(desk):
    desk.mark({ORDERS_0: MarkerResult.WRITTEN, ORDERS_1: MarkerResult.UNAVAILABLE})
    assert desk.state().partitions == {ORDERS_1}
    for doublings in range(3):
        assert desk.written == []
        desk.wait(RETRY_MS << doublings)
        assert [one.partitions for one in desk.written] == [{ORDERS_1}]
        desk.mark({ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.wait(RETRY_MS << 3)
    desk.mark()
    assert is_complete(desk)
    assert COPIER not in desk.timers


def test_a_partition_that_is_away_for_long_is_asked_ever_less_often_and_the_log_told_once(desk):
    tries = 0
    desk.mark({ORDERS_0: MarkerResult.WRITTEN, ORDERS_1: MarkerResult.UNAVAILABLE})
    for _ in range(60):
        desk.wait(1_000)
        while desk.written:
            tries += 1
            desk.mark({ORDERS_1: MarkerResult.UNAVAILABLE})
    assert tries < 20
    assert desk.late == [MarkersLate("copier", frozenset({ORDERS_1}))]
    desk.wait(RETRY_MAX_MS)
    desk.mark()
    assert is_complete(desk)


def away(desk, seconds=30):
    """A partition cannot be reached for so long that it is asked every few seconds only."""
    desk.mark({ORDERS_0: MarkerResult.WRITTEN, ORDERS_1: MarkerResult.UNAVAILABLE})
    for _ in range(seconds * 10):
        desk.wait(100)
        while desk.written:
            desk.mark({ORDERS_1: MarkerResult.UNAVAILABLE})


def test_a_partition_with_another_leader_is_asked_at_once(desk):
    away(desk)
    desk.carry_out(desk.shard.leaders_changed({ORDERS_1}))
    desk.wait(0)
    assert [one.partitions for one in desk.written] == [{ORDERS_1}]
    desk.mark({ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.wait(2 * RETRY_MS)
    assert [one.partitions for one in desk.written] == [{ORDERS_1}], "the backoff begins anew"
    desk.mark()
    assert is_complete(desk)
    assert len(desk.late) == 1


def test_one_that_was_asked_before_its_leader_changed_is_asked_again_soon(desk):
    away(desk)
    desk.wait(RETRY_MAX_MS)
    assert len(desk.written) == 1
    desk.carry_out(desk.shard.leaders_changed({ORDERS_1}))
    desk.wait(0)
    assert len(desk.written) == 1, "never twice before the first answer"
    desk.mark({ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.wait(RETRY_MS)
    assert len(desk.written) == 1


@pytest.mark.parametrize("others", [{ORDERS_0}, set()])
def test_news_of_other_partitions_changes_nothing(desk, others):
    away(desk)
    timers = dict(desk.timers)
    desk.carry_out(desk.shard.leaders_changed(others))
    assert desk.timers == timers


def test_a_log_that_refuses_for_long_is_asked_ever_less_often_and_the_log_told_once(desk):
    desk.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.refusals_left = 1_000
    desk.mark()
    desk.wait(60_000)
    assert desk.refusals_left > 980
    assert desk.late == [MarkersLate("copier", frozenset())]
    desk.refusal = None
    desk.wait(RETRY_MAX_MS)
    assert is_complete(desk)


@pytest.mark.parametrize("result", [MarkerResult.DELETED, MarkerResult.FENCED])
def test_a_partition_that_needs_no_marker_any_more_holds_nothing_up(desk, result):
    desk.mark({ORDERS_0: MarkerResult.WRITTEN, ORDERS_1: result})
    assert is_complete(desk)


def test_reports_may_come_in_parts_late_and_twice(desk):
    markers = desk.written.pop()
    written = MarkerResult.WRITTEN
    desk.report(markers, {ORDERS_1: written})
    desk.report(markers, {ORDERS_1: written})
    assert not is_complete(desk)
    assert COPIER not in desk.timers
    desk.report(markers, {ORDERS_0: written})
    assert is_complete(desk)
    desk.report(markers, {ORDERS_0: written})
    following = desk.state().producer
    desk.add(following, ORDERS_0)
    desk.end(following, commit=False)
    desk.report(markers, {ORDERS_0: written})
    assert desk.state().state is TransactionState.PREPARE_ABORT


def test_a_partition_is_not_asked_again_before_it_has_answered(desk):
    first = desk.written.pop()
    desk.report(first, {ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.report(first, {ORDERS_1: MarkerResult.WRITTEN})
    desk.wait(RETRY_MS)
    (second,) = desk.written
    assert second.partitions == {ORDERS_1}
    desk.report(second, {ORDERS_1: MarkerResult.WRITTEN})
    assert desk.state().partitions == {ORDERS_0}
    desk.report(first, {ORDERS_0: MarkerResult.WRITTEN})
    assert is_complete(desk)


def test_two_answers_that_fail_make_one_retry(desk):
    first = desk.written.pop()
    desk.report(first, {ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.wait(RETRY_MS // 2)
    desk.report(first, {ORDERS_0: MarkerResult.UNAVAILABLE})
    desk.wait(RETRY_MS // 2)
    assert desk.mark().partitions == {ORDERS_0, ORDERS_1}
    assert is_complete(desk)


def test_what_an_earlier_coordinator_asked_for_is_not_taken_for_an_answer(desk):
    old = desk.written[0]
    desk.crash()
    desk.wait(0)
    desk.report(old, dict.fromkeys(old.partitions, MarkerResult.WRITTEN))
    assert not is_complete(desk)
    desk.mark()
    assert is_complete(desk)


def test_a_last_record_that_is_refused_is_written_later(desk):
    desk.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    markers = desk.mark()
    desk.wait(RETRY_MS)
    assert desk.state().state is TransactionState.PREPARE_COMMIT
    assert desk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.refusal = None
    desk.report(markers, dict.fromkeys(markers.partitions, MarkerResult.WRITTEN))
    assert desk.state().state is TransactionState.PREPARE_COMMIT
    desk.wait(2 * RETRY_MS)
    assert is_complete(desk)
    assert desk.written == []


def test_the_id_is_free_when_the_last_record_is_committed(desk):
    desk.commits = False
    desk.mark()
    producer = desk.shard._ledger["copier"].producer
    waiter = desk.ask(desk.shard.add_partitions, "copier", producer, [ORDERS_0], 2, now=desk.now)
    desk.commit()
    assert waiter.answer is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.commits = True
    assert desk.add(producer, ORDERS_0) is ErrorCode.NONE


def test_another_coordinator_finishes_what_was_decided(desk):
    desk.mark({ORDERS_0: MarkerResult.WRITTEN, ORDERS_1: MarkerResult.UNAVAILABLE})
    desk.crash()
    assert desk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.wait(0)
    (markers,) = desk.written
    assert markers.partitions == {ORDERS_0, ORDERS_1}
    assert (markers.committed, markers.coordinator_epoch) == (True, 6)
    desk.mark()
    assert is_complete(desk)


def test_the_partitions_of_a_decision_are_not_copied(desk):
    partitions = desk.shard._ledger["copier"].partitions
    assert desk.written[0].partitions is partitions
    desk.crash()
    partitions = desk.shard._ledger["copier"].partitions
    assert desk.shard._marking._endings["copier"].due is partitions


def test_another_coordinator_finishes_a_decision_without_partitions():
    desk = Desk()
    producer = desk.init()
    desk.commits = False
    desk.ask(desk.shard.end_transaction, "copier", producer, 2, None, now=desk.now, commit=False)
    desk.crash(kept=2)
    assert desk.shard._ledger["copier"].state is TransactionState.PREPARE_ABORT
    desk.commits = True
    desk.commit()
    desk.wait(0)
    assert desk.state().state is TransactionState.COMPLETE_ABORT


def test_an_undecided_transaction_is_not_touched_by_another_coordinator():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    before = desk.state()
    desk.crash()
    desk.wait(0)
    assert (desk.state(), desk.written) == (before, [])
    assert desk.end(producer).error is ErrorCode.NONE
