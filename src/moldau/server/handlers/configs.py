"""DescribeConfigs 0-4, AlterConfigs 0-2, IncrementalAlterConfigs 0-1, ListConfigResources 0-1.

Each resource of a request succeeds or fails by itself. An answer to a change comes after the
change is durable and this broker's logs follow it.

A resource that is described twice in one request is told once: Kafka tells it as often as it is
named. One that is changed twice is refused, as by Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from moldau.base.limits import CONFIGS_PER_RESOURCE
from moldau.cluster.config_operations import ConfigOperation
from moldau.cluster.controller_requests import ControllerRequests
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)
from moldau.server.configuration.description import DescribedConfig
from moldau.server.configuration.dynamic import DynamicConfigs
from moldau.server.configuration.log_levels import LogLevels
from moldau.server.configuration.values import Source
from moldau.server.lifecycle.topic_admin import Follower
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold, once, sort
from moldau.server.network.slices import Sliced

AnyResource = TypeVar("AnyResource", AlterConfigsResource, IncrementalAlterConfigsResource)

RESOURCE_TYPES = frozenset(ResourceType)

_NAMES_PER_STEP = 1_000
"""Names that are read between two pauses."""

_RESOURCE_SIZE, _CONFIG_SIZE, _SYNONYM_SIZE = 20, 16, 5
"""Bytes in an answer, besides texts."""


class ConfigHandlers:
    """Answers what reads and changes configs."""

    def __init__(
        self,
        configs: DynamicConfigs,
        levels: LogLevels,
        requests: ControllerRequests,
        follower: Follower,
    ) -> None:
        self._configs = configs
        self._levels = levels
        self._requests = requests
        self._follower = follower

    # DescribeConfigs

    def describe(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> Sliced[DescribeConfigsResponse]:
        """Describe each resource once, with all configs that it is asked for."""
        del context
        response = DescribeConfigsResponse()
        room = AnswerRoom()
        for resource, names in (yield from _wanted_configs(request.resources)).items():
            described = yield from self._describe(resource, names, request, room)
            response.results.append(described)
            yield
        return response

    def _describe(
        self,
        resource: ConfigResource,
        names: Collection[str] | None,
        request: DescribeConfigsRequest,
        room: AnswerRoom,
    ) -> Sliced[DescribeConfigsResult]:
        results = []
        try:
            room.take(_RESOURCE_SIZE + len(resource.name))
            for described in self._described(resource, names):
                result = _result(described, request)
                room.take(_size(result))
                results.append(result)
                yield
        except ApiError as error:
            return DescribeConfigsResult(error.code, error.message, *resource)
        return DescribeConfigsResult(0, "", *resource, results)

    def _described(
        self, resource: ConfigResource, names: Collection[str] | None
    ) -> Iterator[DescribedConfig]:
        if resource.type == ResourceType.BROKER_LOGGER:
            return self._levels.describe(resource.name, names)
        return self._configs.describe(resource, names)

    # AlterConfigs

    def alter(
        self, request: AlterConfigsRequest, context: RequestContext
    ) -> Sliced[Coroutine[None, None, AlterConfigsResponse]]:
        """Give each resource a new set of configs."""
        del context
        repeated = (yield from fold(request.resources, _resource_of)).repeated

        async def altered() -> AlterConfigsResponse:
            return AlterConfigsResponse(
                responses=await self._each(
                    request.resources, repeated, partial(self._replace, request.validate_only)
                )
            )

        return altered()

    async def _replace(self, validate_only: bool, wanted: AlterConfigsResource) -> None:
        _refuse_too_many(wanted.configs)
        _refuse_repeated([config.name for config in wanted.configs])
        resource = _resource_of(wanted)
        configs = {config.name: config.value for config in wanted.configs}
        await self._requests.replace_configs(resource, configs, validate_only=validate_only)
        await self._followed(validate_only)

    # IncrementalAlterConfigs

    def alter_incrementally(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> Sliced[Coroutine[None, None, IncrementalAlterConfigsResponse]]:
        """Change single configs of each resource."""
        del context
        repeated = (yield from fold(request.resources, _resource_of)).repeated

        async def altered() -> IncrementalAlterConfigsResponse:
            return IncrementalAlterConfigsResponse(
                responses=await self._each(
                    request.resources, repeated, partial(self._alter, request.validate_only)
                )
            )

        return altered()

    async def _alter(self, validate_only: bool, wanted: IncrementalAlterConfigsResource) -> None:
        _refuse_too_many(wanted.configs)
        resource = _resource_of(wanted)
        operations = [
            ConfigOperation(config.name, config.config_operation, config.value)
            for config in wanted.configs
        ]
        if resource.type == ResourceType.BROKER_LOGGER:
            self._levels.alter(resource.name, operations, validate_only=validate_only)
            return
        await self._requests.alter_configs(resource, operations, validate_only=validate_only)
        await self._followed(validate_only)

    async def _each(
        self,
        resources: Sequence[AnyResource],
        repeated: Collection[ConfigResource],
        change: Callable[[AnyResource], Coroutine[None, None, None]],
    ) -> list[AlterConfigsResourceResponse]:
        answers = []
        for one in resources:
            await asyncio.sleep(0)  # each has a turn of its own: a refusal waits for nothing
            code, message = ErrorCode.NONE, None
            try:
                if _resource_of(one) in repeated:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                    )
                await change(one)
            except ApiError as error:
                code, message = error.code, error.message
            except StoreFailed as error:
                code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
            answers.append(
                AlterConfigsResourceResponse(code, message, one.resource_type, one.resource_name)
            )
        return answers

    async def _followed(self, validate_only: bool) -> None:
        """Wait for this broker's logs: the image already has the change, if there was one."""
        if not validate_only:
            await self._follower.reached(self._configs.image.version)

    # ListConfigResources

    def list_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> Sliced[ListConfigResourcesResponse]:
        """Name what has configs, or could have: every topic and broker, and what was configured."""
        wanted = frozenset(request.resource_types) or RESOURCE_TYPES
        if context.version == 0:
            wanted = frozenset({ResourceType.CLIENT_METRICS})
        if not wanted <= RESOURCE_TYPES:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        found = yield from once(
            one for one in _config_resources(self._configs.image) if one[0] in wanted
        )
        response = ListConfigResourcesResponse()
        for kind, name in (yield from sort(found)):
            response.config_resources.append(ListedConfigResource(name, kind))
            yield
        return response


