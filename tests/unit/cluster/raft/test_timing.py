"""How long a node waits, and when a request is sent again."""

from random import Random

import pytest

from moldau.cluster.raft.resending import Outgoing
from moldau.cluster.raft.timeouts import Timeouts

TIMEOUTS = Timeouts()


def test_elections_wait_between_once_and_twice_the_setting():
    drawn = [TIMEOUTS.election(Random(seed)) for seed in range(100)]
    assert 1.0 <= min(drawn) < 1.1
    assert 1.9 < max(drawn) < 2.0


def test_split_votes_wait_ever_longer_up_to_a_bound():
    def longest(failures):
        return max(TIMEOUTS.split_vote(failures, Random(seed)) for seed in range(50))

    assert longest(0) < 0.1 < longest(2) < 0.4 < longest(20) <= 2 * TIMEOUTS.backoff_max_s


def test_requests_are_repeated_ever_more_slowly():
    waits = [TIMEOUTS.retry(failures) for failures in (1, 2, 3, 100)]
    assert waits == [0.02, 0.04, 0.08, 1.0]


@pytest.mark.parametrize(
    ("position", "count", "wait_s"),
    [(-1, 0, 0), (-1, 3, 0), (0, 1, 0), (0, 2, 0), (1, 2, 0.5), (1, 4, 0.125), (3, 4, 0.5)],
)
def test_successors_wait_for_their_turn(position, count, wait_s):
    assert TIMEOUTS.handover(position, count) == wait_s


def test_a_node_is_asked_one_thing_at_a_time():
    outgoing = Outgoing(TIMEOUTS.retry)
    assert outgoing.deadline_s == float("inf")
    first = outgoing.begin(2, "request", 5.0)
    assert not outgoing.is_free(2)
    assert outgoing.is_free(3)
    assert outgoing.deadline_s == 5.0
    assert outgoing.take(first).request == "request"
    assert outgoing.take(first) is None
    assert outgoing.is_free(2)


def test_a_request_that_takes_too_long_has_failed():
    outgoing = Outgoing(TIMEOUTS.retry)
    first = outgoing.begin(2, "request", 5.0)
    second = outgoing.begin(3, "request", 6.0)
    outgoing.expire(5.0)
    assert outgoing.take(first) is None
    assert not outgoing.is_free(2)
    outgoing.expire(5.02)
    assert outgoing.is_free(2)
    assert outgoing.take(second) is not None


def test_failures_in_a_row_count_until_one_succeeds():
    outgoing = Outgoing(TIMEOUTS.retry)
    outgoing.failed(2, 0.0)
    outgoing.failed(2, 1.0)
    assert outgoing.resting[2] == 1.04
    outgoing.succeeded(2)
    outgoing.failed(2, 2.0)
    assert outgoing.resting[2] == 2.02


def test_a_lost_connection_ends_what_is_under_way_to_that_node_alone():
    outgoing = Outgoing(TIMEOUTS.retry)
    first, second = outgoing.begin(2, "request", 5.0), outgoing.begin(3, "request", 5.0)
    outgoing.lost(2, 1.0)
    assert outgoing.take(first) is None
    assert outgoing.take(second) is not None
    assert not outgoing.is_free(2)
