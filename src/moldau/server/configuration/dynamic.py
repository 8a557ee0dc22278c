"""Configs that live in the cluster's metadata: what they come to here, and whether they may change.

Pure over the metadata image. Topics have configs of their own; brokers have some that override
their settings file while they run, one broker's or all brokers' (KIP-226). A change is checked
completely before anything is stored, with the texts Kafka gives.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from moldau.base.errors import ConfigError
from moldau.base.ids import BrokerId
from moldau.base.texts import shorten, shorten_list
from moldau.cluster.config_operations import ConfigOperation, OperationType, check_operations
from moldau.cluster.configs import EVERY_BROKER
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, ResourceType
from moldau.cluster.topics import check_topic_name, find_topic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.topics import CreatedTopicConfig
from moldau.protocol.wire import TEXT_BYTES_MAX
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.client_metrics import (
    CLIENT_METRICS_CONFIGS,
    check_subscription,
    check_subscription_name,
    describe_subscription,
)
from moldau.server.configuration.definition import (
    ConfigDefinition,
    ConfigType,
    Update,
    format_value,
)
from moldau.server.configuration.description import DescribedConfig, describe_broker, describe_topic
from moldau.server.configuration.group_configs import (
    GROUP_CONFIGS,
    check_group_configs,
    check_group_name,
    describe_group,
)
from moldau.server.configuration.settings import BrokerSettings, check_together
from moldau.server.configuration.topic_configs import (
    TOPIC_CONFIGS,
    check_broker_default,
    check_topic_configs,
    log_config,
    log_defaults,
)
from moldau.server.configuration.values import NOTHING, BrokerValues
from moldau.storage.topic_config import LogConfig

logger = logging.getLogger(__name__)

PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What changes at run time for one listener only: keys and certificates."""


BROKER_NAME: Final = re.compile(r"[+-]?[0-9]+")
"""What Java reads as the number of a broker."""

NO_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType({})

_STORED: Final[Mapping[int, Mapping[str, ConfigDefinition]]] = {
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}
"""What is stored and described, and concerns nothing else on this broker."""

_APPENDED_TO: Final[Mapping[int, Mapping[str, ConfigDefinition]]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: BROKER_CONFIGS,
}
"""Lists of these can be appended to; Kafka knows no types of the others' configs."""


