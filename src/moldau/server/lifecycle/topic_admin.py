"""Creating, growing and deleting topics: ask the controller, then wait until this broker follows.

What is allowed is the controller's to decide. The caller is told only after the broker's own
partitions exist, so that a client that was told can produce at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from moldau.base.ids import BrokerId, TopicId
from moldau.cluster.controller_requests import BrokerRequests, ControllerRequests
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Topic
from moldau.cluster.topics import NewTopic


class Follower(Protocol):
    """What keeps this broker's partitions in step with the metadata."""

    async def reached(self, version: int) -> None:
        """Return once everything up to this version has been carried out."""
        ...


class NoPartitions:
    """The follower of a controller alone, which has no partitions to wait for."""

    async def reached(self, version: int) -> None:
        """Return at once."""


class TopicCreation:
    """Creates topics that clients name, on any broker."""

    def __init__(
        self,
        requests: BrokerRequests,
        image: Callable[[], MetadataImage],
        follower: Follower,
    ) -> None:
        self._creating = requests
        self._image = image
        self._follower = follower

    async def create(self, wanted: NewTopic) -> Topic:
        """Create a topic; ApiError if it may not be."""
        topic = await self._creating.create_topic(wanted)
        await self._followed()
        return topic

    async def _followed(self) -> None:
        """Wait for this broker's partitions: the image already has the change."""
        await self._follower.reached(self._image().version)


class TopicAdmin(TopicCreation):
    """Changes topics, where the controller is in this process."""

    def __init__(
        self,
        requests: ControllerRequests,
        image: Callable[[], MetadataImage],
        follower: Follower,
    ) -> None:
        super().__init__(requests, image, follower)
        self._requests = requests

    async def preview(self, wanted: NewTopic) -> Topic:
        """Return the topic as it would be created; ApiError if it would not."""
        return await self._requests.create_topic(wanted, validate_only=True)

    async def grow(
        self, name: str, count: int, assignments: Sequence[Sequence[BrokerId]] | None
    ) -> None:
        """Add partitions up to this count; ApiError if that may not be."""
        await self._requests.grow_topic(name, count, assignments)
        await self._followed()

    async def preview_growth(
        self, name: str, count: int, assignments: Sequence[Sequence[BrokerId]] | None
    ) -> None:
        """Raise ApiError if the topic could not grow to this count."""
        await self._requests.grow_topic(name, count, assignments, validate_only=True)

    async def delete(self, name: str) -> None:
        """Delete a topic by name."""
        await self._requests.delete_topic(name)
        await self._followed()

    async def delete_by_id(self, topic_id: TopicId) -> None:
        """Delete a topic by id."""
        await self._requests.delete_topic_by_id(topic_id)
        await self._followed()


def assignments_of(pairs: Sequence[tuple[int, Sequence[int]]]) -> Mapping[int, Sequence[BrokerId]]:
    """Turn assignments as they travel into those that decisions take."""
    return {index: cast("Sequence[BrokerId]", brokers) for index, brokers in pairs}
