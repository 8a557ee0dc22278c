"""A transaction is decided once, and whoever asks again hears the same."""

from __future__ import annotations

import pytest

from kits.transaction_kit import ORDERS_0, ORDERS_1, Desk
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions.shard import Ended
from moldau.coordination.transactions.transaction import (
    FENCING_EPOCH,
    LAST_CLIENT_EPOCH,
    Missing,
    TransactionState,
)
from moldau.protocol.errors import ErrorCode

NOBODY = (-1, -1)
CONCURRENT = (ErrorCode.CONCURRENT_TRANSACTIONS, NOBODY)
FENCED = (ErrorCode.PRODUCER_FENCED, NOBODY)
INVALID = (ErrorCode.INVALID_TXN_STATE, NOBODY)
UNKNOWN = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, NOBODY)


def ongoing(desk: Desk, *, version: int = 2) -> ProducerIdentity:
    producer = desk.init()
    desk.add(producer, ORDERS_0, ORDERS_1, version=version)
    return producer


def raised(producer: ProducerIdentity) -> ProducerIdentity:
    return ProducerIdentity(producer.producer_id, producer.producer_epoch + 1)


# The older protocol: the epoch stays


@pytest.mark.parametrize("commit", [True, False])
def test_in_the_older_protocol_the_epoch_stays_and_a_second_end_is_a_retry(commit):
    desk = Desk()
    producer = ongoing(desk, version=0)
    assert desk.end(producer, commit=commit, version=0) == (ErrorCode.NONE, producer)
    assert desk.end(producer, commit=commit, version=0) == CONCURRENT
    markers = desk.mark()
    assert markers.partitions == {ORDERS_0, ORDERS_1}
    assert (markers.committed, markers.producer) == (commit, producer)
    assert (markers.coordinator_epoch, markers.transaction_version) == (5, 0)
    state = desk.state()
    assert state.state.label == ("CompleteCommit" if commit else "CompleteAbort")
    assert state.partitions == frozenset()
    assert desk.end(producer, commit=commit, version=0) == (ErrorCode.NONE, producer)
    assert desk.end(producer, commit=not commit, version=0) == INVALID
    assert desk.add(producer, ORDERS_0, version=0) is ErrorCode.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_in_the_older_protocol_nothing_ends_without_a_beginning(commit):
    desk = Desk()
    assert desk.end(desk.init(), commit=commit, version=0) == INVALID


def test_in_the_older_protocol_fencing_comes_before_waiting():
    desk = Desk()
    producer = ongoing(desk, version=0)
    desk.end(producer, version=0)
    assert desk.end(raised(producer), version=0) == FENCED
    assert desk.end(ProducerIdentity(1, 0), version=0) == UNKNOWN
    assert desk.end(producer, version=0, transactional_id="other") == UNKNOWN


# The newer protocol: every end raises the epoch


