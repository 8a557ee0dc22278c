"""The levels of this broker's loggers, as configs of the resource BROKER_LOGGER (KIP-412).

Levels live in the process, not in the metadata: a change takes effect at once and is forgotten at
the next start. Loggers are Python's; their levels go by Kafka's names. TRACE lies below the lowest
level of Python and shows everything.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from moldau.base.ids import BrokerId
from moldau.base.texts import shorten
from moldau.cluster.config_operations import ConfigOperation, OperationType, check_operations
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.definition import ConfigDefinition, ConfigType
from moldau.server.configuration.description import DescribedConfig
from moldau.server.configuration.values import Source

ROOT: Final = "root"
OURS: Final = "moldau"

LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's names, the most talkative first."""


class LogLevels:
    """The loggers of the process this broker runs in."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id

    def describe(self, resource: str, names: Collection[str] | None) -> Iterator[DescribedConfig]:
        """Describe the levels in force, of all loggers or these."""
        self._check_described(resource)
        for name in _logger_names():
            if not names or name in names:
                definition = ConfigDefinition(name, ConfigType.UNKNOWN, None, "")
                level = level_name(_logger(name).getEffectiveLevel())
                yield DescribedConfig(definition, level, Source.DYNAMIC_BROKER_LOGGER, False, [])

    def alter(
        self, resource: str, operations: Sequence[ConfigOperation], *, validate_only: bool
    ) -> None:
        """Change levels, all of them or none; ApiError says what is wrong."""
        self._check_changed(resource)
        check_operations(operations)
        known = set(_logger_names())
        for one in operations:
            _check(one, known)
        if validate_only:
            return
        for one in operations:
            deleted = one.type == OperationType.DELETE
            _logger(one.name).setLevel(logging.NOTSET if deleted else LEVELS[one.value or ""])

    def _check_changed(self, resource: str) -> None:
        if not _is_broker_id(resource):
            problem = f"Node id must be an integer, but it is: {shorten(resource)}"
        elif int(resource) != self._broker_id:
            problem = f"Unexpected node id. Expected {self._broker_id}, but received {resource}"
        else:
            return
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)

    def _check_described(self, resource: str) -> None:
        problem = None
        if not resource:
            problem = "Broker id must not be empty"
        elif not _is_broker_id(resource):
            problem = f"Broker id must be an integer, but it is: {shorten(resource)}"
        elif int(resource) != self._broker_id:
            problem = f"Unexpected broker id, expected {self._broker_id} but received {resource}"
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _is_broker_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(2**31))


def level_name(level: int) -> str:
    """Return Kafka's name of a level: that of the first line it lets through."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")


def _check(one: ConfigOperation, known: Collection[str]) -> None:
    problem, code = None, ErrorCode.INVALID_CONFIG
    if one.type not in (OperationType.SET, OperationType.DELETE):
        verb = OperationType(one.type).name
        problem = f"{verb} operation is not allowed for the BROKER_LOGGER resource"
        code = ErrorCode.INVALID_REQUEST
    elif one.name not in known:
        problem = f"Logger {shorten(one.name)} does not exist!"
    elif one.type == OperationType.DELETE and one.name == ROOT:
        problem = "Removing the log level of the root logger is not allowed"
        code = ErrorCode.INVALID_REQUEST
    elif one.type == OperationType.SET and one.value not in LEVELS:
        problem = (
            f"Cannot set the log level of {one.name} to {shorten(one.value or '')} as it is not a "
            f"supported log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        )
    if problem is not None:
        raise ApiError(code, problem)


def _logger_names() -> list[str]:
    """Return every logger of ours, and those above them, by which a whole part is set."""
    ours = [
        name
        for name in logging.root.manager.loggerDict
        if name == OURS or name.startswith(f"{OURS}.")
    ]
    return [ROOT, *sorted(ours)]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)
