"""The worked examples of the assignors, seen from real groups.

The leader of a group assigns, so the outcome shows that the coordinator hands on every member's
subscription, in all versions, and gives every member its part. Assignors sort by member id, which
the coordinator begins with the client id: C0 comes before C1. All members of an example must be in
the first generation, so this broker waits for late ones; all examples run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat.group_clients import Wishes
from compat.group_scene import NEWEST_JAVA, OLDEST_JAVA, Scene, scene_at
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic

pytestmark = pytest.mark.java(CURRENT, OLDEST)

LATE_MS = 5_000
"""How long after another a member may come: eighty start at once, perhaps on a busy machine."""

Parts = dict[str, str]
"""What each member subscribes to (`t0 t1`) or owns (`t0p0 t0p1`)."""


@dataclass(frozen=True)
class Example:
    """A group, what its members get, and what is left when one of them has gone."""

    assignor: str
    partitions: dict[str, int]
    subscribed: Parts
    owned: Parts
    leaver: str = ""
    afterwards: Parts = field(default_factory=dict)
    names_matter: bool = False
    """Kafka 1.1's sticky assignor goes through partitions in the order of their hashes."""


def each(topics: str, *members: str) -> Parts:
    return dict.fromkeys(members, topics)


def some(topics: str, partitions: range) -> str:
    return " ".join(f"{topic}p{partition}" for topic in topics.split() for partition in partitions)


