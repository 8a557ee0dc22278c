"""Admin calls for topics: list, describe, create, add partitions, delete.

Brokers learn of a change some time after the controller has made it. A call therefore waits until a
broker shows the change, so that the next call finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.base.ids import ZERO_TOPIC_ID, uuid_text
from moldau.client.administration.configs import ConfigValue, config_text
from moldau.client.administration.face import Calls
from moldau.client.administration.topic_descriptions import (
    Told,
    TopicDescription,
    described_by_metadata,
    described_by_pages,
)
from moldau.client.errors import (
    BrokerError,
    ClientError,
    CorruptAnswer,
    InvalidArgument,
    LeaderNotAvailable,
    UnsupportedVersion,
    broker_error,
)
from moldau.engine.cluster import Node
from moldau.engine.metadata import MetadataImage
from moldau.engine.partitions import several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)

NOTHING_DELETED: Final = "Nothing was deleted: check the name, or be content that it is gone."

Topic = str | bytes
"""A topic by its name, or by the sixteen bytes of its id."""

BROKERS_CHOICE = -1

CREATE_WITH_DEFAULTS = 4
"""The version of CreateTopics that lets the broker choose (KIP-464)."""
DELETE_BY_ID = 6
METADATA_BY_ID = 12

VISIBLE_WITHIN_MS = 5_000
"""How long a change is looked for: many times what a healthy cluster needs. In one that is not well
a new partition may stay without a leader; nobody asked to wait for that."""

GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; the broker chooses what is None."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] | None = None
    """The brokers of each partition, preferred leader first; replaces both numbers."""


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created or validated."""

    name: str
    topic_id: bytes | None
    """None if it was only validated, or if the broker is too old."""
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, str | None]
    """All configs including defaults; empty if the broker does not report them."""


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None
    """The brokers of each added partition."""


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in a list."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partition_count: int


