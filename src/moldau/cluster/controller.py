"""The controller: carries out the requests of brokers, one decision after the other.

It owns the controllership, while this broker has it, and the queue of decisions
(`controller_queue`). What may be changed is decided by pure functions; the controller gives them
the newest image and commits what they return. Requests about topics, configs, features and
controllers are here, those about brokers and replicas in `broker_controller`.

It must not know who asks: a handler of this process, or a request of another broker. It knows
neither files nor records; those are the store's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from moldau.base.clock import Clock, Random
from moldau.base.ids import BrokerId, TopicId
from moldau.cluster import topics
from moldau.cluster.broker_controller import BrokerController, ControllerSettings
from moldau.cluster.changes import Change
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.configs import alter_configs, replace_configs
from moldau.cluster.controller_registration import register_controller, unregister_controller
from moldau.cluster.feature_updates import (
    FeatureUpdate,
    QuorumContext,
    raises_kraft_version,
    update_features,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import preview
from moldau.cluster.model import ConfigResource, RegisteredController, Topic
from moldau.cluster.steps import Step
from moldau.cluster.store import MetadataStore
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ApiError, ErrorCode


class ConfigRules(Protocol):
    """Which configs exist and which values are legal. The server has the tables."""

    def replaced(
        self, image: MetadataImage, resource: ConfigResource, configs: Mapping[str, str | None]
    ) -> Mapping[str, str]:
        """Return a resource's new set of configs; ApiError if it is not valid."""
        ...

    def altered(
        self, image: MetadataImage, resource: ConfigResource, operations: Sequence[ConfigOperation]
    ) -> Mapping[str, str | None]:
        """Return the configs to set, None for one to remove; ApiError if they are not valid."""
        ...


class Controller(BrokerController):
    """`ControllerRequests` where the controller is in this process."""

    def __init__(
        self,
        store: MetadataStore,
        defaults: TopicDefaults,
        config_rules: ConfigRules,
        random: Random,
        can_make_logs: Callable[[], bool],
        clock: Clock,
        settings: ControllerSettings | None = None,
        quorum: Callable[[], QuorumContext] | None = None,
        raise_kraft_version: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`quorum` tells who votes now; None in a cluster on ZooKeeper, where nobody does.

        `raise_kraft_version` lets the log name the voters from now on; None where `quorum` offers
        no higher one.
        """
        super().__init__(store, clock, settings or ControllerSettings())
        self._defaults = defaults
        self._config_rules = config_rules
        self._random = random
        self._can_make_logs = can_make_logs
        self._quorum = quorum
        self._raise_kraft_version = raise_kraft_version

    # Topics

    async def create_topic(self, wanted: NewTopic, *, validate_only: bool = False) -> Topic:
        def decide(image: MetadataImage) -> Iterable[Change]:
            return self._placeable(topics.create_topic(image, wanted, self._defaults, self._random))

        if validate_only:
            image = self._current_image()
            image = await preview(image, decide(image))
        else:
            image = await self._commit(decide)
        return image.topics[wanted.name]

    async def grow_topic(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[BrokerId]] | None,
        *,
        validate_only: bool = False,
    ) -> None:
        def decide(image: MetadataImage) -> Iterable[Change]:
            return self._placeable(topics.add_partitions(image, name, count, assignments))

        await self._carry_out(decide, validate_only=validate_only)

    async def delete_topic(self, name: str) -> None:
        await self._carry_out(lambda image: topics.delete_topic(image, name))

    async def delete_topic_by_id(self, topic_id: TopicId) -> None:
        await self._carry_out(lambda image: topics.delete_topic_by_id(image, topic_id))

    def _placeable(self, changes: Iterable[Change]) -> Iterable[Change]:
        """Refuse new partitions while no log directory of this node has room.

        Clients retry after this error.
        """
        # The metadata does not tell which directories are full, so ask the broker in this process.
        if not self._can_make_logs():
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is online.")
        return changes

    # Configs

    async def replace_configs(
        self,
        resource: ConfigResource,
        configs: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        def decide(image: MetadataImage) -> list[Change]:
            replaced = self._config_rules.replaced(image, resource, configs)
            return replace_configs(image, resource, replaced)

        await self._carry_out(decide, validate_only=validate_only)

    async def alter_configs(
        self,
        resource: ConfigResource,
        operations: Sequence[ConfigOperation],
        *,
        validate_only: bool = False,
    ) -> None:
        def decide(image: MetadataImage) -> list[Change]:
            altered = self._config_rules.altered(image, resource, operations)
            return alter_configs(image, resource, altered)

        await self._carry_out(decide, validate_only=validate_only)

    # Features

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        def decide(image: MetadataImage) -> Iterable[Step]:
            quorum = None if self._quorum is None else self._quorum()
            return update_features(image, updates, quorum)

        quorum = None if self._quorum is None else self._quorum()
        if raises_kraft_version(updates, quorum):
            await self._carry_out(decide, validate_only=True)
            if not validate_only:
                assert self._raise_kraft_version is not None
                await self._raise_kraft_version()
        await self._carry_out(decide, validate_only=validate_only)

    # Controllers

    async def register_controller(self, registration: RegisteredController) -> None:
        if self._quorum is None:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, "In a cluster on ZooKeeper no controller registers."
            )
        await self._carry_out(lambda image: register_controller(image, registration))

    async def unregister_controller(self, controller_id: BrokerId) -> None:
        def decide(image: MetadataImage) -> list[Change]:
            voters = () if self._quorum is None else self._quorum().voters
            return unregister_controller(image, controller_id, voters)

        await self._carry_out(decide)
