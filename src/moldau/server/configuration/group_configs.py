"""The configs of a group (KIP-848, KIP-932, KIP-1071): stored in the metadata, and described.

They belong to the newer group protocols, which this broker does not have; so they are kept for
the broker that will, and have no effect here. Defaults and bounds are those of the broker configs
that stand behind them, as in Kafka 4.3. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from moldau.base.errors import ConfigError
from moldau.base.texts import shorten
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.broker_configs import BROKER_CONFIGS
from moldau.server.configuration.definition import (
    ConfigDefinition,
    Value,
    at_least,
    boolean,
    format_value,
    integer,
    one_of,
    string,
)
from moldau.server.configuration.description import DescribedConfig, Synonym
from moldau.server.configuration.values import BrokerValues, Source

_DURATION: Final = re.compile(
    r"by_duration:P(?!$)(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?",
    re.IGNORECASE,
)


def _reset(value: Value) -> str | None:
    text = str(value)
    if text in ("earliest", "latest") or _DURATION.fullmatch(text):
        return None
    return (
        f"Invalid value `{shorten(text)}` for configuration share.auto.offset.reset. The value "
        "must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


_TIMES: Final = (
    ("session.timeout.ms", "How long a silent member stays in the group."),
    ("heartbeat.interval.ms", "How often a member lets hear of itself."),
    ("assignment.interval.ms", "The shortest time between two assignments."),
)


def _default(name: str) -> int:
    value = BROKER_CONFIGS[f"group.{name}"].default
    assert isinstance(value, int), name
    return value


def _bounded(name: str, documentation: str, minimum: int = 1) -> ConfigDefinition:
    return integer(name, _default(name), documentation, at_least(minimum))


_DEFINITIONS: Final = (
    *(
        _bounded(f"{kind}.{rest}", documentation, 0 if rest.startswith("assignment") else 1)
        for kind in ("consumer", "share", "streams")
        for rest, documentation in _TIMES
    ),
    string("share.auto.offset.reset", "latest", "Where a new share group begins.", _reset),
    string(
        "share.isolation.level",
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    ),
    boolean("share.renew.acknowledge.enable", True, "Let members keep a record for longer."),
    _bounded("share.delivery.count.limit", "How often a record is delivered at most."),
    _bounded("share.partition.max.record.locks", "How many records may be out at once."),
    _bounded("share.record.lock.duration.ms", "How long a member may keep a record."),
    _bounded("streams.initial.rebalance.delay.ms", "How long a new group waits for members.", 0),
    _bounded("streams.num.standby.replicas", "How many standby copies a task has.", 0),
)

GROUP_CONFIGS: Final[Mapping[str, ConfigDefinition]] = MappingProxyType(
    {one.name: one for one in sorted(_DEFINITIONS, key=lambda one: one.name)}
)


def check_group_name(name: str, *, changes: bool) -> None:
    """Refuse the name that would mean every group."""
    if not name:
        problem = (
            "Default group resources are not allowed."
            if changes
            else "Group name must not be empty"
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def check_group_configs(
    touched: Mapping[str, str], wanted: Mapping[str, str], broker: BrokerValues
) -> None:
    """Raise ApiError INVALID_CONFIG unless a group may have these configs on this broker."""
    try:
        for name, text in touched.items():
            definition = GROUP_CONFIGS.get(name)
            if definition is None:
                raise ConfigError(f"Unknown group config name: {shorten(name)}")
            _check_bounds(name, definition.parse(text), broker)
        for kind in ("consumer", "share", "streams"):
            _check_together(kind, wanted, broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_bounds(name: str, value: Value, broker: BrokerValues) -> None:
    kind, _, rest = name.partition(".")
    least = f"group.{kind}.min.{rest}"
    most = f"group.{kind}.max.{rest.removeprefix('num.')}"
    if least in BROKER_CONFIGS and isinstance(value, int) and value < broker.integer(least):
        raise ConfigError(f"{name} must be greater than or equal to {least}")
    if most in BROKER_CONFIGS and isinstance(value, int) and value > broker.integer(most):
        raise ConfigError(f"{name} must be less than or equal to {most}")


def _check_together(kind: str, wanted: Mapping[str, str], broker: BrokerValues) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in wanted and heartbeat not in wanted:
        return
    times = [
        int(wanted[name]) if name in wanted else broker.integer(f"group.{name}")
        for name in (session, heartbeat)
    ]
    if times[0] <= times[1]:
        raise ConfigError(f"{session} must be greater than {heartbeat}")


def describe_group(
    own: Mapping[str, str], broker: BrokerValues, names: Collection[str] | None
) -> Iterator[DescribedConfig]:
    """Describe a group's configs, all or these."""
    for name, definition in GROUP_CONFIGS.items():
        if names and name not in names:
            continue
        synonyms = [Synonym(name, own[name], Source.GROUP)] if name in own else []
        if f"group.{name}" in BROKER_CONFIGS:
            synonyms += [Synonym(*one) for one in broker.find_all((f"group.{name}",))]
        else:
            synonyms.append(Synonym(name, format_value(definition.default), Source.DEFAULT))
        first = synonyms[0]
        yield DescribedConfig(definition, first.text, first.source, False, synonyms)
