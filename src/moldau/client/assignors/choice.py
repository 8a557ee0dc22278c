"""From `partition_assignment_strategy` to assignors: names, classes and objects are all taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moldau.base.errors import ConfigError
from moldau.client.assignors.interface import PartitionAssignor
from moldau.client.assignors.stateless import RangeAssignor, RoundRobinAssignor
from moldau.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor, StickyRule

_JAVA_PACKAGE: Final = "org.apache.kafka.clients.consumer."

BUILT_IN: Final[Mapping[str, Callable[[], PartitionAssignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "sticky-1.1": lambda: StickyAssignor(StickyRule.KAFKA_1_1),
    "cooperative-sticky": CooperativeStickyAssignor,
    f"{_JAVA_PACKAGE}RangeAssignor": RangeAssignor,
    f"{_JAVA_PACKAGE}RoundRobinAssignor": RoundRobinAssignor,
    f"{_JAVA_PACKAGE}StickyAssignor": StickyAssignor,
    f"{_JAVA_PACKAGE}CooperativeStickyAssignor": CooperativeStickyAssignor,
}
"""By the name they have in a group, and by the name of the class in Java's settings."""


def assignors_of(strategy: str | Iterable[Any]) -> list[PartitionAssignor]:
    """Make the assignors that a setting names, in its order.

    A name is one of `BUILT_IN`; several may stand in one text, with commas. What is no text is
    taken for an assignor, or for a class of them that can be made without arguments.
    """
    listed = [strategy] if isinstance(strategy, str) else strategy
    return [
        assignor
        for one in listed
        for assignor in (map(_built_in, one.split(",")) if isinstance(one, str) else (_own(one),))
    ]


def _built_in(name: str) -> PartitionAssignor:
    make = BUILT_IN.get(name.strip())
    if make is None:
        known = ", ".join(name for name in BUILT_IN if not name.startswith(_JAVA_PACKAGE))
        raise ConfigError(
            f"partition_assignment_strategy: there is no assignor {name.strip()!r}; "
            f"use {known}, or pass your own assignor as an object"
        )
    return make()


def _own(given: Any) -> PartitionAssignor:
    try:
        assignor = given() if isinstance(given, type) else given
    except TypeError as error:
        raise ConfigError(
            f"partition_assignment_strategy: cannot create {given.__name__}: {error}"
        ) from error
    missing = [
        name
        for name in ("name", "protocols", "metadata", "assign", "on_assignment")
        if not hasattr(assignor, name)
    ]
    if missing:
        raise ConfigError(
            f"partition_assignment_strategy: {given!r} is no assignor, it has no {missing[0]}; "
            "subclass PartitionAssignor"
        )
    made: PartitionAssignor = assignor
    return made
