"""The operations of IncrementalAlterConfigs on single configs (KIP-339)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from moldau.base.texts import shorten_list
from moldau.protocol.errors import ApiError, ErrorCode


class OperationType(IntEnum):
    """What to do with one config; the codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOperation(NamedTuple):
    """One change of one config."""

    name: str
    type: int
    value: str | None


def check_operations(operations: Sequence[ConfigOperation]) -> None:
    """Raise ApiError INVALID_REQUEST unless types, values and names are valid and distinct."""
    names = [one.name for one in operations]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for one in operations:
        if one.type not in OperationType.__members__.values():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {one.type}")
    empty = [
        one.name for one in operations if one.value is None and one.type != OperationType.DELETE
    ]
    if empty:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {shorten_list(empty)}"
        )
