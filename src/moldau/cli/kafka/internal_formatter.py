"""The records of `__consumer_offsets` and `__transaction_state` as the console consumer shows them.

One JSON object each: what the record is about and what it says, field by field under Kafka's names.
Each of Kafka's formatters shows records of its own types and passes over all others in silence. The
dump tool shows the same records in a form of its own; see `coordination.record_texts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.cli.frame import client
from moldau.coordination.groups.records import CommittedOffset, GroupKey, GroupValue, OffsetKey
from moldau.coordination.transactions.records import TransactionLogKey, TransactionLogValue
from moldau.protocol.compiler import decoder
from moldau.protocol.json_form import as_json, json_text

NUMBER_SIZE: Final = 2
"""Of what stands first: in a key the type of the record, in a value its version."""
KEY_VERSION: Final = 0
"""Keys never change, or compaction would take one for another."""


class TypedRecord(NamedTuple):
    """What records of one type are."""

    key: type[Any]
    value: type[Any]


OFFSET: Final = TypedRecord(OffsetKey, CommittedOffset)
FORMS: Final[Mapping[str, Mapping[int, TypedRecord]]] = {
    "OffsetsMessageFormatter": {0: OFFSET, 1: OFFSET},
    "GroupMetadataMessageFormatter": {2: TypedRecord(GroupKey, GroupValue)},
    "TransactionLogMessageFormatter": {0: TypedRecord(TransactionLogKey, TransactionLogValue)},
}
"""Kafka's formatters by the last part of their names -> the types of records that each shows."""


class InternalFormatter:
    """Shows records of some types."""

    def __init__(self, forms: Mapping[int, TypedRecord]) -> None:
        self._forms = forms

    def __call__(self, record: client.Record[bytes | None, bytes | None]) -> bytes:
        """Return the JSON of a record, or nothing; ValueError if it cannot be read."""
        try:
            shown = self._shown(record.key, record.value)
        except ProtocolError as error:
            raise ValueError(f"could not be read: {error}") from error
        return b"" if shown is None else json_text(shown).encode()

    def _shown(self, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
        if key is None:
            return None
        record_type = leading_number(key)
        form = self._forms.get(record_type)
        if form is None:
            return None
        about = {"type": record_type, "data": _fields(form.key, KEY_VERSION, key)}
        if value is None:
            return {"key": about, "value": None}
        version = leading_number(value)
        if version not in form.value.VERSIONS:
            raise CorruptRecords(f"a value of type {record_type} in version {version}")
        says = {"version": version, "data": _fields(form.value, version, value)}
        return {"key": about, "value": says}


def _fields(declared: type[Any], version: int, content: bytes) -> dict[str, Any]:
    message, _ = decoder(declared, version)(memoryview(content), NUMBER_SIZE)
    return as_json(message, version)


def leading_number(content: bytes) -> int:
    """Return the type of a record, from its key, or its version, from its value."""
    if len(content) < NUMBER_SIZE:
        raise CorruptRecords(f"a key or a value of {len(content)} bytes")
    return int.from_bytes(content[:NUMBER_SIZE], signed=True)
