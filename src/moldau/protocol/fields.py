"""The declaration language: how a message of the protocol is written down, all versions at once.

    @message(key=0, versions="0-13", flexible="9+")
    class ProduceRequest:
        '''Append batches to partitions.'''

        transactional_id: str | None = string("3+", nullable="3+", default=None)
        acks: int = int16()
        timeout_ms: int = int32()
        topics: list[TopicProduceData] = array(TopicProduceData)

A decorated class becomes a slotted class without a version inside; every field has a default,
so a message is built by naming what matters. Field order is wire order. `versions` says in which
versions a field is on the wire; outside of them encoding leaves it out and decoding yields the
default. A tagged field names its `tag` and the versions in which it is tagged.

This module only holds declarations; `compiler` turns them into code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, TypeVar, dataclass_transform

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.tuples import NamedTuple
from moldau.protocol.structs import make_struct

C = TypeVar("C")

FOREVER = 32767
"""The highest version number the wire can carry; the open end of `3+`."""


class Versions:
    """A closed range of versions; empty when `first` is above `last`. Never changed."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last

    @staticmethod
    @cache
    def parse(text: str) -> Versions:
        """Read `3`, `3-7`, `3+` or `none`."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return Versions(int(text[:-1]), FOREVER)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Versions):
            return NotImplemented
        return (self.first, self.last) == (other.first, other.last)

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    def __repr__(self) -> str:
        return f"Versions(first={self.first}, last={self.last})"


NEVER = Versions(1, 0)
ALWAYS = Versions(0, FOREVER)


class Kind(Enum):
    """What a field is on the wire."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    FLOAT64 = "float64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    STRUCT = "struct"
    ARRAY = "array"


class Field(NamedTuple):
    """One field of a message, in all its versions."""

    kind: Kind
    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    tag: int | None = None
    tagged: Versions = NEVER
    default: Any = None
    element: Field | None = None
    """For arrays: what one element is (its own versions are not used)."""
    struct: type[Any] | None = None
    """For structs: the class declared with `@struct`."""
    name: str = ""

    def named(self, name: str) -> Field:
        """Return the field under its name in the class that declares it."""
        return Field(*self[:-1], name)


def _field(
    kind: Kind,
    versions: str,
    nullable: str,
    tag: int | None,
    tagged: str | None,
    default: Any,
    *,
    element: Field | None = None,
    struct: type[Any] | None = None,
) -> Any:
    where = Versions.parse(versions)
    return Field(
        kind,
        where,
        Versions.parse(nullable),
        tag,
        NEVER if tag is None else Versions.parse(tagged) if tagged else where,
        default,
        element,
        struct,
    )


def _scalar(kind: Kind, zero: Any) -> Callable[..., Any]:
    def declare(
        versions: str = "0+",
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
        default: Any = zero,
    ) -> Any:
        return _field(kind, versions, nullable, tag, tagged, default)

    declare.__name__ = kind.value
    return declare


boolean = _scalar(Kind.BOOL, zero=False)
int8 = _scalar(Kind.INT8, 0)
int16 = _scalar(Kind.INT16, 0)
uint16 = _scalar(Kind.UINT16, 0)
int32 = _scalar(Kind.INT32, 0)
uint32 = _scalar(Kind.UINT32, 0)
int64 = _scalar(Kind.INT64, 0)
float64 = _scalar(Kind.FLOAT64, 0.0)
uuid = _scalar(Kind.UUID, ZERO_TOPIC_ID)
string = _scalar(Kind.STRING, "")
bytes_ = _scalar(Kind.BYTES, b"")
records = _scalar(Kind.RECORDS, None)
"""Record batches: decoded as a memoryview of the request, encoded from a buffer or file regions."""


def struct_field(
    cls: type[Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    default: Any = ...,
) -> Any:
    """Declare a single nested struct; by default a fresh one, or None where that is given."""
    value = cls if default is ... else default
    return _field(Kind.STRUCT, versions, nullable, tag, tagged, value, struct=cls)


def array(
    element: type[Any] | Callable[..., Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    default: Any = list,
) -> Any:
    """Declare an array of structs (a class) or of scalars (`int32`, `string`, ...)."""
    inner = Field(Kind.STRUCT, struct=element) if isinstance(element, type) else element()
    return _field(Kind.ARRAY, versions, nullable, tag, tagged, default, element=inner)


def _declare(cls: type[C]) -> type[C]:
    fields = [
        declared.named(name) for name, declared in vars(cls).items() if isinstance(declared, Field)
    ]
    made = make_struct(cls, {field.name: field.default for field in fields})
    made.FIELDS = tuple(fields)  # type: ignore[attr-defined]
    return made


# The transforms name no field specifiers: to a type checker `int16()` is then simply a default, and
# every field has one. Named as specifiers, calls without `default=` would make fields required.


@dataclass_transform()
def struct(cls: type[C]) -> type[C]:
    """Declare a part of a message; its versions are those of the message it stands in."""
    return _declare(cls)


@dataclass_transform()
def message(
    *, key: int | None = None, versions: str, flexible: str = "none"
) -> Callable[[type[C]], type[C]]:
    """Declare a message: its API key (or record key), versions, flexible versions.

    The class gets them as `KEY`, `VERSIONS` and `FLEXIBLE`, beside the `FIELDS` of every struct.
    """

    def decorate(cls: type[C]) -> type[C]:
        made = _declare(cls)
        made.KEY = key  # type: ignore[attr-defined]
        made.VERSIONS = Versions.parse(versions)  # type: ignore[attr-defined]
        made.FLEXIBLE = Versions.parse(flexible)  # type: ignore[attr-defined]
        return made

    return decorate
