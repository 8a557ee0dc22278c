"""What a broker's configs come to: the value in force, and where it came from.

A value is looked for in four layers: set at run time for this broker, set at run time for all
brokers, set before the start, built in (KIP-226). Within a layer the stronger of two names for one
thing counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import Value, format_value

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Source(IntEnum):
    """Where a value came from, under the codes of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Found(NamedTuple):
    """A value as text, under the name it was found by."""

    name: str
    text: str
    source: Source


class BrokerValues:
    """The configs of one broker at one moment."""

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic: Mapping[str, str] = NOTHING,
        dynamic_default: Mapping[str, str] = NOTHING,
    ) -> None:
        self.static = static
        self._dynamic_default = dynamic_default
        self._layers = (
            (Source.DYNAMIC_BROKER, dynamic),
            (Source.DYNAMIC_DEFAULT_BROKER, dynamic_default),
            (Source.STATIC_BROKER, static),
        )

    def find_all(self, names: Sequence[str]) -> list[Found]:
        """Return every value of these names, the one in force first, built-in ones last."""
        found = [
            Found(name, layer[name], source)
            for source, layer in self._layers
            for name in names
            if name in layer
        ]
        found += [
            Found(name, text, Source.DEFAULT)
            for name in names
            if (text := format_value(BROKER_CONFIGS[name].default)) is not None
        ]
        return found

    def value(self, name: str) -> Value:
        """Return the value in force of one name."""
        definition = BROKER_CONFIGS[name]
        for _source, layer in self._layers:
            if name in layer:
                return definition.parse(layer[name])
        return definition.default

    def is_set(self, name: str) -> bool:
        """Tell whether somebody set this name."""
        return any(name in layer for _source, layer in self._layers)

    def is_set_for_all(self, names: Sequence[str]) -> bool:
        """Tell whether one of these names was set at run time for every broker."""
        return any(name in self._dynamic_default for name in names)

    def integer(self, name: str) -> int:
        """Return a number in force."""
        value = self.value(name)
        assert isinstance(value, int), name
        return value

    def text(self, name: str) -> str | None:
        """Return a text in force; None if there is none."""
        value = self.value(name)
        assert value is None or isinstance(value, str), name
        return value

    def entries(self, name: str) -> tuple[str, ...]:
        """Return a list in force; one without a value is empty."""
        value = self.value(name) or ()
        assert isinstance(value, tuple), name
        return value
