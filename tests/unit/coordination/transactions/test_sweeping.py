"""Time alone aborts transactions and forgets ids."""

from __future__ import annotations

import pytest

from kits.transaction_kit import (
    ABORT_INTERVAL_MS,
    EXPIRATION_INTERVAL_MS,
    EXPIRATION_MS,
    ORDERS_0,
    START_MS,
    TIMEOUT_MS,
    Desk,
)
from moldau.base.errors import InvariantViolated
from moldau.coordination.outcome import NOTHING, ProducerIdentity
from moldau.coordination.transactions import sweeping
from moldau.coordination.transactions.sweeping import Sweep
from moldau.coordination.transactions.transaction import TransactionState
from moldau.protocol.errors import ErrorCode


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    desk.wait(TIMEOUT_MS)
    assert desk.state().state is TransactionState.ONGOING
    desk.wait(ABORT_INTERVAL_MS)
    assert desk.timed_out[0].transactional_id == "copier"
    assert desk.timed_out[0].timeout_ms == TIMEOUT_MS
    markers = desk.mark()
    assert (markers.committed, markers.producer.producer_epoch) == (False, 1)
    assert desk.state().state is TransactionState.COMPLETE_ABORT
    assert desk.add(producer, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert desk.end(producer).error is ErrorCode.INVALID_TXN_STATE
    assert desk.end(producer, commit=False) == (
        ErrorCode.NONE,
        ProducerIdentity(producer.producer_id, 1),
    )


def test_with_the_older_protocol_a_late_producer_is_fenced_for_good():
    desk = Desk(version=0)
    producer = desk.init()
    desk.add(producer, ORDERS_0, version=0)
    desk.wait(TIMEOUT_MS + ABORT_INTERVAL_MS)
    desk.mark()
    assert desk.end(producer, commit=False, version=0).error is ErrorCode.PRODUCER_FENCED


def test_time_does_not_stop_for_a_change_of_coordinator():
    desk = Desk()
    desk.add(desk.init(), ORDERS_0)
    desk.wait(TIMEOUT_MS - ABORT_INTERVAL_MS)
    desk.crash()
    desk.wait(2 * ABORT_INTERVAL_MS + 1)
    assert desk.state().state is TransactionState.PREPARE_ABORT


def test_what_is_not_committed_yet_is_left_alone():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    desk.wait(TIMEOUT_MS)
    desk.commits = False
    desk.ask(
        desk.shard.add_partitions,
        "copier",
        producer,
        [ORDERS_0._replace(partition=5)],
        2,
        now=desk.now,
    )
    count = len(desk.log)
    desk.wait(ABORT_INTERVAL_MS)
    assert len(desk.log) == count
    desk.commits = True
    desk.commit()
    desk.wait(ABORT_INTERVAL_MS)
    assert desk.state().state is TransactionState.PREPARE_ABORT


def test_a_refused_abort_is_tried_again():
    desk = Desk()
    desk.add(desk.init(), ORDERS_0)
    desk.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.wait(TIMEOUT_MS + ABORT_INTERVAL_MS)
    assert desk.state().state is TransactionState.ONGOING
    desk.refusal = None
    desk.wait(ABORT_INTERVAL_MS)
    assert desk.state().state is TransactionState.PREPARE_ABORT


def test_an_id_that_nobody_uses_is_forgotten():
    desk = Desk()
    old = desk.init("old")
    desk.wait(EXPIRATION_MS // 2)
    desk.init("younger")
    desk.wait(EXPIRATION_MS // 2 + EXPIRATION_INTERVAL_MS)
    assert desk.state("old") is None
    assert desk.state("younger") is not None
    assert desk.log[-1].value is None
    desk.crash()
    assert desk.state("old") is None
    assert desk.add(old, ORDERS_0, transactional_id="old") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_id_in_a_transaction_is_never_forgotten():
    desk = Desk()
    desk.version = 0
    producer = desk.init(timeout_ms=900_000)
    desk.add(producer, ORDERS_0)
    desk.now_ms += 2 * EXPIRATION_MS
    desk.carry_out(desk.shard.timer_fired(Sweep.EXPIRED, desk.now))
    assert desk.state().state is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_an_id_whose_transactions_are_complete_may_be_forgotten(commit):
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    desk.end(producer, commit=commit)
    desk.mark()
    desk.wait(EXPIRATION_MS + EXPIRATION_INTERVAL_MS)
    assert desk.state() is None


def test_an_id_that_is_being_forgotten_is_not_given_out_before_it_is_gone():
    desk = Desk()
    desk.init()
    desk.now_ms += EXPIRATION_MS
    desk.commits = False
    desk.carry_out(desk.shard.timer_fired(Sweep.EXPIRED, desk.now))
    waiter = desk.ask(desk.shard.init_producer_id, "copier", 1, None, 7, now=desk.now)
    desk.commit()
    assert waiter.answer is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.commits = True
    assert desk.init(fresh=7) == (7, 0)


def test_a_refused_tombstone_is_tried_again():
    desk = Desk()
    desk.init()
    desk.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.wait(EXPIRATION_MS + EXPIRATION_INTERVAL_MS)
    assert desk.state() is not None
    desk.refusal = None
    desk.wait(EXPIRATION_INTERVAL_MS)
    assert desk.state() is None


@pytest.mark.parametrize(
    ("limit", "found"), [("BYTES_PER_TURN", 1), ("RECORDS_PER_TURN", 1), ("LOOKS_PER_TURN", 4)]
)
def test_many_are_looked_for_and_written_one_turn_after_the_other(monkeypatch, limit, found):
    monkeypatch.setattr(sweeping, limit, found)
    desk = Desk()
    for number in range(10):
        producer = desk.init(f"id-{number}")
        desk.add(producer, ORDERS_0, transactional_id=f"id-{number}")
    desk.now_ms += TIMEOUT_MS + 1
    desk.carry_out(desk.shard.timer_fired(Sweep.TIMED_OUT, desk.now))
    assert len(desk.timed_out) == found
    desk.carry_out(desk.shard.timer_fired(Sweep.TIMED_OUT, desk.now))
    assert len(desk.timed_out) == 2 * found
    desk.wait(0)
    assert len(desk.timed_out) == 10
    assert len(desk.written) == 10
    assert desk.timers[Sweep.TIMED_OUT] == desk.now_ms + ABORT_INTERVAL_MS


def test_a_sweep_that_the_log_refuses_begins_anew_later(monkeypatch):
    monkeypatch.setattr(sweeping, "RECORDS_PER_TURN", 1)
    desk = Desk()
    for name in ("first", "second", "third"):
        desk.add(desk.init(name), ORDERS_0, transactional_id=name)
    desk.now_ms += TIMEOUT_MS + 1
    desk.refusal, desk.refusals_left = ErrorCode.NOT_ENOUGH_REPLICAS, 1
    desk.carry_out(desk.shard.timer_fired(Sweep.TIMED_OUT, desk.now))
    assert desk.timers[Sweep.TIMED_OUT] == desk.now_ms + ABORT_INTERVAL_MS
    desk.wait(ABORT_INTERVAL_MS)
    assert len(desk.timed_out) == 3


def test_an_id_that_is_gone_when_a_sweep_comes_to_it_is_passed_over(monkeypatch):
    monkeypatch.setattr(sweeping, "LOOKS_PER_TURN", 1)
    desk = Desk()
    for name in ("first", "second", "third"):
        desk.init(name)
    desk.carry_out(desk.shard.timer_fired(Sweep.TIMED_OUT, desk.now))
    desk.now_ms += EXPIRATION_MS
    for _ in range(3):
        desk.carry_out(desk.shard.timer_fired(Sweep.EXPIRED, desk.now))
    desk.init("last")
    desk.wait(0)
    assert desk.state("last").state is TransactionState.EMPTY
    assert desk.timed_out == []


def test_a_partition_without_ids_has_no_timers():
    desk = Desk()
    assert desk.timers == {}
    desk.init()
    assert set(desk.timers) == set(Sweep)
    desk.wait(EXPIRATION_MS + 2 * EXPIRATION_INTERVAL_MS)
    assert desk.timers == {}
    assert desk.shard.timer_fired(Sweep.EXPIRED, desk.now) is NOTHING


def test_a_resigned_shard_knows_nothing_any_more():
    desk = Desk()
    desk.add(desk.init(), ORDERS_0)
    desk.shard.transaction_ended(ProducerIdentity(1, 1), committed=True)
    assert desk.state().start_ms == START_MS
    desk.shard.resigned()
    assert desk.state() is None


def test_a_timer_of_nobody_is_a_bug():
    with pytest.raises(InvariantViolated):
        Desk().shard.timer_fired("whose?", Desk().now)
