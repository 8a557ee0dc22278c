"""Three Python clients behind one face: a consumer that tells what happens to it.

A test asks for a consumer in Kafka's own terms (`Wishes`) and hears in one vocabulary what it was
assigned, what it read, what was refused. Errors go by Kafka's names in the Java spelling without
their ending (`CommitFailed`), which all libraries but librdkafka share. A library is imported only
by the process that uses it.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

Tell = Callable[[str, str], None]
"""Reports an event of a member: its name and its text."""

POLL_S = 0.05
"""Short, because a member looks for commands between polls."""

CLOSE_S = 10
RETRY_MS = 200
"""How long to pause before another try on a broker that is away."""


@dataclass(frozen=True)
class Wishes:
    """What a test wants of a consumer; `tests/java/GroupHost.java` reads the same names."""

    group: str
    topics: str = ""
    """Names with commas between them, or else a pattern:"""
    pattern: str = ""
    assignors: str = "range"
    instance: str = ""
    """A static member's `group.instance.id`."""
    reset: str = "earliest"
    commit: str = "each"
    """`each`: synchronously after every poll that brought records; `none`: only when told to."""
    auto_commit_ms: int = 0
    session_ms: int = 10_000
    """One owner at a time is promised to members that are heard of once in a session. So it is
    longer than a busy machine ever keeps a process waiting."""
    heartbeat_ms: int = 150
    poll_interval_ms: int = 30_000
    metadata_ms: int = 60_000

    @classmethod
    def parsed(cls, parts: Iterable[str]) -> Wishes:
        """Read what `parts` wrote."""
        given = dict(part.split("=", 1) for part in parts)
        kinds = {field.name: int if field.type == "int" else str for field in fields(cls)}
        return cls(**{name: kinds[name](value) for name, value in given.items()})

    def parts(self) -> list[str]:
        """Write each wish as name=value."""
        return [f"{field.name}={getattr(self, field.name)}" for field in fields(self)]


class Read(NamedTuple):
    """A run of offsets of one partition."""

    partition: str
    first: int
    last: int


def place(topic: str, partition: int) -> str:
    """Return the name of a partition's folder, which is how both sides name partitions."""
    return f"{topic}-{partition}"


def split(named: str) -> tuple[str, int]:
    """Take the name of a partition apart."""
    topic, _, partition = named.rpartition("-")
    return topic, int(partition)


def listed(partitions: Iterable[Any]) -> str:
    """Name partitions as every library knows them."""
    return " ".join(sorted(place(each.topic, each.partition) for each in partitions))


def name_of(error: BaseException) -> str:
    """Return the common name of an error."""
    return type(error).__name__.removesuffix("Error").removesuffix("Exception")


class GroupConsumer(ABC):
    """A consumer of a group, whatever library it comes from; used by one thread."""

    def __init__(self, server: str, name: str, wishes: Wishes, tell: Tell) -> None:
        self.server = server
        self.name = name
        self.wishes = wishes
        self.tell = tell

    @abstractmethod
    def subscribe(self, topics: list[str], pattern: str) -> None: ...

    @abstractmethod
    def poll(self) -> list[Read]: ...

    @abstractmethod
    def commit(self) -> None:
        """Commit all positions and return when it is done."""

    @abstractmethod
    def commit_later(self) -> None:
        """Commit all positions; tell `committed` when it is done."""

    @abstractmethod
    def committed(self, partition: str) -> int: ...

    @abstractmethod
    def position(self, partition: str) -> int: ...

    @abstractmethod
    def seek(self, partition: str, offset: int) -> None: ...

    def stall(self, seconds: float) -> None:
        """Be busy with something else than polling."""
        time.sleep(seconds)

    @abstractmethod
    def close(self) -> None: ...


