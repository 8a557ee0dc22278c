"""Admin calls for configs of topics, brokers, groups and client metrics.

A change sets single configs and keeps the others (KIP-339). Brokers before 2.3 can only replace all
configs at once. That is a separate call: emulating a change with it would undo concurrent changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Self

from moldau.client.administration.face import Calls
from moldau.client.errors import ClientError, InvalidArgument, broker_error
from moldau.engine.cluster import Node
from moldau.engine.partitions import several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

ALL_RESOURCE_TYPES = 1
"""The version of ListConfigResources that lists more than client metrics (KIP-1142)."""


class ResourceType(IntEnum):
    """A type of resource with configs; the number is the protocol's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with configs: `ConfigResource.topic("t")`, `ConfigResource.broker(1)`."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> Self:
        """A topic."""
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | None = None) -> Self:
        """A broker, or the defaults of all brokers."""
        return cls(ResourceType.BROKER, "" if broker_id is None else str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> Self:
        """A group."""
        return cls(ResourceType.GROUP, group_id)


class ConfigSource(IntEnum):
    """The source of a value; the number is the protocol's."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def of(cls, code: int) -> ConfigSource:
        """Read what a broker sent; a later one may know more."""
        return cls(code) if code in frozenset(cls) else cls.UNKNOWN


class ConfigType(IntEnum):
    """The type of a value; the number is the protocol's."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def of(cls, code: int) -> ConfigType:
        """Read what a broker sent; a later one may know more."""
        return cls(code) if code in frozenset(cls) else cls.UNKNOWN


class ConfigSynonym(NamedTuple):
    """A possible source of a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A config with its current value."""

    name: str
    value: str | None
    """None if it is sensitive."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    """The sources of the value in order of precedence, if requested."""
    documentation: str | None = None
    """If requested, and if the broker has it (since 2.6)."""

    @property
    def is_default(self) -> bool:
        """Whether it has its default value."""
        return self.source is ConfigSource.DEFAULT


class Append(NamedTuple):
    """Adds a value to a list config."""

    value: str


class Subtract(NamedTuple):
    """Removes a value from a list config."""

    value: str


ConfigValue = str | int | float | bool | None
"""The value of a config. Numbers are sent as text, as brokers expect; None: no value."""

ConfigChange = ConfigValue | Append | Subtract
"""A new value, a change of a list, or None to reset to the default."""

SET, DELETE, APPEND, SUBTRACT = range(4)


class ConfigCalls(Calls):
    """Admin calls for configs."""

    async def describe_config(
        self,
        resource: ConfigResource,
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ConfigEntry]:
        """Read configs: `(await admin.describe_config(ConfigResource.broker(1)))["log.dirs"]`."""
        results = await self.describe_configs(
            [resource],
            names=names,
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
            timeout_ms=timeout_ms,
        )
        return results[resource]

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Read configs: `(await admin.describe_configs([ConfigResource.broker(1)])).ok`.

        `names` selects configs; None means all. The configs of a broker are read from that broker.
        """
        keys = None if names is None else several(names, "names")

        async def ask(
            node: int | Node,
            resources: list[ConfigResource],
            tally: Tally[ConfigResource, dict[str, ConfigEntry]],
        ) -> None:
            request = DescribeConfigsRequest(
                [DescribeConfigsResource(*resource, keys) for resource in resources],
                include_synonyms,
                include_documentation,
            )
            for told in (await self._asking.ask(node, request)).results:
                resource = ConfigResource(told.resource_type, told.resource_name)
                if told.error_code == ErrorCode.NONE:
                    tally.done(resource, {one.name: _entry(one, resource) for one in told.configs})
                else:
                    _fail(tally, resource, told)

        return await self._of_resources(resources, ask, timeout_ms)

    async def alter_config(
        self,
        resource: ConfigResource,
        changes: Mapping[str, ConfigChange],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change configs: `await admin.alter_config(ConfigResource.topic("t"), {"x": "1"})`.

        None resets a config to its default; `Append` and `Subtract` change lists.
        """
        results = await self.alter_configs(
            {resource: changes}, validate_only=validate_only, timeout_ms=timeout_ms
        )
        results[resource]

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Change single configs of several resources; other configs are kept.

        `await admin.alter_configs({ConfigResource.broker(): {"log.retention.ms": None}})`
        """

        async def ask(
            node: int | Node, resources: list[ConfigResource], tally: Tally[ConfigResource, None]
        ) -> None:
            request = IncrementalAlterConfigsRequest(
                [
                    IncrementalAlterConfigsResource(
                        *resource, [_change(*one) for one in changes[resource].items()]
                    )
                    for resource in resources
                ],
                validate_only,
            )
            _take(tally, await self._asking.ask(node, request))

        return await self._of_resources(changes, ask, timeout_ms)

    async def replace_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, ConfigValue]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Replace all configs of resources; configs not named are reset to their defaults.

        `await admin.replace_configs({ConfigResource.topic("t"): {"retention.ms": "1"}})`
        """

        async def ask(
            node: int | Node, resources: list[ConfigResource], tally: Tally[ConfigResource, None]
        ) -> None:
            request = AlterConfigsRequest(
                [
                    AlterConfigsResource(
                        *resource,
                        [
                            AlterableConfig(name, config_text(name, value))
                            for name, value in configs[resource].items()
                        ],
                    )
                    for resource in resources
                ],
                validate_only,
            )
            _take(tally, await self._asking.ask(node, request))

        return await self._of_resources(configs, ask, timeout_ms)

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """List resources with configs: `await admin.list_config_resources([ResourceType.GROUP])`.

        No types means all. Brokers before 4.1 only list client metrics.
        """
        wanted = several(types, "types")
        least = 0 if wanted == [ResourceType.CLIENT_METRICS] else ALL_RESOURCE_TYPES

        async def attempt() -> list[ConfigResource]:
            request = ListConfigResourcesRequest([int(one) for one in wanted])
            answer = await self._asking.ask(Node.ANY, request, least=least)
            raise_for(answer.error_code)
            return [
                ConfigResource(ResourceType(one.resource_type), one.resource_name)
                for one in answer.config_resources
                if one.resource_type in frozenset(ResourceType)
            ]

        return await self._asking.until_done(attempt, self._asking.deadline(timeout_ms))

    async def _of_resources(
        self, resources: Iterable[ConfigResource], ask: Any, timeout_ms: float | None
    ) -> Results[ConfigResource, Any]:
        """Ask for brokers' own configs at these brokers, for all others anywhere."""

        async def attempt(tally: Tally[ConfigResource, Any]) -> None:
            by_node: dict[int | Node, list[ConfigResource]] = {}
            for resource in tally.waiting:
                by_node.setdefault(_node(resource), []).append(resource)
            for node, asked in by_node.items():
                try:
                    if not isinstance(node, Node):
                        await self._asking.known_broker(node)
                    await ask(node, asked, tally)
                except ClientError as error:
                    for resource in asked:
                        tally.fail(resource, error)

        return await self._asking.settle(
            several(resources, "resources"), attempt, self._asking.deadline(timeout_ms)
        )


def config_text(name: str, value: object) -> str | None:
    """Write a value as brokers read it; TypeError for what is neither text nor a number."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    raise InvalidArgument(f"{name}={value!r} is neither text nor a number")


def _node(resource: ConfigResource) -> int | Node:
    own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    return int(resource.name) if own and resource.name.isdecimal() else Node.ANY


def _change(name: str, change: ConfigChange) -> IncrementalAlterableConfig:
    match change:
        case None:
            return IncrementalAlterableConfig(name, DELETE, None)
        case Append(value):
            return IncrementalAlterableConfig(name, APPEND, config_text(name, value))
        case Subtract(value):
            return IncrementalAlterableConfig(name, SUBTRACT, config_text(name, value))
        case value:
            return IncrementalAlterableConfig(name, SET, config_text(name, value))


def _take(tally: Tally[ConfigResource, None], answer: Any) -> None:
    for told in answer.responses:
        resource = ConfigResource(told.resource_type, told.resource_name)
        if told.error_code == ErrorCode.NONE:
            tally.done(resource, None)
        else:
            _fail(tally, resource, told)


def _fail(tally: Tally[ConfigResource, Any], resource: ConfigResource, told: Any) -> None:
    error = broker_error(told.error_code, told.error_message)
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        tally.refuse(resource, error)  # a topic that is not there will not come by itself
    else:
        tally.fail(resource, error)


def _entry(told: DescribeConfigsResourceResult, resource: ConfigResource) -> ConfigEntry:
    return ConfigEntry(
        told.name,
        told.value,
        _source(told, resource),
        told.read_only,
        told.is_sensitive,
        ConfigType.of(told.config_type),
        tuple(
            ConfigSynonym(one.name, one.value, ConfigSource.of(one.source)) for one in told.synonyms
        ),
        told.documentation or None,
    )


def _source(told: DescribeConfigsResourceResult, resource: ConfigResource) -> ConfigSource:
    """Tell where a value comes from; before KIP-226 brokers told only whether it was a default."""
    if told.config_source >= 0:
        return ConfigSource.of(told.config_source)
    if told.is_default:
        return ConfigSource.DEFAULT
    if resource.type == ResourceType.TOPIC:
        return ConfigSource.TOPIC
    return ConfigSource.STATIC_BROKER
