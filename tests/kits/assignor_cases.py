"""Random groups for the assignors: members, topics and racks, and what the members had before.

Everything is drawn from one seed, so that a case that differs can be drawn again. What members say
they had is at times lopsided, of a topic they gave up or that is gone, from a generation before the
latest, claimed by two, in the first form of the user data, or garbage.

Three things are not drawn, because Kafka 4.3.1's sticky assignors get them wrong; ours have tests
of their own for them. A member that wants no topic is given partitions all the same. A member that
lags behind and claims what it no longer wants gets it back, or the assignor fails. Claims of
partitions that the topic no longer has make it fail, or give partitions twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from kits.assignor_oracle import Case
from moldau.client.assignors.interface import NO_GENERATION, Subscription
from moldau.client.assignors.sticky_claims import (
    StickyData,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from moldau.client.records import TopicPartition

RACKS = ("a", "b", "c", "d")
MISSING = "missing"
"""A topic that does not exist."""


def random_cases(assignor: str, seed: int, count: int) -> Iterator[Case]:
    """Draw cases; the same for the same seed."""
    for number in range(count):
        yield _Group(assignor, Random(f"{assignor} {seed} {number}")).case()


def first_rule_cases(seed: int, count: int) -> Iterator[Case]:
    """Draw cases that Kafka 1.1 knew: all topics exist, nothing is claimed twice, no racks."""
    for case in random_cases("sticky", seed, count):
        wishes = {
            name: [topic for topic in said.topics if topic != MISSING] or [*case.topics]
            for name, said in case.subscriptions.items()
        }
        wanted = {topic for topics in wishes.values() for topic in topics}
        claimed: set[TopicPartition] = set()
        subscriptions = {}
        for name, said in case.subscriptions.items():
            had = decode_sticky(said.user_data).partitions
            had = tuple(one for one in had if one not in claimed and one.topic in wanted)
            claimed.update(had)
            user_data = encode_sticky(StickyData(had)) if had else None
            subscriptions[name] = Subscription(wishes[name], user_data)
        topics = {topic: racks for topic, racks in case.topics.items() if topic in wanted}
        yield Case("sticky", topics, subscriptions)


class _Group:
    """One group, as its leader sees it."""

    def __init__(self, assignor: str, random: Random) -> None:
        self._assignor = assignor
        self._random = random
        self._racks = RACKS[: random.choice((0, 0, 2, 3, 4))]
        self._topics = self._drawn_topics()
        stem = random.choice(("C", "consumer-", "member-of-a-group-"))
        numbers = random.sample(range(100), random.choice((1, 2, 3, 3, 4, 5, 8, 14, 26)))
        self._members = [f"{stem}{number}" for number in numbers]
        self._wishes = self._drawn_wishes()
        self._generation = random.randint(1, 5)
        self._generations = dict.fromkeys(self._members, self._generation)
        self._claims: dict[str, list[TopicPartition]] = {name: [] for name in self._members}

    def case(self) -> Case:
        """Draw what remains, and put it together."""
        if self._chance(0.85):
            self._draw_claims()
        if self._chance(0.25):
            self._draw_contradictions()
        static = self._chance(0.2)
        return Case(
            self._assignor,
            self._topics,
            {name: self._subscription(name, static) for name in self._members},
        )

    def _chance(self, likelihood: float) -> bool:
        return self._random.random() < likelihood

    def _drawn_topics(self) -> dict[str, list[frozenset[str]]]:
        most = self._random.choice((3, 3, 6, 30))
        alike = self._random.randint(1, most) if self._chance(0.3) else None
        factor = min(self._random.randint(1, 3), len(self._racks))
        return {
            f"t{number}": [
                frozenset(self._random.sample(self._racks, factor))
                for _ in range(alike or self._random.randint(1, most))
            ]
            for number in range(self._random.randint(1, 6))
        }

    def _drawn_wishes(self) -> dict[str, list[str]]:
        known = [*self._topics, MISSING] if self._chance(0.2) else list(self._topics)
        if self._chance(0.5):
            all_want = self._random.sample(known, self._random.randint(1, len(known)))
            return {name: self._random.sample(all_want, len(all_want)) for name in self._members}
        least = 1 if "sticky" in self._assignor else 0
        return {
            name: self._random.sample(known, self._random.randint(least, len(known)))
            for name in self._members
        }

    def _draw_claims(self) -> None:
        """Give most partitions to members that were there before, and to some that left."""
        newcomers = self._random.randint(0, len(self._members) // 2)
        holders = self._members[newcomers:] + ["gone"] * self._random.choice((0, 0, 1, 2))
        lopsided, faithful = self._chance(0.3), self._chance(0.7)
        claims: dict[str, list[TopicPartition]] = {name: [] for name in holders}
        for topic, partitions in {**self._topics, MISSING: range(1)}.items():
            takers = [
                name
                for name in holders
                if not faithful or name == "gone" or topic in self._wishes[name]
            ]
            for partition in range(len(partitions)):
                if takers and self._chance(0.9):
                    first = lopsided and self._chance(0.5)
                    taker = takers[0] if first else self._random.choice(takers)
                    claims[taker].append(TopicPartition(topic, partition))
        self._claims.update({name: had for name, had in claims.items() if name != "gone"})

    def _draw_contradictions(self) -> None:
        """Let members lag behind, and claim what others claim too."""
        for name in self._members:
            if self._chance(0.4):
                self._generations[name] -= self._random.randint(1, 2)
            others = self._claims[self._random.choice(self._members)]
            for partition in self._random.sample(others, len(others) // 2):
                if partition not in self._claims[name] and self._chance(0.4):
                    self._claims[name].append(partition)
        for claims in self._claims.values():
            self._random.shuffle(claims)

    def _subscription(self, name: str, static: bool) -> Subscription:
        topics = self._wishes[name]
        rack = self._random.choice((*self._racks, *self._racks, None))
        instance_id = (
            f"i{self._random.randrange(1000)}-{name}" if static and self._chance(0.7) else None
        )
        generation = NO_GENERATION if self._chance(0.1) else self._generations[name]
        owned = self._claims[name]
        if generation < self._generation:
            owned = [one for one in owned if one.topic in topics]
        if self._assignor == "sticky":
            user_data = self._sticky_data(owned, generation)
            return Subscription(topics, user_data, (), generation, rack, instance_id)
        if self._assignor == "cooperative-sticky":
            user_data = encode_cooperative(generation)
            if generation == NO_GENERATION:
                user_data = self._random.choice((user_data, None, b"?"))
            return Subscription(topics, user_data, owned, generation, rack, instance_id)
        return Subscription(topics, None, (), NO_GENERATION, rack, instance_id)

    def _sticky_data(self, owned: list[TopicPartition], generation: int) -> bytes | None:
        if generation == NO_GENERATION:
            return encode_sticky(StickyData(tuple(owned)))
        if self._chance(0.03):
            return self._random.randbytes(self._random.randint(0, 9))
        if self._chance(0.03) or not owned:
            return None
        return encode_sticky(StickyData(tuple(owned), generation))
