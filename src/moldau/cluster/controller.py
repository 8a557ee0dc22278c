"""The controller: carries out the requests of brokers, one decision after the other.

It owns the controllership, while this broker has it, and the queue of decisions. Pure functions of
`topics`, `configs` and `brokers` decide; the controller gives them the newest image and commits the
changes that they return.

Without the controllership every request is refused with NOT_CONTROLLER, also those in the queue
when it is lost. After this error clients look up the controller and try again.

The controller must not know who sends a request: a handler of this process today, another broker
later. It knows neither files nor records; those belong to the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from moldau.base.checks import invariant
from moldau.base.clock import Random
from moldau.base.ids import BrokerId, TopicId
from moldau.cluster import brokers, topics
from moldau.cluster.brokers import Registration
from moldau.cluster.changes import Change
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.configs import alter_configs, replace_configs
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.cluster.decisions import Decide, Decisions
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import collect_changes, preview
from moldau.cluster.model import ConfigResource, Topic
from moldau.cluster.store import ControllerFenced, MetadataStore
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)


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


class Controller:
    """The implementation of `ControllerRequests` with the controller in this process."""

    def __init__(
        self,
        store: MetadataStore,
        defaults: TopicDefaults,
        config_rules: ConfigRules,
        random: Random,
        can_make_logs: Callable[[], bool],
    ) -> None:
        self._store = store
        self._decisions: Decisions | None = None
        """The queue of this broker's controllership; None while it has none."""
        self._last_epoch = -1
        self._defaults = defaults
        self._config_rules = config_rules
        self._random = random
        self._can_make_logs = can_make_logs

    # The controllership

    async def claim(self) -> bool:
        """Become the active controller if no other broker is; tell whether it worked."""
        invariant(self._decisions is None, "the controller claims what it holds")
        controllership = await self._store.claim()
        if controllership is None:
            return False
        # Two controllerships with one epoch could not be told apart: both could commit.
        invariant(controllership.epoch > self._last_epoch, "a controller epoch was granted twice")
        self._last_epoch = controllership.epoch
        self._decisions = Decisions(self._store, controllership)
        controllership.on_lost(self._lost)
        # It may be lost already: then `on_lost` has called `_lost`.
        return self._decisions is not None

    def _lost(self) -> None:
        logger.warning("no longer the controller: epoch %d is over", self._last_epoch)
        self._decisions = None

    def _active(self) -> Decisions:
        if self._decisions is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self._decisions

    async def _commit(self, decide: Decide) -> MetadataImage:
        try:
            return await self._active().commit(decide)
        except ControllerFenced as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER) from error

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
        """Refuse new partitions while no log directory is usable.

        Kafka stops a broker whose last directory fails. Ours still answers requests that need no
        disk. Clients retry after this error, as if the broker were down.
        """
        # The image does not know yet which directories are online, so ask the one broker.
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

    # Brokers

    async def allocate_producer_ids(self, broker_id: BrokerId) -> ProducerIdBlock:
        block = ProducerIdBlock(0, 0)

        def decide(image: MetadataImage) -> list[Change]:
            nonlocal block
            allocated = brokers.allocate_producer_ids(image, image.brokers[broker_id])
            block = ProducerIdBlock(image.next_producer_id, allocated.next_producer_id)
            return [allocated]

        await self._carry_out(decide)
        return block

    async def register_broker(self, registration: Registration) -> None:
        await self._carry_out(lambda image: brokers.register_broker(image, registration))

    async def retire_broker(self, broker_id: BrokerId) -> None:
        await self._carry_out(lambda image: brokers.retire_broker(image, broker_id))

    async def _carry_out(self, decide: Decide, *, validate_only: bool = False) -> None:
        if validate_only:
            await collect_changes(decide(self._current_image()))
        else:
            await self._commit(decide)

    def _current_image(self) -> MetadataImage:
        """Return the image to validate on; ApiError unless this is the active controller.

        A controller that was replaced and does not know it yet validates on an older image. That is
        harmless: nothing is written, and a valid request may be refused a moment later anyway.
        """
        self._active()
        return self._store.image
