"""The configs of a subscription to clients' metrics (KIP-714): stored in the metadata, described.

This broker has no reporter for such metrics, so that no client is asked to push any; subscriptions
are kept as by a Kafka without one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from moldau.base.errors import ConfigError
from moldau.base.texts import shorten
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.definition import ConfigDefinition, format_value, integer, names
from moldau.server.configuration.description import DescribedConfig, Synonym
from moldau.server.configuration.values import Source

INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
INTERVAL_MIN_MS, INTERVAL_MAX_MS = 100, 3_600_000

MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What a client can be chosen by."""

PATTERN_LENGTH_MAX: Final = 1000
"""Longer patterns take their time to be read."""

CLIENT_METRICS_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType(
    {
        INTERVAL: integer(INTERVAL, 300_000, "How often a client pushes its metrics."),
        MATCH: names(MATCH, (), "Which clients push: name=pattern, all of them must match."),
        METRICS: names(METRICS, (), "Beginnings of the names of the metrics to push."),
    }
)


def check_subscription_name(name: str, *, changes: bool) -> None:
    """Refuse a subscription without a name."""
    if not name:
        problem = (
            "Subscription name can't be empty"
            if changes
            else "Client metrics subscription name must not be empty"
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def check_subscription(touched: Mapping[str, str]) -> None:
    """Raise ApiError unless a subscription may have these configs."""
    for name, text in touched.items():
        definition = CLIENT_METRICS_CONFIGS.get(name)
        if definition is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown client metrics configuration: {shorten(name)}",
            )
        try:
            value = definition.parse(text)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if isinstance(value, int) and not INTERVAL_MIN_MS <= value <= INTERVAL_MAX_MS:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {INTERVAL}, interval must be between "
                f"{INTERVAL_MIN_MS} and {INTERVAL_MAX_MS} (1 hour)",
            )
        if name == MATCH and isinstance(value, tuple):
            for one in value:
                _check_pattern(one)


def _check_pattern(text: str) -> None:
    name, separator, pattern = text.partition("=")
    wrong = not separator or name.strip() not in MATCHED or len(pattern) > PATTERN_LENGTH_MAX
    try:
        re.compile(pattern.strip())
    except (re.error, OverflowError, RecursionError):
        wrong = True
    if wrong:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {shorten(text)}"
        )


def describe_subscription(
    own: Mapping[str, str], names: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """Describe a subscription, all of its configs or these."""
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if names and name not in names:
            continue
        if name in own:
            synonyms = [Synonym(name, own[name], Source.CLIENT_METRICS)]
            yield DescribedConfig(definition, own[name], Source.CLIENT_METRICS, False, synonyms)
        else:
            text = format_value(definition.default)
            yield DescribedConfig(definition, text, Source.DEFAULT, False, [])
