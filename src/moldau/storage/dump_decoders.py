"""Decoders of the dump tool, which convert keys and values to text.

A decoder takes a record and returns the texts for its key and its payload; None omits one. The
decoders of internal topics are on the floor above, which knows their records. A decoder never
raises: for unreadable bytes it returns an error text, where Kafka's tool prints one.
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
    """The texts for the key and the value of a record."""

    key: str | None
    payload: str | None


Decoder = Callable[[InspectedRecord], Contents]


def plain_text(record: InspectedRecord) -> Contents:
    """Decode keys and values as UTF-8."""
    return Contents(_text(record.key), _text(record.value))


def metadata_record(record: InspectedRecord) -> Contents:
    """Decode values as records of the metadata log, which have no keys."""
    try:
        return Contents(None, metadata_record_text(record.value))
    except ProtocolError as error:
        return Contents(None, f"Error at {record.offset}, skipping. {error}")


def by_classes(key_class: str, value_class: str) -> Decoder:
    """Return the decoder for the names of two of Kafka's decoder classes; UserError if unknown."""
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
    """Decode the integer at the start of the bytes, as Kafka does; an error text if too short."""
    if content is None:
        return None
    if len(content) < size:
        return f"({len(content)} bytes, not {size})"
    return str(int.from_bytes(content[:size], signed=True))