class DynamicConfigs:
    """The configs of this broker, of topics, groups and subscriptions, as the metadata has them."""

    def __init__(
        self, settings: BrokerSettings, image: Callable[[], MetadataImage], broker_id: BrokerId
    ) -> None:
        self._static = settings.values.static
        self._image = image
        self._broker = ConfigResource(ResourceType.BROKER, str(broker_id))
        self._own: Mapping[str, str] = NOTHING
        self._every: Mapping[str, str] = NOTHING
        self._values = settings.values
        self._log_defaults = log_defaults(settings.values)

    @property
    def image(self) -> MetadataImage:
        """The metadata these configs live in."""
        return self._image()

    # What is in force

    @property
    def broker_values(self) -> BrokerValues:
        """The configs of this broker now: set at run time, else in its settings, else default."""
        self._follow()
        return self._values

    def topic_log_config(self, own: Mapping[str, str]) -> LogConfig:
        """Return what a topic's own configs come to here and now."""
        self._follow()
        return log_config(_usable(own, TOPIC_CONFIGS), self._log_defaults)

    def _follow(self) -> None:
        """Take over the brokers' configs if the metadata has others than before."""
        image = self._image()
        own, every = image.config(self._broker), image.config(EVERY_BROKER)
        if own is not self._own or every is not self._every:
            self._own, self._every = own, every
            self._values = BrokerValues(
                self._static, _usable(own, BROKER_CONFIGS), _usable(every, BROKER_CONFIGS)
            )
            self._log_defaults = log_defaults(self._values)

    # Describing

    def described(self, topic: str, configs: Mapping[str, str]) -> list[CreatedTopicConfig]:
        """Return every config of a topic as it is, or would be, in force."""
        del topic
        return [
            CreatedTopicConfig(one.name, one.value, one.read_only, one.source, one.sensitive)
            for one in describe_topic(_usable(configs, TOPIC_CONFIGS), self.broker_values, None)
        ]

    def describe(
        self, resource: ConfigResource, names: Collection[str] | None
    ) -> Iterator[DescribedConfig]:
        """Describe the configs of a resource, all or these; ApiError if there are none of it.

        What is described is what is in force now, however late it is asked for.
        """
        image = self._image()
        if resource.type == ResourceType.TOPIC:
            check_topic_name(resource.name)
            find_topic(image, resource.name)
            own = _usable(image.topic_config(resource.name), TOPIC_CONFIGS)
            return describe_topic(own, self.broker_values, names)
        self._check_resource(resource, changes=False)
        own = _usable(image.config(resource), _STORED.get(resource.type, NO_CONFIGS))
        if resource.type == ResourceType.GROUP:
            return describe_group(own, self.broker_values, names)
        if resource.type == ResourceType.CLIENT_METRICS:
            return describe_subscription(own, names)
        only_default = resource == EVERY_BROKER
        return describe_broker(self.broker_values, names, only_default=only_default)

    # Changing

    def check(self, configs: Mapping[str, str]) -> None:
        """Raise ApiError INVALID_CONFIG unless a topic may have these configs."""
        try:
            check_topic_configs(configs)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def replaced(
        self,
        image: MetadataImage,
        resource: ConfigResource,
        configs: Mapping[str, str | None],
    ) -> dict[str, str]:
        """Check a resource's new set of configs; returns it."""
        self._check_resource(resource, changes=True)
        refused = [name for name, value in configs.items() if value is None]
        if refused:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Null value not supported for : {shorten_list(refused)}"
            )
        wanted = {name: value for name, value in configs.items() if value is not None}
        self._check_wanted(image, resource, wanted, wanted)
        return wanted

    def altered(
        self, image: MetadataImage, resource: ConfigResource, operations: Sequence[ConfigOperation]
    ) -> dict[str, str | None]:
        """Check changes of single configs; returns what to store, None for what to remove."""
        self._check_resource(resource, changes=True)
        check_operations(operations)
        current = image.config(resource)
        changes: dict[str, str | None] = {
            one.name: _apply(one, resource, current.get(one.name)) for one in operations
        }
        wanted = {
            name: value for name, value in {**current, **changes}.items() if value is not None
        }
        touched = {name: value for name, value in changes.items() if value is not None}
        self._check_wanted(image, resource, touched, wanted)
        return changes

    def _check_resource(self, resource: ConfigResource, *, changes: bool) -> None:
        """Refuse resources that have no configs here."""
        if resource.type == ResourceType.TOPIC:
            _check_topic(resource.name)
            return
        if resource.type == ResourceType.GROUP:
            check_group_name(resource.name, changes=changes)
            return
        if resource.type == ResourceType.CLIENT_METRICS:
            check_subscription_name(resource.name, changes=changes)
            return
        if resource in (self._broker, EVERY_BROKER):
            return
        if resource.type == ResourceType.BROKER:
            # The controller also stores what other brokers were asked to change of their own.
            if changes and self._is_registered(resource.name):
                return
            problem = self._wrong_broker(shorten(resource.name), changes=changes)
        else:
            problem = f"Unknown resource type {resource.type}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)

    def _is_registered(self, name: str) -> bool:
        return BROKER_NAME.fullmatch(name) is not None and int(name) in self._image().brokers

    def _wrong_broker(self, name: str, *, changes: bool) -> str:
        """Say that another broker is meant, or none, in Kafka's two ways."""
        if not BROKER_NAME.fullmatch(name):
            who = "Node" if changes else "Broker"
            return f"{who} id must be an integer, but it is: {name}"
        expected = self._broker.name if changes else f"{self._broker.name} or empty string"
        return f"Unexpected broker id, expected {expected}, but received {name}"

    def _check_wanted(
        self,
        image: MetadataImage,
        resource: ConfigResource,
        touched: Mapping[str, str],
        wanted: Mapping[str, str],
    ) -> None:
        """Check what was touched by itself, and all that is wanted together."""
        _check_length(touched)
        if resource.type == ResourceType.TOPIC:
            kept = {name: text for name, text in wanted.items() if name not in touched}
            self.check({**_usable(kept, TOPIC_CONFIGS), **touched})
            return
        if resource.type == ResourceType.GROUP:
            check_group_configs(touched, _usable(wanted, GROUP_CONFIGS), self.broker_values)
            return
        if resource.type == ResourceType.CLIENT_METRICS:
            check_subscription(touched)
            return
        own = wanted if resource == self._broker else image.config(self._broker)
        every = wanted if resource == EVERY_BROKER else image.config(EVERY_BROKER)
        try:
            check_dynamic(touched, every=resource == EVERY_BROKER)
            check_together(
                BrokerValues(
                    self._static, _usable(own, BROKER_CONFIGS), _usable(every, BROKER_CONFIGS)
                )
            )
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_topic(name: str) -> None:
    """Refuse what cannot be a topic; no name would mean every topic, which has no configs."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)


def _usable(configs: Mapping[str, str], table: Mapping[str, ConfigDefinition]) -> Mapping[str, str]:
    """Leave out what this broker cannot use: a folder may have been another broker's before."""
    found = {}
    for name, text in configs.items():
        try:
            if name in table:
                table[name].parse(text)
                if table is BROKER_CONFIGS:
                    check_broker_default(name, text)
                found[name] = text
        except ConfigError as error:
            logger.warning("a stored config is ignored: %s", error)
    return found


