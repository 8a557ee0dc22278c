"""The order of one partition's batches, whatever is answered."""

from __future__ import annotations

from kits.producer_kit import PRODUCER, batch, queue, waiting
from moldau.client.producing.sequences import Gap, SequenceIdentity


def taken(from_queue, count):
    """Take as many as may go, at most this many."""
    found = []
    while len(found) < count and from_queue.sendable(0.0):
        assert from_queue.settle_numbers(PRODUCER)
        found.append(from_queue.take())
    return found


def failed(in_queue, one):
    in_queue.answered()
    in_queue.requeue(one)


def written(in_queue, one):
    in_queue.answered()
    in_queue.acknowledged(one)


def test_batches_are_numbered_in_order_and_five_may_be_on_their_way():
    partition = queue()
    batches = waiting(partition, 7)
    assert taken(partition, 9) == batches[:5]
    assert [one.sequence for one in batches] == [0, 1, 2, 3, 4, -1, -1]
    written(partition, batches[0])
    assert taken(partition, 9) == [batches[5]]


def test_an_unknown_producer_sends_one_batch_before_the_next():
    partition = queue()
    partition.sequences.introduced = False
    first, second = waiting(partition, 2)
    assert taken(partition, 9) == [first]
    written(partition, first)
    assert taken(partition, 9) == [second]


def test_failed_batches_return_before_new_ones_in_their_order():
    partition = queue()
    first, second, third, fourth = waiting(partition, 4)
    taken(partition, 3)
    for one in (third, first, second):
        failed(partition, one)
    assert list(partition.waiting) == [first, second, third, fourth]


def test_a_failed_batch_is_sent_again_alone_when_it_is_the_first():
    partition = queue()
    first, second, _ = waiting(partition, 3)
    taken(partition, 2)
    failed(partition, second)
    assert taken(partition, 9) == []
    written(partition, first)
    assert taken(partition, 9) == [second]
    assert second.sequence == 1


def test_nothing_new_overtakes_a_batch_that_is_tried_again():
    partition = queue()
    first, *_ = waiting(partition, 3)
    taken(partition, 1)
    failed(partition, first)
    assert taken(partition, 9) == [first]


def test_a_pause_is_kept():
    partition = queue()
    first, _ = waiting(partition, 2)
    taken(partition, 1)
    first.not_before = 5.0
    failed(partition, first)
    assert not partition.sendable(4.0)
    assert partition.sendable(5.0)


def test_a_new_leader_waits_for_what_the_old_one_was_sent():
    partition = queue()
    first, second, _ = waiting(partition, 3)
    taken(partition, 1)
    partition.leader = 2
    assert not partition.sendable(0.0)
    failed(partition, first)
    assert partition.sendable(0.0)
    assert taken(partition, 1) == [first]
    written(partition, first)
    assert taken(partition, 1) == [second]


def test_without_numbers_one_at_a_time_keeps_the_order():
    partition = queue(idempotent=False, in_flight_max=1)
    first, second = waiting(partition, 2)
    assert partition.sendable(0.0)
    partition.take()
    assert not partition.sendable(0.0)
    failed(partition, first)
    assert partition.take() is first
    written(partition, first)
    assert partition.take() is second


def test_a_batch_given_up_leaves_a_gap_that_a_raised_epoch_closes():
    partition = queue()
    first, second = waiting(partition, 2)
    taken(partition, 1)
    partition.answered()
    partition.given_up(first)
    assert partition.sendable(0.0)
    assert not partition.settle_numbers(PRODUCER)
    partition.renumber(SequenceIdentity(9, 1))
    assert partition.take() is second
    assert (second.sequence, second.identity[1]) == (0, 1)


def test_what_was_given_up_but_is_written_after_all_leaves_no_gap():
    partition = queue()
    first, _ = waiting(partition, 2)
    taken(partition, 1)
    partition.given_up(first)
    assert not partition.sendable(0.0)
    written(partition, first)
    assert partition.settle_numbers(PRODUCER)
    assert partition.sequences.gap is Gap.NONE


def test_batches_after_one_given_up_are_first_tried_under_their_old_numbers():
    partition = queue()
    first, second, third = waiting(partition, 3)
    taken(partition, 2)
    partition.answered()
    partition.given_up(first)
    failed(partition, second)
    assert partition.sendable(0.0)
    assert partition.settle_numbers(PRODUCER)
    assert partition.take() is second
    assert (second.sequence, second.identity[1]) == (1, 0)
    assert list(partition.waiting) == [third]


def test_a_certain_gap_numbers_all_open_batches_anew_once_nothing_is_on_its_way():
    partition = queue()
    first, second, _ = waiting(partition, 3)
    taken(partition, 2)
    failed(partition, first)
    partition.sequences.gap = Gap.CERTAIN
    assert not partition.sendable(0.0)
    failed(partition, second)
    assert partition.sendable(0.0)
    assert not partition.settle_numbers(PRODUCER)
    partition.renumber(SequenceIdentity(9, 1))
    assert [(one.sequence, one.identity[1]) for one in (first, second)] == [(0, 1), (1, 1)]


def test_an_epoch_raised_for_another_partition_serves_when_nothing_is_open():
    partition = queue()
    (first,) = waiting(partition, 1)
    taken(partition, 1)
    raised = SequenceIdentity(9, 3)
    assert partition.settle_numbers(raised)
    assert partition.sequences.identity == PRODUCER
    written(partition, first)
    assert partition.settle_numbers(raised)
    waiting(partition, 1)
    assert (partition.take().identity[1], partition.sequences.introduced) == (3, True)


def test_a_split_batch_is_replaced_by_its_halves_in_its_place():
    partition = queue()
    first, second = batch(b"a" * 50, b"b" * 50), batch(b"c")
    partition.waiting.extend((first, second))
    taken(partition, 2)
    partition.answered()
    halves = partition.split(first)
    failed(partition, second)
    assert list(partition.waiting) == [*halves, second]
    assert [one.sequence for one in partition.waiting] == [0, 1, 2]
