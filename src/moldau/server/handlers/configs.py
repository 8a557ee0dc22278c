"""DescribeConfigs 0-4, AlterConfigs 0-2, IncrementalAlterConfigs 0-1, ListConfigResources 0-1.

Each resource of a request succeeds or fails by itself. An answer to a change comes after the
change is durable and this broker's logs follow it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from moldau.cluster.changes import Change
from moldau.cluster.configs import alter_configs, replace_configs
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.store import Decisions, StoreFailed
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
from moldau.server.config_description import DescribedConfig
from moldau.server.config_values import Source
from moldau.server.dispatch import RequestContext
from moldau.server.dynamic_config import DynamicConfigs, Operation
from moldau.server.topic_admin import Follower

AnyResource = TypeVar("AnyResource", AlterConfigsResource, IncrementalAlterConfigsResource)

RESOURCE_TYPES = frozenset(ResourceType)


class ConfigHandlers:
    """Answers what reads and changes configs."""

    def __init__(self, configs: DynamicConfigs, decisions: Decisions, follower: Follower) -> None:
        self._configs = configs
        self._decisions = decisions
        self._follower = follower

    # DescribeConfigs

    def describe(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        """Describe each resource."""
        del context
        return DescribeConfigsResponse(
            results=[self._describe(resource, request) for resource in request.resources]
        )

    def _describe(
        self, wanted: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> DescribeConfigsResult:
        resource = ConfigResource(wanted.resource_type, wanted.resource_name)
        try:
            found = self._configs.describe(resource, wanted.configuration_keys)
        except ApiError as error:
            return DescribeConfigsResult(error.code, error.message, *resource)
        return DescribeConfigsResult(0, "", *resource, [_result(one, request) for one in found])

    # AlterConfigs

    async def alter(
        self, request: AlterConfigsRequest, context: RequestContext
    ) -> AlterConfigsResponse:
        """Give each resource a new set of configs."""
        del context
        return AlterConfigsResponse(
            responses=await self._each(request.resources, self._replace, request.validate_only)
        )

    def _replace(self, wanted: AlterConfigsResource, image: MetadataImage) -> list[Change]:
        _refuse_repeated([config.name for config in wanted.configs])
        resource = ConfigResource(wanted.resource_type, wanted.resource_name)
        configs = {config.name: config.value for config in wanted.configs}
        return replace_configs(image, resource, self._configs.replaced(image, resource, configs))

    # IncrementalAlterConfigs

    async def alter_incrementally(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """Change single configs of each resource."""
        del context
        return IncrementalAlterConfigsResponse(
            responses=await self._each(request.resources, self._alter, request.validate_only)
        )

    def _alter(self, wanted: IncrementalAlterConfigsResource, image: MetadataImage) -> list[Change]:
        resource = ConfigResource(wanted.resource_type, wanted.resource_name)
        operations = [
            Operation(config.name, config.config_operation, config.value)
            for config in wanted.configs
        ]
        return alter_configs(image, resource, self._configs.altered(image, resource, operations))

    async def _each(
        self,
        resources: Sequence[AnyResource],
        decide: Callable[[AnyResource, MetadataImage], list[Change]],
        validate_only: bool,
    ) -> list[AlterConfigsResourceResponse]:
        named = Counter((one.resource_type, one.resource_name) for one in resources)
        answers = []
        for one in resources:
            code, message = ErrorCode.NONE, None
            try:
                if named[one.resource_type, one.resource_name] > 1:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                    )
                await self._commit(partial(decide, one), validate_only)
            except ApiError as error:
                code, message = error.code, error.message
            except StoreFailed as error:
                code, message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
            answers.append(
                AlterConfigsResourceResponse(code, message, one.resource_type, one.resource_name)
            )
        return answers

    async def _commit(
        self, decide: Callable[[MetadataImage], list[Change]], validate_only: bool
    ) -> None:
        if validate_only:
            decide(self._configs.image)
            return
        image = await self._decisions.commit(decide)
        await self._follower.reached(image.version)

    # ListConfigResources

    def list_resources(
        self, request: ListConfigResourcesRequest, context: RequestContext
    ) -> ListConfigResourcesResponse:
        """Name what has configs, or could have: every topic and broker, and what was configured."""
        wanted = frozenset(request.resource_types) or RESOURCE_TYPES
        if context.version == 0:
            wanted = frozenset({ResourceType.CLIENT_METRICS})
        if not wanted <= RESOURCE_TYPES:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        image = self._configs.image
        found: set[tuple[int, str]] = {(ResourceType.TOPIC, name) for name in image.topics}
        found |= {(ResourceType.BROKER, str(broker)) for broker in image.brokers}
        found |= {
            (resource.type, resource.name)
            for resource in image.configs
            if resource.type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS)
        }
        return ListConfigResourcesResponse(
            config_resources=[
                ListedConfigResource(name, kind) for kind, name in sorted(found) if kind in wanted
            ]
        )


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


def _refuse_repeated(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
