"""The records of the internal topics as text, for the dump tool, as Kafka's tool prints them.

A key is JSON with the record's type, a value is JSON with its version. If a record cannot be read,
an error stands in place of its key. Only offline tools call this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.coordination.groups import records as group_records
from moldau.coordination.groups.subscription import CONSUMER_PROTOCOL_TYPE
from moldau.coordination.transactions import records as transaction_records
from moldau.protocol.compiler import decoder
from moldau.protocol.json_form import as_json, json_text
from moldau.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from moldau.storage.dump_decoders import Contents
from moldau.storage.inspection import InspectedRecord

_NUMBER_SIZE: Final = 2
_DELETED: Final = "<DELETE>"

_EMBEDDED: Final = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
"""The messages that consumers put into these fields of a group's record."""


class _RecordTypes(NamedTuple):
    """The key and the value of one type of records."""

    key: type[Any]
    value: type[Any]
    show: Callable[[Any, int], dict[str, Any]] = as_json


def _group_as_json(group: Any, version: int) -> dict[str, Any]:
    """Show a group; if its members are consumers, with their subscriptions and assignments."""
    shown = as_json(group, version)
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for member, fields in zip(group.members, shown["members"], strict=True):
            for name, declared in _EMBEDDED.items():
                embedded = _embedded(declared, getattr(member, name))
                if embedded is not None:
                    fields[name] = embedded
    return shown


def _embedded(declared: type[Any], content: bytes) -> dict[str, Any] | None:
    """Decode bytes that a client sent; None if they are another message."""
    try:
        message, version = _numbered(declared, content)
    except ProtocolError:
        return None
    return as_json(message, version)


_OFFSET: Final = _RecordTypes(group_records.OffsetKey, group_records.CommittedOffset)
_GROUP: Final = _RecordTypes(group_records.GroupKey, group_records.GroupValue, _group_as_json)
_TRANSACTION: Final = _RecordTypes(
    transaction_records.TransactionLogKey, transaction_records.TransactionLogValue
)

_OFFSETS_TOPIC: Final = {0: _OFFSET, 1: _OFFSET, 2: _GROUP}
_TRANSACTIONS_TOPIC: Final = {0: _TRANSACTION}


def offsets_record(record: InspectedRecord) -> Contents:
    """Show a record of __consumer_offsets."""
    return _shown(record, _OFFSETS_TOPIC)


def transaction_record(record: InspectedRecord) -> Contents:
    """Show a record of __transaction_state."""
    return _shown(record, _TRANSACTIONS_TOPIC)


def _shown(record: InspectedRecord, forms: dict[int, _RecordTypes]) -> Contents:
    try:
        record_type = _number(record.key)
        form = forms.get(record_type)
        if form is None:
            unknown = f"Unknown record type {record_type} at offset {record.offset}, skipping."
            return Contents(unknown, None)
        key, _ = decoder(form.key, 0)(memoryview(record.key or b""), _NUMBER_SIZE)
        shown_key = json_text({"type": str(record_type), "data": as_json(key, 0)})
        if record.value is None:
            return Contents(shown_key, _DELETED)
        value, version = _numbered(form.value, record.value)
        shown_value = json_text({"version": str(version), "data": form.show(value, version)})
    except ProtocolError as error:
        return Contents(f"Error at offset {record.offset}, skipping. {error}", None)
    return Contents(shown_key, shown_value)


def _numbered(declared: type[Any], content: bytes) -> tuple[Any, int]:
    """Read a version, then the message in that version."""
    version = _number(content)
    if version not in declared.VERSIONS:
        raise CorruptRecords(f"{declared.__name__} has no version {version}")
    return decoder(declared, version)(memoryview(content), _NUMBER_SIZE)[0], version


def _number(content: bytes | None) -> int:
    if content is None or len(content) < _NUMBER_SIZE:
        raise CorruptRecords("a key or a value begins with two bytes that say what it is")
    return int.from_bytes(content[:_NUMBER_SIZE], signed=True)
