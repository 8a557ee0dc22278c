"""Cooperative sticky: what moves waits a round, nothing is with two members at once."""

from __future__ import annotations

from kits.assignor_groups import divided, next_round, partitions, shares, topics
from moldau.client.assignors.interface import Assignment, RebalanceProtocol, Subscription
from moldau.client.assignors.sticky import CooperativeStickyAssignor
from moldau.client.assignors.sticky_claims import encode_cooperative


def test_it_serves_both_ways_of_handing_over():
    assert set(CooperativeStickyAssignor.protocols) == set(RebalanceProtocol)


def test_new_members_get_everything_at_once():
    assert divided(CooperativeStickyAssignor(), {"t": 3}, {"a": "t", "b": "t"}) == {
        "a": "tp0 tp2",
        "b": "tp1",
    }


def test_what_shall_move_is_first_given_up_and_given_in_the_next_round():
    members = {"a": "t", "b": "t"}
    first = next_round(CooperativeStickyAssignor(), {"t": 4}, members, {"a": "tp0 tp1 tp2 tp3"}, 1)
    assert first == {"a": "tp0 tp1", "b": ""}
    second = next_round(CooperativeStickyAssignor(), {"t": 4}, members, first, 2)
    assert second == {"a": "tp0 tp1", "b": "tp2 tp3"}


def test_what_shall_move_waits_also_where_wishes_differ():
    members = {"a": "t u", "b": "t", "c": "u"}
    before = {"a": "tp0 tp1 tp2 tp3 up0"}
    first = next_round(CooperativeStickyAssignor(), {"t": 4, "u": 1}, members, before, 1)
    kept = {one for share in first.values() for one in share.split()}
    assert first["b"] == ""
    assert set(first["a"].split()) < set(before["a"].split())
    assert kept == set(first["a"].split()) | set(first["c"].split())
    second = next_round(CooperativeStickyAssignor(), {"t": 4, "u": 1}, members, first, 2)
    assert sorted(one for share in second.values() for one in share.split()) == sorted(
        before["a"].split()
    )


def test_what_a_gone_member_had_goes_on_at_once():
    before = {"a": "tp0 tp1", "gone": "tp2 tp3"}
    found = next_round(CooperativeStickyAssignor(), {"t": 4}, {"a": "t", "b": "t"}, before)
    assert found == {"a": "tp0 tp1", "b": "tp2 tp3"}


def test_a_member_sends_the_generation_it_was_assigned_in():
    assignor = CooperativeStickyAssignor()
    assert assignor.metadata([]) == encode_cooperative(-1)
    assignor.on_assignment(Assignment(partitions("tp1")), 9)
    assert assignor.metadata([]) == encode_cooperative(9)


def test_the_generation_in_user_data_counts_where_the_subscription_has_none():
    claims = partitions("tp0 tp1")
    subscriptions = {
        name: Subscription(["t"], encode_cooperative(generation), claims)
        for name, generation in (("a", 4), ("b", 5), ("c", 3))
    }
    found = shares(CooperativeStickyAssignor().assign(topics({"t": 6}), subscriptions))
    assert found["b"] == "tp0 tp1"


def test_garbage_in_user_data_is_the_oldest_generation():
    claims = partitions("tp0")
    subscriptions = {
        "a": Subscription(["t"], b"???????", claims),
        "b": Subscription(["t"], None, claims, 3),
    }
    found = shares(CooperativeStickyAssignor().assign(topics({"t": 2}), subscriptions))
    assert found["b"] == "tp0"