@pytest.mark.parametrize("commit", [True, False])
def test_every_end_raises_the_epoch_and_an_end_in_the_old_one_is_a_retry(commit):
    desk = Desk()
    producer = ongoing(desk)
    following = raised(producer)
    assert desk.end(producer, commit=commit) == (ErrorCode.NONE, following)
    assert desk.end(producer, commit=commit) == CONCURRENT
    markers = desk.mark()
    assert (markers.committed, markers.producer) == (commit, following)
    assert markers.transaction_version == 2
    assert desk.end(producer, commit=commit) == (ErrorCode.NONE, following)
    assert desk.end(producer, commit=not commit) == INVALID
    assert desk.add(producer, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert desk.add(following, ORDERS_0) is ErrorCode.NONE
    assert desk.end(producer, commit=commit) == FENCED


def test_an_abort_without_a_transaction_brings_a_new_epoch_and_no_markers():
    desk = Desk()
    producer = desk.init()
    for number in range(1, 4):
        desk.now_ms += 10
        following = raised(producer)
        assert desk.end(producer, commit=False) == (ErrorCode.NONE, following)
        assert desk.state().state is TransactionState.COMPLETE_ABORT
        assert desk.state().start_ms == desk.now_ms
        assert following.producer_epoch == number
        producer = following
    assert desk.written == []
    desk.add(producer, ORDERS_0)
    desk.end(producer)
    desk.mark()
    assert desk.end(raised(producer), commit=False).error is ErrorCode.NONE


def test_a_commit_without_a_transaction_is_refused():
    desk = Desk()
    producer = desk.init()
    assert desk.end(producer) == INVALID
    desk.add(producer, ORDERS_0)
    desk.end(producer)
    desk.mark()
    assert desk.end(raised(producer)) == INVALID
    desk.end(raised(producer), commit=False)
    assert desk.end(raised(raised(producer))) == INVALID


def test_others_do_not_end_it():
    desk = Desk()
    producer = desk.init()
    assert desk.end(producer, transactional_id="other") == UNKNOWN
    assert desk.end(ProducerIdentity(1, 0)) == UNKNOWN
    for epoch in (-1, 1):
        assert desk.end(ProducerIdentity(producer.producer_id, epoch), commit=False) == FENCED
    desk.add(producer, ORDERS_0)
    assert desk.end(ProducerIdentity(producer.producer_id, -1)) == FENCED


def used_up(desk: Desk) -> ProducerIdentity:
    desk.init()
    record = desk.log[-1]
    epoch = LAST_CLIENT_EPOCH.to_bytes(2, "big")
    desk.log[-1] = record._replace(value=record.value[:10] + epoch + record.value[12:])
    desk.crash()
    producer = desk.state().producer
    assert desk.add(producer, ORDERS_0) is ErrorCode.NONE
    return producer


def test_the_last_epoch_of_a_producer_id_ends_in_another_producer_id():
    desk = Desk()
    producer = used_up(desk)
    assert desk.end(producer) is Missing.PRODUCER_ID
    following = ProducerIdentity(9000, 0)
    assert desk.end(producer, fresh=9000) == (ErrorCode.NONE, following)
    assert desk.add(following, ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.mark().producer == (producer.producer_id, FENCING_EPOCH)
    assert desk.state().producer == following
    assert desk.end(producer) == (ErrorCode.NONE, following)
    assert desk.end(producer, commit=False) == INVALID
    assert desk.end(producer._replace(producer_epoch=0)) == UNKNOWN
    assert desk.add(following, ORDERS_0) is ErrorCode.NONE
    assert desk.end(producer) == UNKNOWN


def test_what_was_promised_for_used_up_epochs_survives_a_crash():
    desk = Desk()
    producer = used_up(desk)
    desk.end(producer, fresh=9000)
    desk.crash()
    desk.wait(0)
    desk.mark()
    desk.crash()
    assert desk.end(producer) == (ErrorCode.NONE, (9000, 0))
    assert desk.add(ProducerIdentity(9000, 0), ORDERS_0) is ErrorCode.NONE


def test_a_producer_id_that_is_not_needed_is_not_used():
    desk = Desk()
    producer = ongoing(desk)
    assert desk.end(producer, fresh=9000) == (ErrorCode.NONE, raised(producer))
    assert desk.state().next_producer_id == -1


def test_the_reply_waits_for_the_decision_to_be_committed():
    desk = Desk()
    producer = ongoing(desk)
    desk.commits = False
    waiter = desk.ask(
        desk.shard.end_transaction, "copier", producer, 2, None, now=desk.now, commit=True
    )
    again = desk.ask(
        desk.shard.end_transaction, "copier", producer, 2, None, now=desk.now, commit=True
    )
    assert (waiter.answers, desk.written) == ([], [])
    desk.commit()
    assert waiter.answer == Ended(ErrorCode.NONE, raised(producer))
    assert again.answer == CONCURRENT
    assert len(desk.written) == 1
