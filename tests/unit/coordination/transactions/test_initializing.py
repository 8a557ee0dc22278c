"""A transactional id has one producer at a time, and everybody before it is fenced."""

from __future__ import annotations

import pytest

from kits.transaction_kit import MAX_TIMEOUT_MS, ORDERS_0, START_MS, Desk, Waiter
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions.transaction import (
    FENCING_EPOCH,
    LAST_CLIENT_EPOCH,
    Missing,
    TransactionState,
)
from moldau.protocol.errors import ErrorCode


def at_epoch(desk: Desk, epoch: int) -> ProducerIdentity:
    """Bring an id to an epoch, by a record as a coordinator before would have left it."""
    desk.init()
    record = desk.log[-1]
    desk.log[-1] = record._replace(
        value=record.value[:10] + epoch.to_bytes(2, "big") + record.value[12:]
    )
    desk.crash()
    return desk.state().producer


def test_a_new_id_gets_a_new_producer_id_and_epoch_0():
    desk = Desk()
    assert desk.init(fresh=77, timeout_ms=1234) == (77, 0)
    state = desk.state()
    assert (state.state, state.timeout_ms, state.start_ms) == (TransactionState.EMPTY, 1234, -1)
    assert state.last_update_ms == START_MS


def test_a_shard_without_a_producer_id_at_hand_asks_for_one():
    desk = Desk()
    waiter = desk.ask(desk.shard.init_producer_id, "copier", 1, None, None, now=desk.now)
    assert waiter.answer is Missing.PRODUCER_ID
    assert desk.log == []


def test_every_new_instance_gets_the_next_epoch_and_the_one_before_is_fenced():
    desk = Desk()
    first = desk.init()
    second = desk.init(timeout_ms=99)
    assert second == (first.producer_id, 1)
    assert desk.state().timeout_ms == 99
    assert desk.add(first, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert desk.init(expected=first) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1])
