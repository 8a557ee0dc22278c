"""Creating, growing and deleting topics: decide, commit, and wait until this broker follows.

What is allowed is decided by pure functions of `cluster.topics`; here they are committed, and the
caller is told only after the broker's own partitions exist, so that a client that was told can
produce at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from moldau.base.clock import Random
from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Topic
from moldau.cluster.store import Decide, Decisions
from moldau.cluster.topics import (
    NewTopic,
    TopicDefaults,
    add_partitions,
    create_topic,
    delete_topic,
    delete_topic_by_id,
)
from moldau.protocol.errors import ApiError, ErrorCode


class Follower(Protocol):
    """What keeps this broker's partitions in step with the metadata."""

    async def reached(self, version: int) -> None:
        """Return once everything up to this version has been carried out."""
        ...


class Keeper(Follower, Protocol):
    """A follower that makes the partitions' logs, too."""

    @property
    def can_make_logs(self) -> bool:
        """Whether there is a log directory to make one in."""
        ...


class TopicAdmin:
    """The one way to change topics."""

    def __init__(
        self,
        decisions: Decisions,
        follower: Keeper,
        defaults: TopicDefaults,
        random: Random,
    ) -> None:
        self._decisions = decisions
        self._follower = follower
        self._defaults = defaults
        self._random = random

    def preview(self, image: MetadataImage, wanted: NewTopic) -> Topic:
        """Return the topic as it would be created; ApiError if it would not."""
        changes = self._create(image, wanted)
        return image.apply(changes, image.version).topics[wanted.name]

    async def create(self, wanted: NewTopic) -> Topic:
        """Create a topic; ApiError if it may not be."""
        image = await self._commit(lambda image: self._create(image, wanted))
        return image.topics[wanted.name]

    def _create(self, image: MetadataImage, wanted: NewTopic) -> list[Change]:
        return self._made(create_topic(image, wanted, self._defaults, self._random))

    def _made(self, changes: list[Change]) -> list[Change]:
        """Refuse what is allowed but cannot be: new partitions, and no directory to hold them.

        Kafka ends a broker whose last directory fails. We go on answering what needs no disk; a
        client is told what makes it try again, as it would with a broker that is down.
        """
        if not self._follower.can_make_logs:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online.")
        return changes

    async def grow(
        self, name: str, count: int, assignments: Sequence[Sequence[BrokerId]] | None
    ) -> None:
        """Add partitions up to this count; ApiError if that may not be."""
        await self._commit(
            lambda image: self._made(add_partitions(image, name, count, assignments))
        )

    async def delete(self, name: str) -> None:
        """Delete a topic by name."""
        await self._commit(lambda image: delete_topic(image, name))

    async def delete_by_id(self, topic_id: TopicId) -> None:
        """Delete a topic by id."""
        await self._commit(lambda image: delete_topic_by_id(image, topic_id))

    async def _commit(self, decide: Decide) -> MetadataImage:
        image = await self._decisions.commit(decide)
        await self._follower.reached(image.version)
        return image


def assignments_of(pairs: Sequence[tuple[int, Sequence[int]]]) -> Mapping[int, list[BrokerId]]:
    """Turn assignments as they travel into those that decisions take."""
    return {index: [BrokerId(broker) for broker in brokers] for index, brokers in pairs}
