"""The largest requests that the broker takes, made by their declarations.

A request may have so many elements in all of its arrays. Here all of them go into one array, and
every array around it or in it has one element. So an API has as many such requests as arrays.

Elements differ from each other: those that are equal would be folded into one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kits.message_samples import RANGES
from moldau.base.limits import ELEMENTS_PER_PRODUCE, ELEMENTS_PER_REQUEST
from moldau.protocol.fields import Field, Kind

Path = tuple[str, ...]
"""The names of fields that lead to an array."""

SPARE: Final = 1_000
"""Elements that a request could have more."""

NUMBERS: Final = {
    "acks": -1,
    "timeout_ms": 10_000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "replica_id": -1,
    "session_id": 0,
    "session_epoch": -1,
    "session_timeout_ms": 60_000,
    "rebalance_timeout_ms": 1_000,
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "commit_timestamp": -1,
    "current_leader_epoch": -1,
    "committed_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "replication_factor": -1,
    "num_partitions": -1,
    "resource_type": 2,
    "producer_id": 0,
    "producer_epoch": 0,
    "broker_ids": 1,
    "replicas": 1,
    "pattern_type": 3,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "resource_type_filter": 2,
    "operation": 2,
    "permission_type": 3,
    "endpoint_type": 1,
    "duration_filter": -1,
}
"""What a client would send, where that is not 0."""

TEXTS: Final = {
    "group_id": "group",
    "protocol_type": "consumer",
    "name": "wide",
    "topic": "wide",
    "topic_name": "wide",
    "resource_name": "wide",
    "transactional_id": "transaction",
    "v3_and_below_transactional_id": "transaction",
}
"""The same for texts that are not empty, where there is only one of them."""

TOPIC_ARRAYS: Final = frozenset(
    {"topics", "topic_data", "topic_names", "v3_and_below_topics", "topic_partitions", "resources"}
)
"""Arrays whose elements name topics."""


class Largest(NamedTuple):
    """A request, and where all of its elements are."""

    path: Path
    message: Any


class LargestMessages:
    """Makes such requests, about topics that are there."""

    def __init__(self, topic_ids: list[bytes], records: bytes) -> None:
        self._topic_ids = topic_ids
        """That of `TEXTS["topic"]` first, then those of `topic_of(0)` and so on."""
        self._records = records
        self._path: Path = ()
        self._count = 0

    def of(self, cls: Any, version: int) -> Iterator[Largest]:
        """Make a request for each of its arrays."""
        limit = ELEMENTS_PER_PRODUCE if cls.__name__ == "ProduceRequest" else ELEMENTS_PER_REQUEST
        for path in array_paths(cls, version):
            element = _element_at(cls, path)
            self._path = path
            self._count = (limit - SPARE) // _elements_of(element, version)
            yield Largest(path, self._struct(cls, version, (), None))

    def _struct(self, cls: Any, version: int, path: Path, number: int | None) -> Any:
        return cls(
            **{
                one.name: self._value(one, version, path, number)
                for one in cls.FIELDS
                if version in one.versions
            }
        )

    def _value(self, one: Field, version: int, path: Path, number: int | None) -> Any:
        """Fill a field; `number` is that of the element it belongs to, in the large array."""
        match one.kind:
            case Kind.ARRAY:
                return self._elements(one, version, (*path, one.name))
            case Kind.STRUCT:
                return self._struct(one.struct, version, (*path, one.name), None)
            case Kind.BOOL:
                return False
            case Kind.FLOAT64:
                return 1.0
            case Kind.STRING:
                return self._text(one.name, path, number)
            case Kind.UUID:
                return self._topic_id(number)
            case Kind.BYTES:
                return b""
            case Kind.RECORDS:
                return self._records
            case _:
                return min(self._number(one.name, number), RANGES[one.kind][1])

    def _elements(self, one: Field, version: int, path: Path) -> list[Any]:
        assert one.element is not None
        element = one.element.named(one.name)
        if path != self._path:
            return [self._element(element, version, path, None)]
        return [self._element(element, version, path, number) for number in range(self._count)]

    def _element(self, one: Field, version: int, path: Path, number: int | None) -> Any:
        if one.struct is not None:
            return self._struct(one.struct, version, path, number)
        return self._value(one, version, path, number)

    def _text(self, name: str, path: Path, number: int | None) -> str:
        if number is None:
            return TEXTS.get(name, "")
        if path[-1] in TOPIC_ARRAYS:
            return topic_of(number)
        return f"{name}-{number}"

    def _topic_id(self, number: int | None) -> bytes:
        if number is None:
            return self._topic_ids[0]
        if number + 1 < len(self._topic_ids):
            return self._topic_ids[number + 1]
        return number.to_bytes(16, "big")

    def _number(self, name: str, number: int | None) -> int:
        if number is None or name in NUMBERS:
            return NUMBERS.get(name, 0)
        is_place = "partition" in name or "index" in name or "id" in name
        return number if is_place else 0


def topic_of(number: int) -> str:
    """Return the name of one of many topics."""
    return f"many-{number}"


def array_paths(cls: Any, version: int, path: Path = ()) -> Iterator[Path]:
    """Yield where a request of this version has arrays."""
    for one in cls.FIELDS:
        if version not in one.versions:
            continue
        here = (*path, one.name)
        if one.kind is Kind.ARRAY:
            yield here
        inner = one.element or one
        if inner.struct is not None:
            yield from array_paths(inner.struct, version, here)


def _element_at(cls: Any, path: Path) -> Field:
    for name in path:
        (found,) = (one for one in cls.FIELDS if one.name == name)
        inner = found.element or found
        cls = inner.struct
    return inner


def _elements_of(element: Field, version: int) -> int:
    """Count an element, and the one element of each array in it."""
    if element.struct is None:
        return 1
    return 1 + sum(1 for _ in array_paths(element.struct, version))