class Librdkafka(GroupConsumer):
    """confluent-kafka. Its errors have names of their own, some of them for the client's side.

    Being fenced is the only fatal one that a consumer of a classic group can meet.
    """

    OWN_NAMES: Mapping[str, str] = {
        "_AUTO_OFFSET_RESET": "NoOffsetForPartition",
        "ILLEGAL_GENERATION": "CommitFailed",
        "UNKNOWN_MEMBER_ID": "CommitFailed",
        "_FATAL": "FencedInstanceId",
    }

    def __init__(self, server: str, name: str, wishes: Wishes, tell: Tell) -> None:
        super().__init__(server, name, wishes, tell)
        import confluent_kafka  # noqa: PLC0415

        self._library = confluent_kafka
        settings = {
            "bootstrap.servers": server,
            "client.id": name,
            "group.id": wishes.group,
            "auto.offset.reset": {"none": "error"}.get(wishes.reset, wishes.reset),
            "partition.assignment.strategy": wishes.assignors,
            "enable.auto.commit": bool(wishes.auto_commit_ms),
            "auto.commit.interval.ms": wishes.auto_commit_ms or 5000,
            "session.timeout.ms": wishes.session_ms,
            "heartbeat.interval.ms": wishes.heartbeat_ms,
            "max.poll.interval.ms": wishes.poll_interval_ms,
            "topic.metadata.refresh.interval.ms": wishes.metadata_ms,
            "reconnect.backoff.max.ms": RETRY_MS,
            "on_commit": self._on_commit,
            "log_level": 2,
        }
        if wishes.instance:
            settings["group.instance.id"] = wishes.instance
        self._consumer = confluent_kafka.Consumer(settings)
        self._told_of_commit = True
        """Automatic and synchronous commits call back too."""

    def subscribe(self, topics: list[str], pattern: str) -> None:
        self._consumer.subscribe(
            [f"^{pattern}"] if pattern else topics,
            on_assign=lambda _, some: self.tell("assigned", listed(some)),
            on_revoke=lambda _, some: self.tell("revoked", listed(some)),
            on_lost=lambda _, some: self.tell("lost", listed(some)),
        )

    def poll(self) -> list[Read]:
        reads = []
        for message in self._consumer.consume(500, POLL_S):
            if error := message.error():
                self.tell("error", self._name(error))
                continue
            offset = message.offset()
            reads.append(Read(place(message.topic(), message.partition()), offset, offset))
        return reads

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except self._library.KafkaException as refused:
            error = refused.args[0]
            if error.code() != self._library.KafkaError._NO_OFFSET:
                raise RefusedError(self._name(error)) from None

    def commit_later(self) -> None:
        self._told_of_commit = False
        self._consumer.commit(asynchronous=True)

    def _on_commit(self, error: Any, _: Any) -> None:
        if not self._told_of_commit:
            self._told_of_commit = True
            self.tell("refused" if error else "committed", self._name(error) if error else "")

    def committed(self, partition: str) -> int:
        asked = self._library.TopicPartition(*split(partition))
        return int(self._consumer.committed([asked], CLOSE_S)[0].offset)

    def position(self, partition: str) -> int:
        return int(
            self._consumer.position([self._library.TopicPartition(*split(partition))])[0].offset
        )

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(self._library.TopicPartition(*split(partition), offset))

    def close(self) -> None:
        self._consumer.close()

    def _name(self, error: Any) -> str:
        plain = "".join(word.capitalize() for word in error.name().split("_"))
        return self.OWN_NAMES.get(error.name(), plain)


class RefusedError(Exception):
    """An error that carries its common name."""


