"""Sticky: the worked examples, what members remember, and what they may not get."""

from __future__ import annotations

import pytest

from kits.assignor_groups import divided, next_round, partitions, shares, topics
from moldau.client.assignors.interface import Assignment, Subscription
from moldau.client.assignors.sticky import StickyAssignor, StickyRule
from moldau.client.assignors.sticky_claims import StickyData, decode_sticky, encode_sticky
from moldau.client.records import TopicPartition

FOUR_TOPICS = dict.fromkeys(("t0", "t1", "t2", "t3"), 2)
ALL_FOUR = "t0 t1 t2 t3"
FIRST_SHARES = {
    "C0": "t0p0 t1p1 t3p0",
    "C1": "t0p1 t2p0 t3p1",
    "C2": "t1p0 t2p1",
}
STAIRS = {"t0": 1, "t1": 2, "t2": 3}
STAIRS_SHARES = {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}

RULES = pytest.mark.parametrize("rule", StickyRule)


@RULES
def test_new_members_get_even_shares(rule):
    members = dict.fromkeys(("C0", "C1", "C2"), ALL_FOUR)
    assert divided(StickyAssignor(rule), FOUR_TOPICS, members) == FIRST_SHARES


def test_what_a_member_leaves_behind_is_shared_out_and_nothing_else_moves():
    found = next_round(
        StickyAssignor(), FOUR_TOPICS, {"C0": ALL_FOUR, "C2": ALL_FOUR}, FIRST_SHARES
    )
    assert found == {"C0": "t0p0 t0p1 t1p1 t3p0", "C2": "t1p0 t2p0 t2p1 t3p1"}


def test_what_a_member_leaves_behind_goes_elsewhere_by_the_rule_of_kafka_1_1():
    found = next_round(
        StickyAssignor(StickyRule.KAFKA_1_1),
        FOUR_TOPICS,
        {"C0": ALL_FOUR, "C2": ALL_FOUR},
        FIRST_SHARES,
    )
    assert found == {"C0": "t0p0 t1p1 t2p0 t3p0", "C2": "t0p1 t1p0 t2p1 t3p1"}


@RULES
def test_members_with_different_wishes_get_shares_as_even_as_can_be(rule):
    members = {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}
    assert divided(StickyAssignor(rule), STAIRS, members) == STAIRS_SHARES


@RULES
def test_members_with_different_wishes_keep_theirs_when_one_leaves(rule):
    found = next_round(
        StickyAssignor(rule), STAIRS, {"C1": "t0 t1", "C2": "t0 t1 t2"}, STAIRS_SHARES
    )
    assert found == {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


def test_a_member_sends_what_it_got_and_when():
    assignor = StickyAssignor()
    assert assignor.metadata(["t"]) is None
    assignor.on_assignment(Assignment(partitions("tp1 tp0")), 4)
    assert decode_sticky(assignor.metadata(["t"])) == (tuple(partitions("tp1 tp0")), 4)


def test_the_first_form_of_user_data_has_no_generation():
    data = encode_sticky(StickyData(tuple(partitions("tp1"))))
    assert decode_sticky(data) == (tuple(partitions("tp1")), None)


@pytest.mark.parametrize(
    "garbage", [None, b"", b"\x00", b"\xff" * 20, b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\x00\x01t"]
)
def test_what_cannot_be_read_is_no_memory(garbage):
    assert decode_sticky(garbage) == StickyData()


def remembering(topics_wanted, generation, claims):
    data = encode_sticky(StickyData(tuple(claims), generation))
    return Subscription(topics_wanted, data, (), generation)


def test_the_later_generation_keeps_what_two_claim():
    claims = partitions("tp0 tp1")
    subscriptions = {
        "late": remembering(["t"], 5, claims),
        "early": remembering(["t"], 4, claims + partitions("tp2")),
    }
    found = shares(StickyAssignor().assign(topics({"t": 4}), subscriptions))
    assert found == {"early": "tp2 tp3", "late": "tp0 tp1"}


def test_what_two_claim_in_one_generation_neither_keeps():
    subscriptions = {
        "a": remembering(["t"], 5, partitions("tp0 tp1")),
        "b": remembering(["t"], 5, partitions("tp0 tp2")),
        "c": remembering(["t"], 5, []),
    }
    found = shares(StickyAssignor().assign(topics({"t": 3}), subscriptions))
    assert found == {"a": "tp1", "b": "tp2", "c": "tp0"}


def test_generations_in_user_data_count_though_the_subscription_has_none():
    """As clients before KIP-792 send it; Kafka 4.3 lets whoever comes last win."""
    claims = partitions("tp0 tp1")
    subscriptions = {
        name: Subscription(["t"], encode_sticky(StickyData(tuple(claims), generation)))
        for name, generation in (("a", 4), ("b", 5), ("c", 3))
    }
    found = shares(StickyAssignor().assign(topics({"t": 6}), subscriptions))
    assert found["b"] == "tp0 tp1"


def test_partitions_that_are_gone_and_nonsense_are_forgotten():
    claims = [TopicPartition("t", number) for number in (9, -1, 0, 0)]
    subscriptions = {"a": remembering(["t"], 1, claims), "b": Subscription(["t"])}
    found = shares(StickyAssignor().assign(topics({"t": 2}), subscriptions))
    assert found == {"a": "tp0", "b": "tp1"}


@RULES
def test_a_member_that_wants_nothing_gets_nothing(rule):
    subscriptions = {"a": Subscription([]), "b": Subscription(["t"]), "c": Subscription(["t"])}
    found = shares(StickyAssignor(rule).assign(topics({"t": 3}), subscriptions))
    assert (found["a"], len(found["b"].split()) + len(found["c"].split())) == ("", 3)


def test_a_member_that_lags_behind_does_not_get_back_what_it_wants_no_more():
    subscriptions = {
        "lags": remembering(["t0"], 1, partitions("t1p0 t1p1 t1p2")),
        "b": remembering(["t0", "t1"], 2, partitions("t1p0 t1p1 t1p2")),
        "c": remembering(["t0", "t1"], 2, []),
    }
    found = shares(StickyAssignor().assign(topics({"t0": 1, "t1": 3}), subscriptions))
    assert found["lags"] == "t0p0"


@RULES
def test_nobody_is_given_anything_in_a_group_of_nobody(rule):
    assert StickyAssignor(rule).assign(topics({"t": 3}), {}) == {}
