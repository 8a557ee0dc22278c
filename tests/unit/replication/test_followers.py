"""When a follower was last level with its leader."""

from __future__ import annotations

from moldau.replication.followers import UNKNOWN_END, Follower


def test_a_follower_has_the_full_time_from_the_start_of_the_leadership():
    follower = Follower(2, 5.0)
    assert (follower.end_offset, follower.caught_up_s) == (UNKNOWN_END, 5.0)
    follower.fetched(3, 10, 6.0)
    assert (follower.end_offset, follower.caught_up_s) == (3, 5.0)


def test_one_that_fetches_from_the_end_is_level():
    follower = Follower(2, 0.0)
    follower.fetched(10, 10, 6.0)
    assert follower.caught_up_s == 6.0


def test_one_that_always_reaches_the_end_of_the_fetch_before_was_level_then():
    follower = Follower(2, 0.0)
    follower.fetched(5, 10, 1.0)
    follower.fetched(10, 20, 2.0)
    assert follower.caught_up_s == 1.0
    follower.fetched(20, 30, 3.0)
    assert follower.caught_up_s == 2.0
    follower.fetched(25, 40, 4.0)
    assert follower.caught_up_s == 2.0


def test_being_level_is_not_forgotten():
    follower = Follower(2, 0.0)
    follower.fetched(5, 10, 1.0)
    follower.fetched(10, 10, 2.0)
    follower.fetched(10, 11, 3.0)
    assert follower.caught_up_s == 2.0


def test_a_fetch_that_did_not_name_the_partition_never_makes_a_follower_older():
    follower = Follower(2, 5.0)
    follower.was_level(9.0)
    assert follower.caught_up_s == 9.0
    follower.was_level(7.0)
    assert follower.caught_up_s == 9.0
