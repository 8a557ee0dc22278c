"""Our assignors divide as those of Kafka's Java client do, over thousands of random groups."""

from __future__ import annotations

import pytest

from kafka_harness.distribution import CURRENT, OLDEST
from kits.assignor_cases import first_rule_cases, random_cases
from kits.assignor_oracle import Case, as_sets, first_java_assignments, java_assignments, java_bytes
from moldau.client.assignors.choice import assignors_of
from moldau.client.assignors.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.client.assignors.interface import Assignment, Subscription
from moldau.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor, StickyRule
from moldau.client.assignors.sticky_claims import decode_sticky, encode_sticky
from moldau.client.records import TopicPartition

SEED = 431
TOPICS = {"t0": [frozenset[str]()]}
MEMBER = Subscription(
    ["zeta", "alpha"],
    b"\x01\x02",
    [TopicPartition("zeta", 4), TopicPartition("alpha", 1), TopicPartition("zeta", 0)],
    7,
    "rack-a",
)
ASSIGNED = Assignment(MEMBER.owned_partitions, MEMBER.user_data)


def differences(cases, expected, make):
    return [
        (case.line(), java, ours)
        for case, java in zip(cases, expected, strict=True)
        if (ours := as_sets(make().assign(case.topics, case.subscriptions))) != java
    ]


@pytest.mark.java(CURRENT)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("range", 300),
        ("roundrobin", 300),
        ("sticky", 300),
        ("cooperative-sticky", 300),
        *(
            pytest.param(name, 2000, marks=pytest.mark.long)
            for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
        ),
    ],
)
def test_shares_are_those_of_kafka_4_3(name, count):
    cases = list(random_cases(name, SEED, count))
    found = differences(cases, java_assignments(cases), lambda: assignors_of(name)[0])
    assert found[:1] == []


@pytest.mark.java(OLDEST)
@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.long)])
def test_shares_by_the_first_sticky_rule_are_those_of_kafka_1_1(count):
    cases = list(first_rule_cases(SEED, count))
    expected = first_java_assignments(cases)
    found = differences(cases, expected, lambda: StickyAssignor(StickyRule.KAFKA_1_1))
    assert found[:1] == []


def told_by_java(*kinds):
    return java_bytes([Case(kind, TOPICS, {"member": MEMBER}) for kind in kinds])


@pytest.mark.java(CURRENT)
def test_members_send_the_bytes_that_kafka_4_3_sends():
    subscription, assignment, generation = told_by_java(
        "subscription bytes", "assignment bytes", "cooperative-sticky bytes"
    )
    cooperative = CooperativeStickyAssignor()
    cooperative.on_assignment(ASSIGNED, MEMBER.generation)
    assert encode_subscription(MEMBER) == subscription
    assert encode_assignment(ASSIGNED) == assignment
    assert cooperative.metadata(MEMBER.topics) == generation


@pytest.mark.java(CURRENT)
def test_sticky_members_remember_as_kafka_4_3_does_but_for_the_order_of_topics():
    (theirs,) = told_by_java("sticky bytes")
    sticky = StickyAssignor()
    sticky.on_assignment(ASSIGNED, MEMBER.generation)
    ours = sticky.metadata(MEMBER.topics)
    read = decode_sticky(theirs)
    assert (set(read.partitions), read.generation) == (set(MEMBER.owned_partitions), 7)
    assert encode_sticky(read) == theirs
    assert decode_sticky(ours).generation == 7
    assert set(decode_sticky(ours).partitions) == set(read.partitions)


@pytest.mark.java(CURRENT)
def test_what_kafka_4_3_sends_is_read():
    subscription, assignment = told_by_java("subscription bytes", "assignment bytes")
    read = decode_subscription(subscription)
    assert (sorted(read.topics), read.user_data, read.generation, read.rack) == (
        sorted(MEMBER.topics), MEMBER.user_data, MEMBER.generation, MEMBER.rack,
    )  # fmt: skip
    assert set(read.owned_partitions) == set(MEMBER.owned_partitions)
    assert decode_assignment(assignment).user_data == ASSIGNED.user_data
    assert set(decode_assignment(assignment).partitions) == set(MEMBER.owned_partitions)
