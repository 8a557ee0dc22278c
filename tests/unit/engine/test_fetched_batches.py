"""Users see the batches that are theirs to see, and are told where they are behind each."""

import pytest

from kits.consumer_kit import batch, marker
from moldau.base.errors import CorruptRecords
from moldau.engine.fetched_batches import BatchWalk, split
from moldau.protocol.messages.data import AbortedTransaction
from moldau.records.legacy import message_set
from moldau.records.record import Record


def walk(content, offset=0, aborted=(), **options):
    view = memoryview(content)
    told = [AbortedTransaction(*one) for one in aborted]
    return BatchWalk(view, split(view, offset).spans, offset, told, **options)


def seen(walking):
    """The first offsets of the batches a walk comes by."""
    found = []
    while (one := walking.next()) is not None:
        found.append(one.span.base_offset)
    return found


def transactional(offset, producer_id, count=1):
    return batch(
        offset, [b"v"] * count, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip


def test_each_batch_tells_what_is_wanted_of_it_and_where_it_ends():
    walking = walk(batch(10, [b"a", b"b"], epoch=3) + batch(12, [b"c"], epoch=4), 11)
    first, second = walking.next(), walking.next()
    assert (first.first_wanted, first.next_offset, first.leader_epoch) == (11, 12, 3)
    assert (second.first_wanted, second.next_offset, second.leader_epoch) == (12, 13, 4)
    assert walking.next() is None
    assert (walking.next_offset, walking.leader_epoch) == (13, 4)


def test_batches_below_the_position_are_passed_and_move_nothing_back():
    walking = walk(batch(0, [b"a"]) + batch(1, [b"b"]) + batch(5, [b"c"]), 2)
    assert seen(walking) == [5]
    walking = walk(batch(0, [b"a"]), 7)
    assert seen(walking) == []
    assert walking.next_offset == 7


def test_control_batches_are_passed_but_the_position_is_behind_them():
    walking = walk(transactional(0, 9) + marker(1, 9, aborted=False))
    assert seen(walking) == [0]
    assert walking.next_offset == 2


def test_aborted_transactions_are_passed_up_to_their_marker():
    content = (
        transactional(0, 1) + transactional(1, 2) + batch(2, [b"plain"])
        + marker(3, 1, aborted=True) + transactional(4, 1) + marker(5, 1, aborted=False)
        + marker(6, 2, aborted=False)
    )  # fmt: skip
    assert seen(walk(content, aborted=[(1, 0)])) == [1, 2, 4]
    assert seen(walk(content)) == [0, 1, 2, 4]


def test_a_producer_may_abort_again_and_again():
    content = b"".join(
        transactional(first, 1) + marker(first + 1, 1, aborted=True) for first in range(0, 6, 2)
    )
    assert seen(walk(content + transactional(6, 1), aborted=[(1, 2), (1, 0), (1, 4)])) == [6]


def test_a_marker_below_the_position_still_ends_its_transaction():
    content = transactional(0, 1) + marker(1, 1, aborted=True) + transactional(2, 1)
    assert seen(walk(content, 2, aborted=[(1, 0)])) == [2]


def test_messages_of_old_formats_have_no_header_and_no_epoch():
    content = message_set([Record(4, 1, b"k", b"v")], 1) + batch(5, [b"a"], epoch=2)
    walking = walk(content, 4)
    old, new = walking.next(), walking.next()
    assert (old.header, old.first_wanted, old.next_offset, old.leader_epoch) == (None, 4, 5, -1)
    assert new.header.leader_epoch == 2


def test_a_wrong_checksum_is_corrupt_when_its_turn_comes_unless_nobody_asks():
    good, bad = batch(0, [b"a"]), bytearray(batch(1, [b"b"]))
    bad[-2] ^= 1
    walking = walk(good + bytes(bad))
    assert walking.next().span.base_offset == 0
    with pytest.raises(CorruptRecords, match="checksum"):
        walking.next()
    assert seen(walk(good + bytes(bad), check_crcs=False)) == [0, 1]
