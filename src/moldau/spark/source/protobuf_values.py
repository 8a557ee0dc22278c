"""Values in Protocol Buffers: what Spark is told they are, and how each is read.

The message comes as protoc compiles it, in a set of file descriptors with everything it imports. A
field that can be told from one that is not there is null when it is not; others have their
default, as for every reader of such messages. Unsigned numbers get the next wider type of Spark's.

protobuf is asked for when the first query wants it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final, NamedTuple, NoReturn

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.base.errors import ConfigError
from moldau.spark.shipping import needed_library

Reading = Callable[[Any], Any]
"""From what a message holds to what Arrow takes."""

_TIMESTAMP: Final = "google.protobuf.Timestamp"

_BY_CPP_TYPE: Final[Mapping[str, DataType]] = {
    "INT32": IntegerType(),
    "INT64": LongType(),
    "UINT32": LongType(),
    "UINT64": DecimalType(20, 0),
    "DOUBLE": DoubleType(),
    "FLOAT": FloatType(),
    "BOOL": BooleanType(),
    "ENUM": StringType(),
    "STRING": StringType(),
}
"""By the name of `FieldDescriptor.CPPTYPE_...`."""


class _Kind(NamedTuple):
    """What a field is to Spark, and how it is read; None where it is taken as it is."""

    type: DataType
    read: Reading | None = None


def protobuf_type(descriptors: str, message: str) -> DataType:
    """Return what values of a message are to Spark; ConfigError if they cannot be read."""
    return _message_kind(_message(descriptors, message), ()).type


def protobuf_decoder(descriptors: str, message: str) -> Callable[[bytes], Any]:
    """Return what reads one value, or raises."""
    described = _message(descriptors, message)
    parse = _library("message_factory").GetMessageClass(described).FromString
    read = _message_kind(described, ()).read
    assert read is not None

    def decode(value: bytes) -> Any:
        found = parse(value)
        if not found.IsInitialized():
            missing = ", ".join(found.FindInitializationErrors())
            raise ValueError(f"required fields are missing: {missing}")
        return read(found)

    return decode


def _library(part: str) -> Any:
    return needed_library(
        f"google.protobuf.{part}", asking="valueFormat=protobuf", extra="protobuf"
    )


def _message(descriptors: str, name: str) -> Any:
    files = _library("descriptor_pb2").FileDescriptorSet()
    pool = _library("descriptor_pool").DescriptorPool()
    try:
        files.ParseFromString(base64.b64decode(descriptors))
        for file in files.file:
            pool.Add(file)
    except Exception as error:  # noqa: BLE001 - protobuf raises whatever it stumbles over
        raise ConfigError(
            f"protobufDescriptors is no whole set of descriptors ({error}): make it with protoc"
            " --include_imports --descriptor_set_out=FILE"
        ) from None
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        known = [
            f"{file.package}.{one.name}".lstrip(".")
            for file in files.file
            for one in file.message_type
        ]
        raise ConfigError(
            f"protobufMessage={name!r} is not described by protobufDescriptors, which has"
            f" {', '.join(sorted(known)[:10]) or 'none'}"
        ) from None


def _message_kind(described: Any, above: tuple[str, ...]) -> _Kind:
    if described.full_name == _TIMESTAMP:
        return _Kind(TimestampType(), _as_moment)
    if described.full_name in above:
        _refuse(described.full_name, "holds itself, of which Spark has no column")
    if not described.fields:
        _refuse(described.full_name, "has no fields")
    inside = (*above, described.full_name)
    kinds = [(field, _field_kind(field, inside)) for field in described.fields]
    readers = [(field.name, _reader(field, kind.read)) for field, kind in kinds]

    def read(message: Any) -> dict[str, Any]:
        return {name: reading(message) for name, reading in readers}

    return _Kind(StructType([StructField(field.name, kind.type) for field, kind in kinds]), read)


def _field_kind(field: Any, above: tuple[str, ...]) -> _Kind:
    """Return what a field is, all its items together where there are several."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map_kind(field.message_type, above)
    single = _single_kind(field, above)
    if not _is_repeated(field):
        return single
    kind = ArrayType(single.type)
    read = single.read
    return _Kind(kind, list if read is None else lambda items: [read(one) for one in items])


def _map_kind(entry: Any, above: tuple[str, ...]) -> _Kind:
    key, value = (_single_kind(entry.fields_by_name[name], above) for name in ("key", "value"))
    read = value.read

    def pairs(entries: Any) -> list[tuple[Any, Any]]:
        return [(name, one if read is None else read(one)) for name, one in entries.items()]

    return _Kind(MapType(key.type, value.type), pairs)


def _single_kind(field: Any, above: tuple[str, ...]) -> _Kind:
    if field.message_type is not None:
        return _message_kind(field.message_type, above)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return _Kind(StringType(), lambda number: names.get(number, str(number)))
    if field.type == field.TYPE_BYTES:
        return _Kind(BinaryType())
    return _Kind(_BY_CPP_TYPE[_cpp_type_name(field)])


def _cpp_type_name(field: Any) -> str:
    return next(
        name for name in _BY_CPP_TYPE if getattr(field, f"CPPTYPE_{name}") == field.cpp_type
    )


def _reader(field: Any, read: Reading | None) -> Reading:
    """Return what reads a field of a message; null where it is known not to be there."""
    name = field.name
    if field.has_presence:

        def present(message: Any) -> Any:
            if not message.HasField(name):
                return None
            value = getattr(message, name)
            return value if read is None else read(value)

        return present
    if read is None:
        return lambda message: getattr(message, name)
    return lambda message: read(getattr(message, name))


def _is_repeated(field: Any) -> bool:
    """Tell whether there may be several; protobuf 7 has another way to say so than 5."""
    told = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if told is None else bool(told)


def _as_moment(timestamp: Any) -> Any:
    return timestamp.ToDatetime(tzinfo=UTC)


def _refuse(name: str, what: str) -> NoReturn:
    raise ConfigError(
        f"protobufMessage: {name} {what}: read the values as binary, and use from_protobuf"
    )