class TopicCalls(Calls):
    """Admin calls for topics."""

    # Creating

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        *,
        configs: Mapping[str, ConfigValue] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> CreatedTopic:
        """Create a topic: `await admin.create_topic("payments", 6, 3)`.

        Returns when a broker shows the topic with all its leaders. Raises TopicAlreadyExists.
        """
        new = NewTopic(name, partitions, replication_factor, configs or {}, assignments)
        results = await self.create_topics(
            [new], validate_only=validate_only, timeout_ms=timeout_ms
        )
        return results[name]

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, CreatedTopic]:
        """Create topics: `(await admin.create_topics([NewTopic("a", 3), NewTopic("b")])).errors`.

        `validate_only` only checks the request.
        """
        given = several(topics, "topics")
        wanted = {topic.name: topic for topic in given}
        if len(wanted) < len(given):
            raise InvalidArgument("a topic to be created is named twice")
        deadline = self._asking.deadline(timeout_ms)
        if not wanted:
            return Results({}, {})

        async def attempt(tally: Tally[str, CreatedTopic]) -> None:
            asked = [wanted[name] for name in tally.waiting]
            request = CreateTopicsRequest(
                [_creatable(topic) for topic in asked],
                self._asking.patience_ms(deadline),
                validate_only,
            )
            least = CREATE_WITH_DEFAULTS if any(map(_leaves_choice, asked)) else 0
            answer = await self._asking.ask(Node.CONTROLLER, request, least=least)
            for told in answer.topics:
                if told.error_code == ErrorCode.NONE:
                    tally.done(told.name, _created(told))
                else:
                    uncertain = told.name in tally.uncertain
                    tally.fail(told.name, _not_created(told, uncertain=uncertain))

        results = await self._asking.settle(wanted, attempt, deadline)
        if not validate_only:
            await self._until_seen(results.ok, _all_led, deadline)
        return results

    async def create_partitions(
        self,
        topic: str,
        total_count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Increase the partitions of a topic to a total: `await admin.create_partitions("t", 12)`.

        Keys then map to other partitions.
        """
        wanted = {topic: NewPartitions(total_count, assignments)}
        results = await self.create_partitions_of(
            wanted, validate_only=validate_only, timeout_ms=timeout_ms
        )
        results[topic]

    async def create_partitions_of(
        self,
        topics: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Increase partitions of topics: `await admin.create_partitions_of({"a": 12, "b": 3})`."""
        deadline = self._asking.deadline(timeout_ms)
        wanted = {
            name: NewPartitions(one) if isinstance(one, int) else one
            for name, one in topics.items()
        }
        if not wanted:
            return Results({}, {})

        async def attempt(tally: Tally[str, None]) -> None:
            request = CreatePartitionsRequest(
                [_enlarged(name, wanted[name]) for name in tally.waiting],
                self._asking.patience_ms(deadline),
                validate_only,
            )
            for told in (await self._asking.ask(Node.CONTROLLER, request)).results:
                _take(tally, told.name, told)

        results = await self._asking.settle(wanted, attempt, deadline)
        if not validate_only:
            await self._until_seen(
                results.ok,
                lambda image, name: (
                    _count(image, name) >= wanted[name].total_count and _all_led(image, name)
                ),
                deadline,
            )
        return results

    # Deleting

    async def delete_topic(self, topic: Topic, *, timeout_ms: float | None = None) -> None:
        """Delete a topic, by name or id: `await admin.delete_topic("payments")`."""
        (await self.delete_topics([topic], timeout_ms=timeout_ms))[topic]

    async def delete_topics(
        self, topics: Iterable[Topic], *, timeout_ms: float | None = None
    ) -> Results[Topic, None]:
        """Delete topics, by name or id: `await admin.delete_topics(["a", "b"])`."""
        wanted = several(topics, "topics")
        deadline = self._asking.deadline(timeout_ms)
        if not wanted:
            return Results({}, {})

        async def attempt(tally: Tally[Topic, None]) -> None:
            asked = list(tally.waiting)
            request = DeleteTopicsRequest(
                [_deleted(topic) for topic in asked],
                [topic for topic in asked if isinstance(topic, str)],
                self._asking.patience_ms(deadline),
            )
            least = DELETE_BY_ID if any(isinstance(topic, bytes) for topic in asked) else 0
            for told in (await self._asking.ask(Node.CONTROLLER, request, least=least)).responses:
                topic = _which(told, tally)
                if told.error_code in GONE and topic in tally.uncertain:
                    tally.done(topic, None)  # by the attempt whose answer was lost
                elif told.error_code in GONE:
                    missing = broker_error(told.error_code, _no_such(topic))
                    missing.advice = NOTHING_DELETED
                    tally.refuse(topic, missing)
                else:
                    _take(tally, topic, told)

        results = await self._asking.settle(wanted, attempt, deadline)
        names = [topic for topic in results.ok if isinstance(topic, str)]
        await self._until_seen(names, lambda image, name: name not in image.topics, deadline)
        return results

    # Looking

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> dict[str, TopicListing]:
        """List topics by name: `sorted(await admin.list_topics())`."""

        async def attempt() -> dict[str, TopicListing]:
            request = MetadataRequest(None, allow_auto_topic_creation=False)
            answer = await self._asking.ask(Node.ANY, request, least=1)
            raise_for(answer.error_code)
            return {
                one.name: TopicListing(
                    one.name, _id(one.topic_id), one.is_internal, len(one.partitions)
                )
                for one in sorted(answer.topics, key=lambda one: str(one.name))
                if include_internal or not one.is_internal
            }

        return await self._asking.until_done(attempt, self._asking.deadline(timeout_ms))

    async def describe_topic(
        self, topic: Topic, *, timeout_ms: float | None = None
    ) -> TopicDescription:
        """Describe a topic, by name or id: `(await admin.describe_topic("t")).partitions[0].isr`.

        Raises UnknownTopicOrPartition if it does not exist; this call never creates a topic.
        """
        return (await self.describe_topics([topic], timeout_ms=timeout_ms))[topic]

    async def describe_topics(
        self, topics: Iterable[Topic], *, timeout_ms: float | None = None
    ) -> Results[Topic, TopicDescription]:
        """Describe topics, by name or id: `(await admin.describe_topics(["a", "b"])).ok`."""

        async def attempt(tally: Tally[Topic, TopicDescription]) -> None:
            names = [topic for topic in tally.waiting if isinstance(topic, str)]
            ids = [topic for topic in tally.waiting if isinstance(topic, bytes)]
            if names:
                await self._describe_names(tally, names)
            if ids:
                await self._describe_ids(tally, ids)

        return await self._asking.settle(
            several(topics, "topics"), attempt, self._asking.deadline(timeout_ms)
        )

    async def _describe_names(
        self, tally: Tally[Topic, TopicDescription], names: list[str]
    ) -> None:
        try:
            found = await self._pages(names)
        except UnsupportedVersion:
            wanted = [MetadataRequestTopic(name=name) for name in names]
            request = MetadataRequest(wanted, allow_auto_topic_creation=False)
            found = described_by_metadata(await self._asking.ask(Node.ANY, request))
        for one in found:
            if one.name is not None:
                _take_description(tally, one.name, one.outcome)

    async def _pages(self, names: list[str]) -> list[Told]:
        """Ask for one page after the other (KIP-966)."""
        pages = []
        request = DescribeTopicPartitionsRequest(
            [DescribeTopicPartitionsTopic(name) for name in sorted(names)]
        )
        reached = ("", -1)
        while True:
            page = await self._asking.ask(Node.ANY, request)
            pages.append(page)
            if page.next_cursor is None:
                return described_by_pages(pages)
            request.cursor = page.next_cursor
            before, reached = (
                reached,
                (page.next_cursor.topic_name, page.next_cursor.partition_index),
            )
            if reached <= before:
                raise CorruptAnswer("the page after a page of topics is not a later one")

    async def _describe_ids(self, tally: Tally[Topic, TopicDescription], ids: list[bytes]) -> None:
        wanted = [MetadataRequestTopic(topic_id, None) for topic_id in ids]
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer = await self._asking.ask(Node.ANY, request, least=METADATA_BY_ID)
        for one in described_by_metadata(answer):
            _take_description(tally, one.topic_id, one.outcome)

    async def _until_seen(
        self,
        names: Iterable[str],
        seen: Callable[[MetadataImage, str], bool],
        deadline: float,
    ) -> None:
        """Wait until a broker tells of a change; it was made, so a failure here is none."""
        missing = set(names)

        async def attempt() -> None:
            image = await self._asking.cluster.refresh(missing)
            missing.difference_update([name for name in missing if seen(image, name)])
            if missing:
                raise LeaderNotAvailable

        if missing:
            soon = min(deadline, self._asking.deadline(VISIBLE_WITHIN_MS))
            with suppress(ClientError):
                await self._asking.until_done(attempt, soon)


# Requests


def _creatable(topic: NewTopic) -> CreatableTopic:
    by_hand = topic.assignments is not None
    return CreatableTopic(
        topic.name,
        BROKERS_CHOICE if by_hand or topic.partitions is None else topic.partitions,
        BROKERS_CHOICE if by_hand or topic.replication_factor is None else topic.replication_factor,
        [CreatableReplicaAssignment(*one) for one in _listed(topic.assignments or {}).items()],
        [
            CreatableTopicConfig(name, config_text(name, value))
            for name, value in topic.configs.items()
        ],
    )


def _listed(assignments: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    return {partition: list(brokers) for partition, brokers in assignments.items()}


def _leaves_choice(topic: NewTopic) -> bool:
    return topic.assignments is None and None in (topic.partitions, topic.replication_factor)


def _enlarged(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    assigned = None
    if wanted.assignments is not None:
        assigned = [CreatePartitionsAssignment(list(brokers)) for brokers in wanted.assignments]
    return CreatePartitionsTopic(name, wanted.total_count, assigned)


def _deleted(topic: Topic) -> DeleteTopicState:
    if isinstance(topic, str):
        return DeleteTopicState(topic)
    return DeleteTopicState(None, topic)


# Answers


def _take(tally: Tally[Any, None], item: Any, told: Any) -> None:
    """Take down what a broker says of an item for which there is nothing more to say."""
    if told.error_code == ErrorCode.NONE:
        tally.done(item, None)
    elif told.error_code in GONE:
        tally.refuse(item, broker_error(told.error_code, told.error_message))
    else:
        tally.fail(item, broker_error(told.error_code, told.error_message))


def _take_description(
    tally: Tally[Topic, TopicDescription], topic: Topic, outcome: TopicDescription | BrokerError
) -> None:
    if isinstance(outcome, TopicDescription):
        tally.done(topic, outcome)
    elif outcome.code in GONE:
        tally.refuse(topic, broker_error(outcome.code, _no_such(topic)))
    else:
        tally.fail(topic, outcome)


def _no_such(topic: Topic) -> str:
    return f"there is no topic {topic if isinstance(topic, str) else uuid_text(topic)}"


def _created(told: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        told.name,
        _id(told.topic_id),
        told.num_partitions if told.num_partitions >= 0 else None,
        told.replication_factor if told.replication_factor >= 0 else None,
        {config.name: config.value for config in told.configs or ()},
    )


def _not_created(told: CreatableTopicResult, *, uncertain: bool) -> BrokerError:
    if uncertain and told.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return broker_error(
            told.error_code,
            f"topic {told.name!r} exists; an attempt before this one, whose answer was lost, may"
            " have created it",
        )
    return broker_error(told.error_code, told.error_message)


def _which(told: DeletableTopicResult, tally: Tally[Topic, None]) -> Topic:
    """Return the topic as it was asked for: answers to ids carry names too."""
    return told.topic_id if told.topic_id in tally.waiting else told.name or ""


def _id(topic_id: bytes) -> bytes | None:
    return None if topic_id == ZERO_TOPIC_ID else topic_id


def _count(image: MetadataImage, name: str) -> int:
    topic = image.topics.get(name)
    return topic.partition_count if topic is not None else 0


def _all_led(image: MetadataImage, name: str) -> bool:
    topic = image.topics.get(name)
    return topic is not None and 0 < topic.partition_count == len(topic.available)
