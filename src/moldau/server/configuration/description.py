"""Describing configs: every one of a resource, its value, and where that came from.

The order of synonyms is the order in which they are asked, so the first is the one in force
(KIP-226). A secret's value is never told. Pure. A broker has hundreds of configs, so they are
described one at a time, for whoever may pause between two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import ConfigDefinition, Update, format_value
from moldau.server.configuration.topic_configs import BROKER_SYNONYMS, TOPIC_CONFIGS, broker_default
from moldau.server.configuration.values import BrokerValues, Source

_NAMES: Final = {
    name: group for group in BROKER_SYNONYMS.values() for name in group if len(group) > 1
}
"""Broker configs that are several names for one thing."""


class Synonym(NamedTuple):
    """One place a value may come from; the text is None where it is a secret."""

    name: str
    text: str | None
    source: Source


class DescribedConfig(NamedTuple):
    """One config as it is in force."""

    definition: ConfigDefinition
    value: str | None
    source: Source
    read_only: bool
    synonyms: list[Synonym]

    @property
    def name(self) -> str:
        """Return its name."""
        return self.definition.name

    @property
    def sensitive(self) -> bool:
        """Tell whether its value is withheld."""
        return self.definition.sensitive


def describe_topic(
    own: Mapping[str, str], broker: BrokerValues, names: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """Describe a topic's configs, all or these."""
    for name, definition in TOPIC_CONFIGS.items():
        if not names or name in names:
            yield _topic_config(definition, own, broker)


def _topic_config(
    definition: ConfigDefinition, own: Mapping[str, str], broker: BrokerValues
) -> DescribedConfig:
    name = definition.name
    value, found = broker_default(name, broker)
    if found and found[0].source is Source.DEFAULT and found[0].name != BROKER_SYNONYMS[name][0]:
        found = []  # only a lesser name has a default, such as log.retention.hours
    synonyms = [Synonym(*one) for one in found]
    if name in own:
        value = definition.parse(own[name])
        synonyms = [Synonym(name, format_value(value), Source.TOPIC), *synonyms]
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return DescribedConfig(definition, format_value(value), source, False, synonyms)


def describe_broker(
    broker: BrokerValues, names: Collection[str] | None, *, only_default: bool
) -> Iterator[DescribedConfig]:
    """Describe a broker's configs, all or these; or only what is set for all brokers."""
    for name, definition in BROKER_CONFIGS.items():
        if (names and name not in names) or (definition.internal and not broker.is_set(name)):
            continue
        if only_default and not broker.is_set_for_all(_NAMES.get(name, (name,))):
            continue
        described = _broker_config(definition, broker, only_default=only_default)
        if described.synonyms or not only_default:
            yield described


def _broker_config(
    definition: ConfigDefinition, broker: BrokerValues, *, only_default: bool
) -> DescribedConfig:
    name = definition.name
    found = broker.find_all(_NAMES.get(name, (name,)))
    # What a config's own name does not begin is told under the name that does.
    while found and found[0].name != name:
        found.pop(0)
    synonyms = [
        Synonym(one.name, None if definition.sensitive else one.text, one.source)
        for one in found
        if not only_default or one.source is Source.DYNAMIC_DEFAULT_BROKER
    ]
    value = None if definition.sensitive else broker.value(name)
    return DescribedConfig(
        definition,
        synonyms[0].text if only_default and synonyms else format_value(value),
        synonyms[0].source if synonyms else Source.DEFAULT,
        definition.update is Update.READ_ONLY,
        synonyms,
    )
