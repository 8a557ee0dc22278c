"""From the setting to assignors: names, Java's class names, the user's own; the rest is refused."""

from __future__ import annotations

import pytest

from kits.assignor_groups import divided
from moldau.base.errors import ConfigError
from moldau.client.assignors.choice import BUILT_IN, assignors_of
from moldau.client.assignors.interface import Assignment, PartitionAssignor, RebalanceProtocol
from moldau.client.assignors.stateless import RangeAssignor
from moldau.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from moldau.client.records import TopicPartition


class FirstTakesAll(PartitionAssignor):
    name = "first-takes-all"

    def assign(self, topics, subscriptions):
        everything = [TopicPartition(t, p) for t in topics for p in range(len(topics[t]))]
        first = min(subscriptions)
        return {m: Assignment(everything if m == first else ()) for m in subscriptions}


def test_names_are_taken_in_their_order():
    assert [type(one) for one in assignors_of(("range", "cooperative-sticky"))] == [
        RangeAssignor,
        CooperativeStickyAssignor,
    ]


def test_names_may_stand_in_one_text():
    assert [one.name for one in assignors_of("roundrobin, sticky")] == ["roundrobin", "sticky"]


def test_names_of_java_classes_mean_ours():
    (found,) = assignors_of("org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
    assert isinstance(found, CooperativeStickyAssignor)


def test_every_consumer_has_assignors_of_its_own():
    assert assignors_of("sticky")[0] is not assignors_of("sticky")[0]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_is_complete(name):
    (found,) = assignors_of(name)
    assert found.name in BUILT_IN
    assert RebalanceProtocol.EAGER in found.protocols
    assert divided(found, {"t": 1}, {"a": "t"}) == {"a": "tp0"}


def test_the_old_rule_goes_by_the_name_the_group_knows():
    (found,) = assignors_of("sticky-1.1")
    assert isinstance(found, StickyAssignor)
    assert found.name == "sticky"


@pytest.mark.parametrize("given", [FirstTakesAll, FirstTakesAll()], ids=["class", "object"])
def test_an_assignor_of_the_users_own_is_taken(given):
    found, usual = assignors_of([given, "range"])
    assert (found.metadata(["t"]), found.version) == (None, 0)
    assert found.protocols == (RebalanceProtocol.EAGER,)
    found.on_assignment(Assignment(), 1)
    assert divided(found, {"t": 2}, {"a": "t", "b": "t"}) == {"a": "tp0 tp1", "b": ""}
    assert isinstance(usual, RangeAssignor)


@pytest.mark.parametrize("given", ["rang", "", ["range", 5], [object()]])
def test_what_is_no_assignor_is_refused(given):
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        assignors_of(given)