def _config_resources(image: MetadataImage) -> Iterator[tuple[int, str]]:
    """Yield what has configs, or could have, by type and name."""
    for name in image.topics:
        yield ResourceType.TOPIC, name
    for broker in image.brokers:
        yield ResourceType.BROKER, str(broker)
        yield ResourceType.BROKER_LOGGER, str(broker)
    for resource in image.configs:
        if resource.type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
            yield resource.type, resource.name


def _result(
    described: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    definition = described.definition
    synonyms = described.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        described.name,
        described.value,
        described.read_only,
        described.source is Source.DEFAULT,
        described.source,
        described.sensitive,
        [DescribeConfigsSynonym(one.name, one.text, one.source) for one in synonyms],
        definition.type,
        definition.documentation if request.include_documentation else None,
    )


def _resource_of(wanted: AnyResource) -> ConfigResource:
    return ConfigResource(wanted.resource_type, wanted.resource_name)


def _wanted_configs(
    resources: Iterable[DescribeConfigsResource],
) -> Sliced[dict[ConfigResource, set[str] | None]]:
    """Fold a request: every resource once, with all names it is asked for; None for all it has."""
    wanted: dict[ConfigResource, set[str] | None] = {}
    for one in resources:
        resource = ConfigResource(one.resource_type, one.resource_name)
        names = wanted.setdefault(resource, set())
        if not one.configuration_keys:
            wanted[resource] = None
        elif names is not None:
            for first in range(0, len(one.configuration_keys), _NAMES_PER_STEP):
                names.update(one.configuration_keys[first : first + _NAMES_PER_STEP])
                yield
        yield
    return wanted


def _size(result: DescribeConfigsResourceResult) -> int:
    """Return about how many bytes one config takes in an answer."""
    size = _CONFIG_SIZE + len(result.name) + len(result.value or "")
    size += len(result.documentation or "")
    for synonym in result.synonyms:
        size += _SYNONYM_SIZE + len(synonym.name) + len(synonym.value or "")
    return size


def _refuse_too_many(configs: Sequence[object]) -> None:
    """Refuse at once what would be refused one by one: names that are unknown or repeated."""
    if len(configs) > CONFIGS_PER_RESOURCE:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"No resource has {len(configs)} configs to change."
        )


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
