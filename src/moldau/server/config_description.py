"""Describing configs: every one of a resource, its value, and where that came from.

The order of synonyms is the order in which they are asked, so the first is the one in force
(KIP-226). A secret's value is never told. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from moldau.server.broker_configs import BROKER_CONFIGS
from moldau.server.config_definition import ConfigDefinition, Update
from moldau.server.config_sources import SYNONYMS
from moldau.server.config_values import BrokerValues, Found, Source
from moldau.server.topic_configs import TOPIC_CONFIGS, broker_default

_NAMES: Final = {name: group for group in SYNONYMS for name in group}


class DescribedConfig(NamedTuple):
    """One config as it is in force."""

    definition: ConfigDefinition
    value: str | None
    source: Source
    read_only: bool
    synonyms: list[Found]

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
) -> list[DescribedConfig]:
    """Describe a topic's configs, all or these."""
    found = []
    for name, definition in TOPIC_CONFIGS.items():
        if names and name not in names:
            continue
        value, synonyms = broker_default(name, broker)
        text = definition.format(value)
        if name in own:
            text = own[name]
            synonyms = [Found(name, text, Source.TOPIC), *synonyms]
        source = synonyms[0].source if synonyms else Source.DEFAULT
        found.append(DescribedConfig(definition, text, source, False, synonyms))
    return found


def describe_broker(
    broker: BrokerValues, names: Collection[str] | None, *, only_default: bool
) -> list[DescribedConfig]:
    """Describe a broker's configs, all or these; or only what is set for all brokers."""
    found = []
    for name, definition in BROKER_CONFIGS.items():
        if (names and name not in names) or (definition.internal and not broker.is_set(name)):
            continue
        synonyms = broker.find_all(_NAMES.get(name, (name,)))
        if only_default:
            synonyms = [one for one in synonyms if one.source is Source.DYNAMIC_DEFAULT_BROKER]
            if not synonyms:
                continue
        if definition.sensitive:
            synonyms = [one._replace(text=None) for one in synonyms]
        text = definition.format(broker.value(name))
        source = synonyms[0].source if synonyms else Source.DEFAULT
        found.append(
            DescribedConfig(
                definition,
                None if definition.sensitive else text,
                source,
                definition.update is Update.READ_ONLY,
                synonyms,
            )
        )
    return found