def test_a_timeout_outside_of_the_limits_is_refused(timeout_ms):
    desk = Desk()
    assert desk.init(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert desk.init(timeout_ms=MAX_TIMEOUT_MS) == (4001, 0)


# KIP-360: a producer that names itself


def test_a_producer_raises_its_own_epoch_and_may_ask_again():
    desk = Desk()
    first = desk.init()
    second = desk.init(expected=first)
    assert second == (first.producer_id, 1)
    assert desk.init(expected=first) == second
    assert desk.init(expected=second) == (first.producer_id, 2)
    assert desk.init(expected=first) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_was_replaced_cannot_come_back():
    desk = Desk()
    first = desk.init()
    desk.init()
    assert desk.init(expected=first) is ErrorCode.PRODUCER_FENCED


def test_asking_again_of_another_coordinator_is_fenced_as_kafkas_is():
    desk = Desk()
    first = desk.init()
    second = desk.init(expected=first)
    desk.crash()
    assert desk.init(expected=first) is ErrorCode.PRODUCER_FENCED
    assert desk.init(expected=second) == (first.producer_id, 2)


def test_another_producer_id_is_fenced():
    desk = Desk()
    desk.init()
    assert desk.init(expected=ProducerIdentity(1, 0)) is ErrorCode.PRODUCER_FENCED


def test_an_unknown_id_is_given_to_whoever_names_itself():
    desk = Desk()
    assert desk.init(expected=ProducerIdentity(1, 5), fresh=50) == (50, 0)


# Epochs that are used up


def test_a_producer_id_whose_epochs_are_used_up_is_replaced():
    desk = Desk()
    old = at_epoch(desk, LAST_CLIENT_EPOCH - 1)
    last = desk.init()
    assert last == (old.producer_id, LAST_CLIENT_EPOCH)
    waiter = desk.ask(desk.shard.init_producer_id, "copier", 1, None, None, now=desk.now)
    assert waiter.answer is Missing.PRODUCER_ID
    assert desk.init(fresh=9000) == (9000, 0)
    assert desk.state().previous_producer_id == old.producer_id
    assert desk.init(expected=last) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_gets_another_producer_id_may_ask_again_until_it_goes_on():
    desk = Desk()
    last = at_epoch(desk, LAST_CLIENT_EPOCH)
    assert desk.init(expected=last, fresh=9000) == (9000, 0)
    assert desk.init(expected=last) == (9000, 0)
    assert desk.init(expected=last) == (9000, 0)
    assert desk.init(expected=last._replace(producer_epoch=3)) is ErrorCode.PRODUCER_FENCED
    assert desk.add(ProducerIdentity(9000, 0), ORDERS_0) is ErrorCode.NONE
    assert desk.init(expected=last) is ErrorCode.PRODUCER_FENCED


def test_the_epoch_that_fences_is_never_given_to_a_client():
    desk = Desk()
    last = at_epoch(desk, LAST_CLIENT_EPOCH)
    assert desk.add(last, ORDERS_0) is ErrorCode.NONE
    assert desk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.mark().producer == (last.producer_id, FENCING_EPOCH)
    assert desk.end(last, commit=False) == (ErrorCode.PRODUCER_FENCED, (-1, -1))
    fencing = ProducerIdentity(last.producer_id, FENCING_EPOCH)
    assert desk.add(fencing, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert desk.end(fencing, commit=False).error is ErrorCode.PRODUCER_FENCED
    assert desk.init(expected=last, fresh=9000) == (9000, 0)


# What stands in the way


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced():
    desk = Desk()
    first = desk.init()
    desk.add(first, ORDERS_0)
    assert desk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.add(first, ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    markers = desk.mark()
    assert (markers.committed, markers.producer) == (False, (first.producer_id, 1))
    assert desk.state().state is TransactionState.COMPLETE_ABORT
    assert desk.init() == (first.producer_id, 2)
    assert desk.end(first).error is ErrorCode.PRODUCER_FENCED


def test_somebody_else_does_not_abort_an_open_transaction():
    desk = Desk()
    desk.add(desk.init(), ORDERS_0)
    assert desk.init(expected=ProducerIdentity(1, 0)) is ErrorCode.PRODUCER_FENCED
    assert desk.state().state is TransactionState.ONGOING


def test_with_the_older_protocol_a_fenced_producer_hears_nothing_more():
    desk = Desk(version=1)
    first = desk.init()
    desk.add(first, ORDERS_0, version=0)
    assert desk.init(expected=first) is ErrorCode.CONCURRENT_TRANSACTIONS
    markers = desk.mark()
    assert (markers.producer, markers.transaction_version) == ((first.producer_id, 1), 0)
    assert desk.init(expected=first) is ErrorCode.PRODUCER_FENCED


def test_with_epochs_per_transaction_a_fenced_producer_may_recover():
    desk = Desk()
    first = desk.init()
    desk.add(first, ORDERS_0)
    assert desk.init(expected=first) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.mark().transaction_version == 2
    assert desk.init(expected=first) == (first.producer_id, 1)


def test_while_a_step_is_not_committed_everybody_else_waits():
    desk = Desk()
    first = desk.init()
    desk.commits = False
    waiter = Waiter()
    desk.carry_out(desk.shard.init_producer_id("copier", 1, None, None, waiter, desk.now))
    assert waiter.answers == []
    other = Waiter()
    desk.carry_out(desk.shard.init_producer_id("copier", 1, None, None, other, desk.now))
    desk.commit()
    assert waiter.answer == (first.producer_id, 1)
    assert other.answer is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_what_the_log_refuses_has_not_happened(refusal, told):
    desk = Desk()
    desk.refusal = refusal
    assert desk.init() is told
    desk.refusal = None
    first = desk.init()
    desk.add(first, ORDERS_0)
    before = desk.state()
    desk.refusal = refusal
    assert desk.init() is told
    assert desk.end(first).error is told
    assert desk.add(first, ORDERS_0._replace(partition=9)) is told
    desk.refusal = None
    assert desk.state() == before
    assert desk.written == []
    assert desk.end(first).error is ErrorCode.NONE
