"""Range: runs of each topic, alike for topics of one size, near to the members where racks tell."""

from __future__ import annotations

from kits.assignor_groups import divided, shares, topics
from moldau.client.assignors.interface import Subscription
from moldau.client.assignors.stateless import RangeAssignor


def run_of(topic, first, last):
    return " ".join(f"{topic}p{number}" for number in range(first, last + 1))


def test_ten_partitions_are_cut_for_three_members():
    assert divided(RangeAssignor(), {"t": 10}, {"C1": "t", "C2": "t", "C3": "t"}) == {
        "C1": run_of("t", 0, 3),
        "C2": run_of("t", 4, 6),
        "C3": run_of("t", 7, 9),
    }


def test_eleven_partitions_are_cut_for_three_members():
    assert divided(RangeAssignor(), {"t": 11}, {"C1": "t", "C2": "t", "C3": "t"}) == {
        "C1": run_of("t", 0, 3),
        "C2": run_of("t", 4, 7),
        "C3": run_of("t", 8, 10),
    }


def test_two_topics_of_ten_are_cut_alike():
    members = dict.fromkeys(("C1", "C2", "C3"), "t0 t1")
    assert divided(RangeAssignor(), {"t0": 10, "t1": 10}, members) == {
        "C1": f"{run_of('t0', 0, 3)} {run_of('t1', 0, 3)}",
        "C2": f"{run_of('t0', 4, 6)} {run_of('t1', 4, 6)}",
        "C3": f"{run_of('t0', 7, 9)} {run_of('t1', 7, 9)}",
    }


def test_two_topics_of_three_give_the_first_of_two_members_twice_as_much():
    assert divided(RangeAssignor(), {"t0": 3, "t1": 3}, {"C1": "t0 t1", "C2": "t0 t1"}) == {
        "C1": "t0p0 t0p1 t1p0 t1p1",
        "C2": "t0p2 t1p2",
    }


def test_each_gets_all_of_a_topic_that_it_alone_wants():
    assert divided(RangeAssignor(), {"T0": 3, "T1": 3}, {"C1": "T0", "C2": "T1"}) == {
        "C1": "T0p0 T0p1 T0p2",
        "C2": "T1p0 T1p1 T1p2",
    }


def test_a_hundred_partitions_are_five_each_for_twenty_members():
    members = {f"C{number:02}": "t" for number in range(20)}
    found = divided(RangeAssignor(), {"t": 100}, members)
    assert [len(share.split()) for share in found.values()] == [5] * 20


def test_a_topic_that_does_not_exist_is_passed_over():
    assert divided(RangeAssignor(), {"t": 1}, {"C1": "t gone", "C2": "gone"}) == {
        "C1": "tp0",
        "C2": "",
    }


def test_static_members_are_served_first_and_keep_their_place_under_a_new_id():
    def found(member_id):
        subscriptions = {
            "b": Subscription(["t"]),
            member_id: Subscription(["t"], instance_id="static"),
        }
        return shares(RangeAssignor().assign(topics({"t": 3}), subscriptions))

    assert found("a")["a"] == found("z")["z"] == "tp0 tp1"


def test_members_get_partitions_of_their_rack_where_that_keeps_their_number():
    racks = {"t": [frozenset("a"), frozenset("b"), frozenset("a"), frozenset("b")]}
    subscriptions = {
        "C1": Subscription(["t"], rack="b"),
        "C2": Subscription(["t"], rack="a"),
    }
    assert shares(RangeAssignor().assign(racks, subscriptions)) == {
        "C1": "tp1 tp3",
        "C2": "tp0 tp2",
    }


def test_topics_of_one_size_stay_together_where_racks_count():
    racks = {
        "t0": [frozenset("a"), frozenset("b")],
        "t1": [frozenset("b"), frozenset("b")],
    }
    subscriptions = {
        "C1": Subscription(["t0", "t1"], rack="a"),
        "C2": Subscription(["t0", "t1"], rack="b"),
    }
    found = shares(RangeAssignor().assign(racks, subscriptions))
    assert found == {"C1": "t0p0 t1p0", "C2": "t0p1 t1p1"}


def test_nobody_is_given_anything_in_a_group_of_nobody():
    assert RangeAssignor().assign(topics({"t": 3}), {}) == {}
