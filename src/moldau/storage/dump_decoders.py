"""What the dump tool makes of keys and values: text, by a decoder that was asked for.

A decoder takes a record and says what to print as its key and as its payload; None leaves either
out. Those of internal topics come from the floor above, which knows their records. A decoder never
raises: what it cannot read it says in words, in the place where Kafka's tool says it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.base.errors import ProtocolError, UserError
from moldau.storage.inspection import InspectedRecord
from moldau.storage.metadata_json import metadata_record_text

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"

_INTEGER_SIZES: Final = {"IntegerDecoder": 4, "LongDecoder": 8}
_PACKAGES: Final = ("org.apache.kafka.tools.api", "kafka.serializer")
"""Where Kafka keeps its decoders: since 3.9, and before."""


class Contents(NamedTuple):
    """What is printed of one record's key and value."""

    key: str | None
    payload: str | None


Decoder = Callable[[InspectedRecord], Contents]


def plain_text(record: InspectedRecord) -> Contents:
    """Take keys and values for text."""
    return Contents(_text(record.key), _text(record.value))


def metadata_record(record: InspectedRecord) -> Contents:
    """Take values for records of the metadata log, which have no keys."""
    try:
        return Contents(None, metadata_record_text(record.value))
    except ProtocolError as error:
        return Contents(None, f"Error at {record.offset}, skipping. {error}")


def by_classes(key_class: str, value_class: str) -> Decoder:
    """Decode by the names of Kafka's own decoder classes; UserError for any other."""
    key_decoder, value_decoder = _decoder_of(key_class), _decoder_of(value_class)
    return lambda record: Contents(key_decoder(record.key), value_decoder(record.value))


def _decoder_of(class_name: str) -> Callable[[bytes | None], str | None]:
    package, _, name = class_name.rpartition(".")
    if package in _PACKAGES:
        if name == "StringDecoder":
            return _text
        if name in _INTEGER_SIZES:
            return lambda content: _integer(content, _INTEGER_SIZES[name])
    known = ", ".join(("StringDecoder", *_INTEGER_SIZES))
    raise UserError(f"{class_name} cannot be run here; {_PACKAGES[0]} has {known}")


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def _integer(content: bytes | None, size: int) -> str | None:
    """Read the number that bytes begin with, as Kafka does; too few are said to be."""
    if content is None:
        return None
    if len(content) < size:
        return f"({len(content)} bytes, not {size})"
    return str(int.from_bytes(content[:size], signed=True))
