"""What the user holds: handed out once, counted exactly, however a loop is left."""

from __future__ import annotations

from kits.consumer_kit import batch, fetched, ready
from moldau.client.consuming.holding import Holding


def walked(count, *, held=None):
    """Hand out three records one by one, of which the user has come to some."""
    holding = held or Holding()
    state = ready(10)
    answer = fetched(batch(10, [b"a", b"b", b"c"], epoch=7), 10, state=state)
    walk = holding.hand_out_walk(answer, answer.take(10))
    for _ in range(count):
        next(walk.rest)
    return holding, state, answer, walk


def test_records_handed_out_together_are_done_with_at_the_next_asking():
    holding, state = Holding(), ready(10)
    answer = fetched(batch(10, [b"a", b"b"], epoch=7), 10, state=state)
    holding.hand_out(state, answer.take(10))
    assert (holding.processed(state), holding.consumed(state)) == ((10, -1), (12, 7))
    assert not holding.empty
    assert holding.settle() is None
    assert holding.empty
    assert (state.offset, state.offset_epoch) == (12, 7)


def test_a_walk_counts_record_by_record():
    expected = {
        0: ((10, -1), (10, -1)),
        1: ((10, -1), (11, 7)),
        2: ((11, 7), (12, 7)),
        3: ((12, 7), (13, 7)),
    }
    for count, (processed, consumed) in expected.items():
        holding, state, _, _ = walked(count)
        assert (holding.processed(state), holding.consumed(state)) == (processed, consumed)


def test_a_loop_left_in_the_middle_gives_back_the_rest():
    holding, state, answer, walk = walked(1)
    left = holding.settle()
    assert left is not None
    assert left[0] is answer
    assert [record.value for record in left[1].records] == [b"b", b"c"]
    assert (state.offset, state.offset_epoch) == (11, 7)
    assert list(walk.rest) == []  # the loop, should it go on, ends by itself


def test_a_walk_walked_to_its_end_leaves_nothing():
    holding, state, _, _ = walked(3)
    assert holding.settle() is None
    assert state.offset == 13


def test_a_walk_not_begun_gives_everything_back():
    holding, state, _, _ = walked(0)
    left = holding.settle()
    assert left is not None
    assert len(left[1].records) == 3
    assert state.offset == 10


def test_a_cut_keeps_what_was_handed_out_held():
    holding, state, _, walk = walked(2)
    left = holding.cut(state)
    assert left is not None
    assert [record.value for record in left[1].records] == [b"c"]
    assert list(walk.rest) == []
    assert (holding.processed(state), holding.consumed(state)) == ((11, 7), (12, 7))
    assert holding.settle() is None
    assert state.offset == 12


def test_a_partition_is_released_without_the_others():
    holding, state, _, _ = walked(1)
    other = ready(0)
    answer = fetched(batch(0, [b"x"]), state=other)
    holding.hand_out(other, answer.take(1))
    assert holding.release(state) is not None
    assert holding.states() == [other]
    assert holding.release(other) is None
    assert holding.empty
    assert holding.cut(state) is None


def test_a_mark_knows_where_each_partition_stood_before_it_moved():
    holding, still, _, _ = walked(1)
    moving, passed = ready(0), ready(5)
    marked = holding.mark()
    answer = fetched(batch(0, [b"x", b"y"]), state=moving)
    holding.hand_out(moving, answer.take(1))
    holding.hand_out(moving, answer.take(1))
    holding.pass_over(passed, fetched(batch(5, [b"z"]), 5, state=passed).take(1))
    assert marked == {still: (11, 7), moving: (0, -1), passed: (5, -1)}
    assert passed.offset == 6
    holding.unmark(marked)
    holding.note(ready(9))
    assert len(marked) == 3


def test_what_is_released_counts_as_handed_out():
    """Who lost a partition can still be told that it had records of it."""
    holding, state = Holding(), ready(10)
    marked = holding.mark()
    holding.hand_out(state, fetched(batch(10, [b"a", b"b"]), 10, state=state).take(10))
    holding.release(state)
    assert (marked[state][0], holding.consumed(state)[0]) == (10, 12)


def test_a_mark_that_nobody_keeps_is_none():
    holding = Holding()
    marked = holding.mark()
    assert holding.is_marked
    del marked
    assert not holding.is_marked
