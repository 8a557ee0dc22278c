"""Round robin: partitions are dealt in turn, and who does not want one is passed over."""

from __future__ import annotations

from kits.assignor_groups import divided, topics
from moldau.client.assignors.interface import Subscription
from moldau.client.assignors.stateless import RoundRobinAssignor, dealt
from moldau.client.records import TopicPartition


def test_two_members_take_turns_over_two_topics():
    assert divided(RoundRobinAssignor(), {"t0": 3, "t1": 3}, {"C0": "t0 t1", "C1": "t0 t1"}) == {
        "C0": "t0p0 t0p2 t1p1",
        "C1": "t0p1 t1p0 t1p2",
    }


def test_members_that_want_more_get_more():
    members = {"C0": "T0", "C1": "T0 T1", "C2": "T0 T1 T2"}
    assert divided(RoundRobinAssignor(), {"T0": 3, "T1": 3, "T2": 3}, members) == {
        "C0": "T0p0",
        "C1": "T0p1 T1p0 T1p2",
        "C2": "T0p2 T1p1 T2p0 T2p1 T2p2",
    }


def test_when_a_member_leaves_everything_may_move():
    members = {"C0": "t0 t1 t2 t3", "C2": "t0 t1 t2 t3"}
    assert divided(RoundRobinAssignor(), dict.fromkeys(("t0", "t1", "t2", "t3"), 2), members) == {
        "C0": "t0p0 t1p0 t2p0 t3p0",
        "C2": "t0p1 t1p1 t2p1 t3p1",
    }


def test_shares_become_as_uneven_as_the_wishes():
    counts = {"t0": 1, "t1": 2, "t2": 3}
    members = {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}
    assert divided(RoundRobinAssignor(), counts, members) == {
        "C0": "t0p0",
        "C1": "t1p0",
        "C2": "t1p1 t2p0 t2p1 t2p2",
    }
    del members["C0"]
    assert divided(RoundRobinAssignor(), counts, members) == {
        "C1": "t0p0 t1p1",
        "C2": "t1p0 t2p0 t2p1 t2p2",
    }


def test_partitions_are_dealt_in_the_order_given():
    cards = [TopicPartition("T1", number) for number in (5, 3, 0, 8, 2, 1, 4, 7, 6, 9)]
    members = {name: Subscription(["T1"]) for name in ("A", "B", "C", "D")}
    numbers = {
        name: [one.partition for one in share] for name, share in dealt(cards, members).items()
    }
    assert numbers == {"A": [5, 2, 6], "B": [3, 1, 9], "C": [0, 4], "D": [8, 7]}


def test_a_topic_that_nobody_wants_or_that_does_not_exist_is_passed_over():
    assert divided(RoundRobinAssignor(), {"t": 1, "unwanted": 5}, {"C1": "t gone"}) == {"C1": "tp0"}


def test_nobody_is_given_anything_in_a_group_of_nobody():
    assert RoundRobinAssignor().assign(topics({"t": 3}), {}) == {}
