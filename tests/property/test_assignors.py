"""What holds for every assignor and every group, however members lie about what they had."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.assignors.choice import assignors_of
from moldau.client.assignors.interface import Subscription
from moldau.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from moldau.client.assignors.sticky_claims import StickyData, encode_sticky
from moldau.client.records import TopicPartition

NAMES = ("range", "roundrobin", "sticky", "sticky-1.1", "cooperative-sticky")
TOPIC_NAMES = ("t0", "t1", "t2", "t3")
RACKS = st.frozensets(st.sampled_from("abc"), max_size=2)
TOPICS = st.dictionaries(st.sampled_from(TOPIC_NAMES), st.lists(RACKS, min_size=1, max_size=7))
CLAIMS = st.lists(
    st.builds(TopicPartition, st.sampled_from((*TOPIC_NAMES, "gone")), st.integers(-1, 8)),
    max_size=12,
).map(tuple)
MEMBER_IDS = st.text("ABCxyz-0123", min_size=1, max_size=4)


@st.composite
def members(draw, same_wishes=False):
    names = draw(st.lists(MEMBER_IDS, min_size=1, max_size=7, unique=True))
    wishes = st.lists(st.sampled_from((*TOPIC_NAMES, "gone")), unique=True, max_size=4)
    common = draw(wishes)
    found = {}
    for name in names:
        claims, generation = draw(CLAIMS), draw(st.integers(-1, 3))
        user_data = draw(
            st.one_of(
                st.just(encode_sticky(StickyData(claims, generation))),
                st.just(encode_sticky(StickyData(claims))),
                st.binary(max_size=8),
                st.none(),
            )
        )
        found[name] = Subscription(
            common if same_wishes else draw(wishes),
            user_data,
            claims,
            generation,
            draw(st.sampled_from((None, "a", "b", "d"))),
            draw(st.sampled_from((None, f"i-{name}"))),
        )
    return found


def wanted(topics, subscriptions):
    wishes = {topic for said in subscriptions.values() for topic in said.topics}
    return {
        TopicPartition(topic, number)
        for topic in wishes & topics.keys()
        for number in range(len(topics[topic]))
    }


def given_out(assignments):
    return [one for assignment in assignments.values() for one in assignment.partitions]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40)
@given(topics=TOPICS, subscriptions=members())
def test_partitions_go_once_and_to_who_wants_them(name, topics, subscriptions):
    found = assignors_of(name)[0].assign(topics, subscriptions)
    assert found.keys() == subscriptions.keys()
    assert len(given_out(found)) == len(set(given_out(found)))
    for member, assignment in found.items():
        assert {one.topic for one in assignment.partitions} <= set(subscriptions[member].topics)
    if name == "cooperative-sticky":
        assert set(given_out(found)) <= wanted(topics, subscriptions)
    else:
        assert set(given_out(found)) == wanted(topics, subscriptions)


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "sticky-1.1"])
@settings(max_examples=40)
@given(topics=TOPICS, subscriptions=members(same_wishes=True))
def test_shares_of_members_with_the_same_wishes_differ_by_one_at_most(name, topics, subscriptions):
    found = assignors_of(name)[0].assign(topics, subscriptions)
    counts = [len(assignment.partitions) for assignment in found.values()]
    assert max(counts) - min(counts) <= 1


def joined_again(subscriptions, assignments, generation):
    """The same members a round later, with what they got."""
    return {
        member: Subscription(
            said.topics,
            encode_sticky(StickyData(tuple(assignments[member].partitions), generation)),
            assignments[member].partitions,
            generation,
            said.rack,
            said.instance_id,
        )
        for member, said in subscriptions.items()
    }


def rackless(subscriptions):
    return {
        name: Subscription(said.topics, said.user_data, said.owned_partitions, said.generation)
        for name, said in subscriptions.items()
    }


def joined_by_newcomers(topics, subscriptions):
    """A group of which half had been assigned everything, and half comes anew."""
    names = list(subscriptions)
    newcomers = set(names[: len(names) // 2])
    before = {m: said for m, said in subscriptions.items() if m not in newcomers}
    after = joined_again(before, StickyAssignor().assign(topics, before), 4)
    return {**{m: Subscription(subscriptions[m].topics) for m in newcomers}, **after}


@settings(max_examples=40)
@given(topics=TOPICS, subscriptions=members(same_wishes=True).map(rackless))
def test_sticky_moves_nothing_when_nothing_changed(topics, subscriptions):
    first = StickyAssignor().assign(topics, subscriptions)
    second = StickyAssignor().assign(topics, joined_again(subscriptions, first, 9))
    assert {m: set(one.partitions) for m, one in second.items()} == {
        m: set(one.partitions) for m, one in first.items()
    }


@settings(max_examples=40)
@given(topics=TOPICS, subscriptions=members())
def test_cooperative_members_never_get_what_another_still_owns(topics, subscriptions):
    group = joined_by_newcomers(topics, subscriptions)
    owners = {one: member for member, said in group.items() for one in said.owned_partitions}
    found = CooperativeStickyAssignor().assign(topics, group)
    for member, assignment in found.items():
        assert all(owners.get(one, member) == member for one in assignment.partitions)


@settings(max_examples=40)
@given(topics=TOPICS, subscriptions=members(same_wishes=True).map(rackless))
def test_cooperative_members_with_the_same_wishes_have_everything_after_two_rounds(
    topics, subscriptions
):
    group = joined_by_newcomers(topics, subscriptions)
    first = CooperativeStickyAssignor().assign(topics, group)
    second = CooperativeStickyAssignor().assign(topics, joined_again(group, first, 5))
    assert set(given_out(second)) == wanted(topics, group)
    counts = [len(assignment.partitions) for assignment in second.values()]
    assert max(counts) - min(counts) <= 1
