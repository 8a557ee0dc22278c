"""Messages filled by rule, and the same messages in the terms of other implementations.

`filled` and `bare` build one instance of any declared message from its FIELDS alone, so that every
field of every version is met. `kio_form` turns an instance into kio's class for the same message
and version; `old_form` into the positional values that kafka-python's older classes take.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import types
import typing
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from moldau.protocol.fields import Field, Kind
from moldau.protocol.messages import API_MESSAGES, control_records, metadata_records

CONTROL_RECORDS = (
    control_records.ControlRecordKey,
    control_records.EndTxnMarker,
    control_records.LeaderChangeMessage,
    control_records.SnapshotHeaderRecord,
    control_records.SnapshotFooterRecord,
    control_records.KRaftVersionRecord,
    control_records.VotersRecord,
)
KIO_CONTROL_SCHEMAS = {
    "ControlRecordKey": "control_record_type_schema",
    "EndTxnMarker": "end_txn_marker",
    "LeaderChangeMessage": "leader_change_message",
    "SnapshotHeaderRecord": "snapshot_header_record",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "KRaftVersionRecord": "k_raft_version_record",
    "VotersRecord": "voters_record",
}


def request_and_response(key: int) -> tuple[type[Any], type[Any]]:
    """The two declared classes of an API."""
    module_name, name = API_MESSAGES[key]
    module = importlib.import_module(f"moldau.protocol.messages.{module_name}")
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")


def all_messages() -> list[type[Any]]:
    """Every declared message: requests, responses, stored records."""
    of_apis = itertools.chain.from_iterable(request_and_response(key) for key in API_MESSAGES)
    return [*of_apis, *metadata_records.METADATA_RECORDS.values(), *CONTROL_RECORDS]


def all_versions() -> list[tuple[type[Any], int]]:
    """Every declared message in every version it has."""
    return [(message, version) for message in all_messages() for version in message.VERSIONS]


def kio_class(message: type[Any], version: int) -> type[Any] | None:
    """kio's class for this message and version, or None where kio has none."""
    name = message.__name__
    if name in KIO_CONTROL_SCHEMAS:
        schema, entity = KIO_CONTROL_SCHEMAS[name], EntityType.data
    elif name.endswith(("Request", "Response")):
        schema = api_key_map.get(message.KEY, "")
        entity = EntityType.request if name.endswith("Request") else EntityType.response
    else:
        return None
    path = schema_name_map.get(schema, {}).get(version, {}).get(entity)
    if path is None:
        return None
    module, _, class_name = path.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), class_name)
    return found


def fields_of(struct: type[Any], version: int) -> list[Field]:
    """The fields of a struct that this version has, in declared order."""
    return [field for field in struct.FIELDS if version in field.versions]


def filled(struct: type[Any], version: int) -> Any:
    """An instance in which no field has its default and no two fields have the same value."""
    return _fill(struct, version, itertools.count(1))


def _fill(struct: type[Any], version: int, numbers: Iterator[int]) -> Any:
    values = {
        field.name: _value(field, field.name, version, numbers)
        for field in fields_of(struct, version)
    }
    return struct(**values)


def _value(field: Field, name: str, version: int, numbers: Iterator[int]) -> Any:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        return [_value(field.element, name, version, numbers) for _ in range(2)]
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        return _fill(field.struct, version, numbers)
    number = next(numbers)
    match field.kind:
        case Kind.BOOL:
            return not field.default
        case Kind.STRING:
            return f"{name}-{number}"
        case Kind.BYTES | Kind.RECORDS:
            return f"{name}-{number}".encode()
        case Kind.UUID:
            return number.to_bytes(16, "big")
        case Kind.FLOAT64:
            return number + 0.5
        case Kind.INT8:
            return number % 100 + 10  # stays clear of every default and inside the range
        case Kind.INT16 if name.endswith("error_code"):
            return number % 100 + 1  # kio knows error codes as an enum up to 118
        case _:
            return number + 1000


def bare(struct: type[Any], version: int) -> Any:
    """An instance of defaults, with null wherever this version allows it."""
    values: dict[str, Any] = {}
    for field in fields_of(struct, version):
        if version in field.nullable:
            values[field.name] = None
        elif field.kind is Kind.STRUCT:
            assert field.struct is not None
            values[field.name] = bare(field.struct, version)
        elif field.kind is Kind.RECORDS:
            values[field.name] = b""
    return struct(**values)


def kio_form(message: Any, version: int, form: type[Any]) -> Any:
    """The same message as an instance of kio's class; kio orders fields by keyword only."""
    hints = typing.get_type_hints(form)
    theirs = dataclasses.fields(form)
    ours = fields_of(type(message), version)
    return form(
        **{
            their.name: _kio_value(
                getattr(message, our.name),
                hints[their.name],
                their.metadata.get("kafka_type"),
                version,
            )
            for our, their in zip(ours, theirs, strict=True)
        }
    )


def _kio_value(value: Any, hint: Any, kafka_type: str | None, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        element = typing.get_args(without_none(hint))[0]
        return tuple(_kio_value(one, element, kafka_type, version) for one in value)
    if hasattr(value, "FIELDS"):
        return kio_form(value, version, without_none(hint))
    match kafka_type:
        case "uuid":
            return uuid.UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else datetime.fromtimestamp(value / 1000, UTC)
        case _:
            return value


def without_none(hint: Any) -> Any:
    """The type in `X | None`, or the type itself."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def old_form(message: Any, version: int) -> tuple[Any, ...]:
    """The values in wire order, structs as tuples: how kafka-python's older classes take them."""
    return tuple(
        _old_value(getattr(message, field.name), version)
        for field in fields_of(type(message), version)
    )


def _old_value(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_old_value(one, version) for one in value]
    return old_form(value, version) if hasattr(value, "FIELDS") else value
