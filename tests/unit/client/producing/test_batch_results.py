"""Deliveries follow their records wherever those go."""

from __future__ import annotations

import pytest

from kits.producer_kit import GUARD, batch
from moldau.client.errors import DeliveryTimedOut
from moldau.client.producing.batch_results import BatchResult, Moved
from moldau.client.producing.deliveries import AsyncDelivery, Delivery


def batch_result(topic="t", partition=0):
    return BatchResult(topic, partition, GUARD)


def test_a_delivery_tells_the_offset_of_its_own_record():
    shared = batch_result()
    first, third = AsyncDelivery(shared, 0, 50), AsyncDelivery(shared, 2, 51)
    assert not first.done()
    shared.settle(None, base_offset=100)
    assert first.metadata() == ("t", 0, 100, 50)
    assert third.metadata() == ("t", 0, 102, 51)


def test_the_broker_s_time_counts_where_it_sets_it():
    shared = batch_result()
    shared.settle(None, 7, append_time_ms=99)
    assert AsyncDelivery(shared, 1, 50).metadata().timestamp_ms == 99


def test_without_acknowledgement_there_is_no_offset():
    shared = batch_result()
    shared.settle(None)
    assert AsyncDelivery(shared, 3, 50).metadata().offset == -1


def test_the_halves_of_a_split_batch_decide_on_its_records():
    whole = batch(*(b"%d" % number * 10 for number in range(9)))
    deliveries = [AsyncDelivery(whole.batch_result, index, 0) for index in range(9)]
    told = []
    deliveries[8].add_done_callback(told.append)
    first, second = whole.halves()
    assert first.count + second.count == 9
    for watcher in second.batch_result.settle(None, 500):
        watcher()
    assert told == [deliveries[8]]
    assert deliveries[8].metadata().offset == 500 + second.count - 1
    assert not deliveries[0].done()
    first.batch_result.settle(None, 300)
    assert [one.metadata().offset for one in deliveries[: first.count]] == list(
        range(300, 300 + first.count)
    )


def test_halves_go_on_with_the_numbers_of_the_whole():
    whole = batch(*([b"x" * 20] * 10))
    whole.number(5, 1, 2**31 - 3)
    first, second = whole.halves()
    assert first.sequence == 2**31 - 3
    assert second.sequence == first.next_sequence
    assert second.next_sequence == whole.next_sequence == 7


def test_a_parked_record_moves_into_its_batch_with_those_who_wait():
    parked, shared = batch_result(partition=-1), batch_result(partition=3)
    delivery = AsyncDelivery(parked, 0, 5)
    told = []
    delivery.add_done_callback(told.append)
    parked.move(Moved(1, shared, 4))
    assert not delivery.done()
    for watcher in shared.settle(None, 10):
        watcher()
    assert told == [delivery]
    assert delivery.metadata() == ("t", 3, 14, 5)


def test_everybody_who_is_told_of_a_failure_gets_an_exception_of_their_own():
    shared = batch_result()
    shared.settle(DeliveryTimedOut("late", advice="Wait."))
    raised = []
    for index in range(2):
        with pytest.raises(DeliveryTimedOut, match=r"late\. Wait\.") as caught:
            Delivery(shared, index, 0).result()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