FOUR_OF_TWO = dict.fromkeys(("t0", "t1", "t2", "t3"), 2)
THREE_ON_FOUR = each("t0 t1 t2 t3", "C0", "C1", "C2")
ONE_TWO_THREE = {"t0": 1, "t1": 2, "t2": 3}
MORE_AND_MORE = {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}
STICKY_START = {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
STICKY_UNEQUAL = Example(
    "sticky", ONE_TWO_THREE, MORE_AND_MORE,
    {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"},
    "C0", {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"},
)  # fmt: skip

BY_ALL = {
    "range, 10 partitions": Example(
        "range", {"t": 10}, each("t", "C1", "C2", "C3"),
        {"C1": some("t", range(4)), "C2": some("t", range(4, 7)), "C3": some("t", range(7, 10))},
    ),
    "range, 11 partitions": Example(
        "range", {"t": 11}, each("t", "C1", "C2", "C3"),
        {"C1": some("t", range(4)), "C2": some("t", range(4, 8)), "C3": some("t", range(8, 11))},
    ),
    "range, two topics of 10": Example(
        "range", {"t0": 10, "t1": 10}, each("t0 t1", "C1", "C2", "C3"),
        {"C1": some("t0 t1", range(4)), "C2": some("t0 t1", range(4, 7)),
         "C3": some("t0 t1", range(7, 10))},
    ),
    "range, two topics of 3": Example(
        "range", {"t0": 3, "t1": 3}, each("t0 t1", "C1", "C2"),
        {"C1": "t0p0 t0p1 t1p0 t1p1", "C2": "t0p2 t1p2"},
    ),
    "range, a topic each": Example(
        "range", {"t0": 3, "t1": 3}, {"C1": "t0", "C2": "t1"},
        {"C1": some("t0", range(3)), "C2": some("t1", range(3))},
    ),
    "round robin, two topics of 3": Example(
        "roundrobin", {"t0": 3, "t1": 3}, each("t0 t1", "C0", "C1"),
        {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"},
    ),
    "round robin, unequal subscriptions": Example(
        "roundrobin", {"t0": 3, "t1": 3, "t2": 3}, MORE_AND_MORE,
        {"C0": "t0p0", "C1": "t0p1 t1p0 t1p2", "C2": "t0p2 t1p1 t2p0 t2p1 t2p2"},
    ),
    "round robin, one leaves": Example(
        "roundrobin", FOUR_OF_TWO, THREE_ON_FOUR,
        {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"},
        "C1", {"C0": some("t0 t1 t2 t3", range(1)), "C2": some("t0 t1 t2 t3", range(1, 2))},
    ),
    "round robin, one of unequal leaves": Example(
        "roundrobin", ONE_TWO_THREE, MORE_AND_MORE,
        {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"},
        "C0", {"C1": "t0p0 t1p1", "C2": "t1p0 t2p0 t2p1 t2p2"},
    ),
}  # fmt: skip
EXAMPLES = {
    "confluent-kafka": BY_ALL,
    NEWEST_JAVA: {
        **BY_ALL,
        "sticky, one leaves": Example(
            "sticky", FOUR_OF_TWO, THREE_ON_FOUR, STICKY_START,
            "C1", {"C0": "t0p0 t0p1 t1p1 t3p0", "C2": "t1p0 t2p0 t2p1 t3p1"},
        ),
        "sticky, one of unequal leaves": STICKY_UNEQUAL,
    },
    OLDEST_JAVA: {
        "sticky, one leaves": Example(
            "sticky", FOUR_OF_TWO, THREE_ON_FOUR, STICKY_START,
            "C1", {"C0": "t0p0 t1p1 t2p0 t3p0", "C2": "t0p1 t1p0 t2p1 t3p1"},
            names_matter=True,
        ),
        "sticky, one of unequal leaves": STICKY_UNEQUAL,
    },
}  # fmt: skip


TWENTY = [f"C{number:02}" for number in range(20)]
EXAMPLES[NEWEST_JAVA]["range, twenty on a hundred"] = Example(
    "range", {"t": 100}, each("t", *TWENTY),
    {name: some("t", range(5 * place, 5 * place + 5)) for place, name in enumerate(TWENTY)},
)  # fmt: skip


class Troupe:
    """The members of one example, at work; its group and its topics carry a name of their own."""

    def __init__(self, scene: Scene, client: str, example: Example) -> None:
        self.example = example
        self._name = fresh_topic("example")
        self._topic_prefix = "" if example.names_matter else f"{self._name}."
        create_topics(scene, {f"{self._topic_prefix}{t}": n for t, n in example.partitions.items()})
        self.members = {
            name: scene.host(client).join(f"{name}.{self._name}", self._wishes(topics))
            for name, topics in example.subscribed.items()
        }

    def _wishes(self, topics: str) -> Wishes:
        named = ",".join(f"{self._topic_prefix}{topic}" for topic in topics.split())
        return Wishes(self._name, named, "", self.example.assignor, session_ms=10_000)

    def expect(self, owned: Parts) -> None:
        """Wait until everybody owns what it must."""
        for name, parts in owned.items():
            member = self.members[name]
            expected = {f"{self._topic_prefix}{part.replace('p', '-')}" for part in parts.split()}
            member.wait(lambda: member.owned == expected, f"owns {parts}")  # noqa: B023

    def gifts(self) -> list[int]:
        """Return how often each member was given something."""
        return [
            sum(bool(event.partitions) for event in member.told("assigned"))
            for member in self.members.values()
        ]


def create_topics(scene: Scene, partitions: dict[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": scene.server})
    created = admin.create_topics([NewTopic(name, many, 1) for name, many in partitions.items()])
    for future in created.values():
        future.result(30)


@pytest.fixture(scope="module")
def troupes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Troupe]]:
    """All examples at work on one broker."""
    settings = {"group.initial.rebalance.delay.ms": str(LATE_MS)}
    directory = tmp_path_factory.mktemp("examples")
    with (
        make_broker(kind_under_test(), directory, settings) as broker,
        scene_at(broker.address, directory) as scene,
    ):
        yield {
            (client, about): Troupe(scene, client, example)
            for client, examples in EXAMPLES.items()
            for about, example in examples.items()
        }


@pytest.mark.parametrize(
    ("client", "about"),
    [(client, about) for client, examples in EXAMPLES.items() for about in examples],
)
def test_an_example_comes_out(client, about, troupes):
    troupe = troupes[client, about]
    troupe.expect(troupe.example.owned)
    assert troupe.gifts() == [1] * len(troupe.members), "all were in the first generation"
    if troupe.example.leaver:
        troupe.members[troupe.example.leaver].leave()
        troupe.expect(troupe.example.afterwards)