class KafkaPython(GroupConsumer):
    """kafka-python, which (as of 3.0.12) forgets a join that its poll did not see the end of.

    Such a join goes on in the background for the next poll to take its outcome. But that asks first
    whether a join is needed, and one for the sake of a new topic, new partitions or another
    subscription is no longer, once it has been sent. So nobody takes the outcome, heartbeats stay
    off, and the member is thrown out of its group and never knows. No length of a poll helps, since
    a join may begin at the end of it: while one is under way, every poll is told that it is needed.
    """

    POLL_MS = 1000
    """Long, since a poll with a pattern first asks for topics, and has to come to its join."""
    LOOK_MS = 1000
    """It may join before it knows its topic, and be assigned nothing until it looks again."""

    def __init__(self, server: str, name: str, wishes: Wishes, tell: Tell) -> None:
        super().__init__(server, name, wishes, tell)
        import kafka  # noqa: PLC0415
        from kafka.coordinator.assignors import cooperative_sticky, range, roundrobin  # noqa: PLC0415, A004
        from kafka.coordinator.assignors.sticky import sticky_assignor  # noqa: PLC0415

        self._library = kafka
        assignors = {
            "range": range.RangePartitionAssignor,
            "roundrobin": roundrobin.RoundRobinPartitionAssignor,
            "sticky": sticky_assignor.StickyPartitionAssignor,
            "cooperative-sticky": cooperative_sticky.CooperativeStickyAssignor,
        }
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=server,
            client_id=name,
            group_id=wishes.group,
            group_instance_id=wishes.instance or None,
            auto_offset_reset=wishes.reset,
            partition_assignment_strategy=[assignors[one] for one in wishes.assignors.split(",")],
            enable_auto_commit=bool(wishes.auto_commit_ms),
            auto_commit_interval_ms=wishes.auto_commit_ms or 5000,
            session_timeout_ms=wishes.session_ms,
            heartbeat_interval_ms=wishes.heartbeat_ms,
            max_poll_interval_ms=wishes.poll_interval_ms,
            metadata_max_age_ms=min(wishes.metadata_ms, self.LOOK_MS),
            reconnect_backoff_max_ms=RETRY_MS,
        )

    def subscribe(self, topics: list[str], pattern: str) -> None:
        member = self

        class Listener(self._library.ConsumerRebalanceListener):  # type: ignore[name-defined]
            def on_partitions_assigned(self, some: Any) -> None:
                member.tell("assigned", listed(some))

            def on_partitions_revoked(self, some: Any) -> None:
                member.tell("revoked", listed(some))

            def on_partitions_lost(self, some: Any) -> None:
                member.tell("lost", listed(some))

        self._consumer.subscribe(topics, pattern=pattern or None, listener=Listener())

    def poll(self) -> list[Read]:
        coordinator = self._consumer._coordinator
        if coordinator.rejoining:
            coordinator.request_rejoin()
        return runs(self._consumer.poll(timeout_ms=self.POLL_MS))

    def commit(self) -> None:
        self._consumer.commit()

    def commit_later(self) -> None:
        def done(_: Any, answer: Any) -> None:
            failed = isinstance(answer, Exception)
            self.tell("refused" if failed else "committed", name_of(answer) if failed else "")

        self._consumer.commit_async(callback=done)

    def committed(self, partition: str) -> int:
        offset = self._consumer.committed(self._library.TopicPartition(*split(partition)))
        return -1001 if offset is None else int(offset)

    def position(self, partition: str) -> int:
        return int(self._consumer.position(self._library.TopicPartition(*split(partition))))

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(self._library.TopicPartition(*split(partition)), offset)

    def close(self) -> None:
        self._consumer.close(timeout_ms=1000 * CLOSE_S)


def runs(polled: Mapping[Any, list[Any]]) -> list[Read]:
    """Turn what a poll of a Python library returned into runs of offsets."""
    return [
        Read(place(key.topic, key.partition), record.offset, record.offset)
        for key, records in polled.items()
        for record in records
    ]