def _check_length(configs: Mapping[str, str]) -> None:
    """Refuse a value that DescribeConfigs could not tell; appending to a list may lead to one."""
    for name, value in configs.items():
        if len(value.encode()) > TEXT_BYTES_MAX:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"The value of {shorten(name)} is longer than {TEXT_BYTES_MAX} bytes.",
            )


def _apply(operation: ConfigOperation, resource: ConfigResource, current: str | None) -> str | None:
    """Return the text one operation leads to."""
    if operation.type == OperationType.DELETE:
        return None
    value = operation.value or ""
    if operation.type == OperationType.SET:
        return value
    definition = _APPENDED_TO.get(resource.type, NO_CONFIGS).get(operation.name)
    if definition is None or definition.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, _not_a_list(operation, resource))
    present = current if current is not None else format_value(definition.default) or ""
    parts = [part for part in present.split(",") if part]
    given = [part.strip() for part in value.split(",") if part.strip()]
    if operation.type == OperationType.APPEND:
        parts += [part for part in given if part not in parts]
    else:
        parts = [part for part in parts if part not in given]
    return ",".join(parts)


def _not_a_list(operation: ConfigOperation, resource: ConfigResource) -> str:
    """Say that a config is no list, in the words of Kafka's broker or of its controller."""
    verb, name = OperationType(operation.type).name, shorten(operation.name)
    if resource.type == ResourceType.BROKER:
        return f"Config value {verb.lower()} is not allowed for config key: {name}"
    return f"Can't {verb} to key {name} because its type is not LIST."


def check_dynamic(configs: Mapping[str, str], *, every: bool) -> None:
    """Raise ConfigError unless a running broker, or every one, may be given these configs."""
    for name in configs:
        if name not in BROKER_CONFIGS:
            raise ConfigError(f"Unknown broker config name: {shorten(name)}")
    fixed = [name for name in configs if BROKER_CONFIGS[name].update is Update.READ_ONLY]
    if fixed:
        raise ConfigError(f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]")
    secure = PER_LISTENER.intersection(configs)
    if secure:
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(sorted(secure))}]"
        )
    single = [name for name in configs if BROKER_CONFIGS[name].update is Update.PER_BROKER]
    if single and every:
        raise ConfigError(
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(sorted(single))}]"
        )
    for name, text in configs.items():
        BROKER_CONFIGS[name].parse(text)
        check_broker_default(name, text)
