"""Partitions join a transaction before they are written to, and only for its producer."""

from __future__ import annotations

import pytest

from kits.transaction_kit import OFFSETS_7, ORDERS_0, ORDERS_1, START_MS, Desk
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.transactions import transaction as rules
from moldau.coordination.transactions.transaction import TransactionState
from moldau.protocol.errors import ErrorCode


def verify(desk, producer, *keys, transactional_id="copier"):
    return desk.ask(desk.shard.verify_partitions, transactional_id, producer, keys).answer


def test_the_first_partition_begins_the_transaction():
    desk = Desk()
    producer = desk.init()
    desk.now_ms += 5
    assert desk.add(producer, ORDERS_0) is ErrorCode.NONE
    desk.now_ms += 5
    assert desk.add(producer, ORDERS_1, OFFSETS_7) is ErrorCode.NONE
    state = desk.state()
    assert state.state is TransactionState.ONGOING
    assert state.partitions == {ORDERS_0, ORDERS_1, OFFSETS_7}
    assert (state.start_ms, state.last_update_ms) == (START_MS + 5, START_MS + 10)
    assert state.client_version == 2


def test_what_is_in_already_costs_no_record():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0, ORDERS_1)
    count = len(desk.log)
    assert desk.add(producer, ORDERS_1) is ErrorCode.NONE
    assert len(desk.log) == count


@pytest.mark.parametrize("limit", ["PARTITIONS", "TOPICS"])
def test_a_transaction_has_a_bounded_number_of_partitions_and_topics(monkeypatch, limit):
    monkeypatch.setattr(rules, "TOPICS_PER_TRANSACTION", 2)
    monkeypatch.setattr(rules, "PARTITIONS_PER_TRANSACTION", 3 if limit == "PARTITIONS" else 9)
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0, ORDERS_1)
    assert desk.add(producer, OFFSETS_7) is ErrorCode.NONE
    before, records = desk.state(), list(desk.log)
    one_more = PartitionKey("orders" if limit == "PARTITIONS" else "payments", 2)
    assert desk.add(producer, one_more) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (desk.state(), desk.log) == (before, records)
    assert desk.add(producer, OFFSETS_7) is ErrorCode.NONE
    assert desk.end(producer).error is ErrorCode.NONE


def test_only_its_producer_may_add():
    desk = Desk()
    producer = desk.init()
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.add(producer, ORDERS_0, transactional_id="other") is unknown
    assert desk.add(ProducerIdentity(1, 0), ORDERS_0) is unknown
    for epoch in (-1, 1):
        other = ProducerIdentity(producer.producer_id, epoch)
        assert desk.add(other, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert desk.state().state is TransactionState.EMPTY


def test_nothing_is_added_while_the_last_transaction_is_ended():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    following = desk.end(producer).producer
    assert desk.add(following, ORDERS_1) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.mark()
    assert desk.add(following, ORDERS_1) is ErrorCode.NONE
    assert desk.state().partitions == {ORDERS_1}


def test_verifying_says_which_partitions_are_in():
    desk = Desk()
    producer = desk.init()
    desk.add(producer, ORDERS_0)
    assert verify(desk, producer, ORDERS_0, ORDERS_1) == {
        ORDERS_0: ErrorCode.NONE,
        ORDERS_1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    assert desk.state().partitions == {ORDERS_0}


def test_verifying_tells_who_may_not_write_at_all():
    desk = Desk()
    producer = desk.init()
    unknown = {ORDERS_0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert verify(desk, producer, ORDERS_0, transactional_id="other") == unknown
    assert verify(desk, ProducerIdentity(1, 0), ORDERS_0) == unknown
    old = ProducerIdentity(producer.producer_id, -1)
    assert verify(desk, old, ORDERS_0) == {ORDERS_0: ErrorCode.PRODUCER_FENCED}
    desk.add(producer, ORDERS_0)
    following = desk.end(producer).producer
    assert verify(desk, following, ORDERS_0) == {ORDERS_0: ErrorCode.CONCURRENT_TRANSACTIONS}