class Aiokafka(GroupConsumer):
    """aiokafka, whose heartbeats need the loop to run: it runs while a member polls or stalls."""

    def __init__(self, server: str, name: str, wishes: Wishes, tell: Tell) -> None:
        super().__init__(server, name, wishes, tell)
        import aiokafka  # noqa: PLC0415
        from aiokafka.coordinator.assignors import range, roundrobin  # noqa: PLC0415, A004
        from aiokafka.coordinator.assignors.sticky import sticky_assignor  # noqa: PLC0415

        self._library = aiokafka
        assignors = {
            "range": range.RangePartitionAssignor,
            "roundrobin": roundrobin.RoundRobinPartitionAssignor,
            "sticky": sticky_assignor.StickyPartitionAssignor,
            "first-takes-all": self._first_takes_all(),
        }
        self._runner = asyncio.Runner()
        self._later: set[asyncio.Task[None]] = set()
        self._consumer = self._runner.run(
            self._made(
                bootstrap_servers=server,
                client_id=name,
                group_id=wishes.group,
                group_instance_id=wishes.instance or None,
                auto_offset_reset=wishes.reset,
                partition_assignment_strategy=[
                    assignors[one] for one in wishes.assignors.split(",")
                ],
                enable_auto_commit=bool(wishes.auto_commit_ms),
                auto_commit_interval_ms=wishes.auto_commit_ms or 5000,
                session_timeout_ms=wishes.session_ms,
                heartbeat_interval_ms=wishes.heartbeat_ms,
                max_poll_interval_ms=wishes.poll_interval_ms,
                metadata_max_age_ms=wishes.metadata_ms,
            )
        )

    async def _made(self, **settings: Any) -> Any:
        """Make the consumer inside of the loop, as it asks for."""
        consumer = self._library.AIOKafkaConsumer(**settings)
        await consumer.start()
        return consumer

    @staticmethod
    def _first_takes_all() -> Any:
        """Return a user's own assignor: the broker has never heard of it."""
        from aiokafka.coordinator.assignors.roundrobin import (  # noqa: PLC0415
            RoundRobinPartitionAssignor,
        )

        class FirstTakesAll(RoundRobinPartitionAssignor):
            name = "first-takes-all"

            @classmethod
            def assign(cls, cluster: Any, members: Any) -> Any:
                first = min(members)
                given = RoundRobinPartitionAssignor.assign(cluster, {first: members[first]})
                alone = given[first]
                nothing = type(alone)(alone.version, [], alone.user_data)
                return {member: alone if member == first else nothing for member in members}

        return FirstTakesAll

    def subscribe(self, topics: list[str], pattern: str) -> None:
        member = self

        class Listener(self._library.ConsumerRebalanceListener):  # type: ignore[name-defined]
            def on_partitions_assigned(self, some: Any) -> None:
                member.tell("assigned", listed(some))

            def on_partitions_revoked(self, some: Any) -> None:
                member.tell("revoked", listed(some))

        async def inside() -> None:
            self._consumer.subscribe(topics, pattern=pattern or None, listener=Listener())

        self._runner.run(inside())

    def poll(self) -> list[Read]:
        return runs(self._runner.run(self._consumer.getmany(timeout_ms=int(1000 * POLL_S))))

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def commit_later(self) -> None:
        async def later() -> None:
            try:
                await self._consumer.commit()
            except self._library.errors.KafkaError as error:
                self.tell("refused", name_of(error))
            else:
                self.tell("committed", "")

        async def begin() -> None:
            task = asyncio.create_task(later())
            self._later.add(task)
            task.add_done_callback(self._later.discard)

        self._runner.run(begin())

    def committed(self, partition: str) -> int:
        asked = self._library.TopicPartition(*split(partition))
        offset = self._runner.run(self._consumer.committed(asked))
        return -1001 if offset is None else int(offset)

    def position(self, partition: str) -> int:
        asked = self._library.TopicPartition(*split(partition))
        return int(self._runner.run(self._consumer.position(asked)))

    def seek(self, partition: str, offset: int) -> None:
        self._consumer.seek(self._library.TopicPartition(*split(partition)), offset)

    def stall(self, seconds: float) -> None:
        self._runner.run(asyncio.sleep(seconds))

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


LIBRARIES: Mapping[str, type[GroupConsumer]] = {
    "confluent-kafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
