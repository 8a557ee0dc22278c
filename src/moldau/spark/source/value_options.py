"""What the values of records are taken for, as options say it: a format, and what it takes to read.

A schema may be given as text or, where such texts are long, as the path of a file. Files are read
here, on the driver: executors are sent what stands in them.
"""

from __future__ import annotations

import base64
import binascii
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from moldau.base.errors import ConfigError
from moldau.spark.settings import Options


class ValueFormat(Enum):
    """What a value is."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


VALUE_FORMAT: Final = "valueFormat"
VALUE_HEADER: Final = "valueHeader"
JSON_SCHEMA: Final = "valueSchema"
AVRO_SCHEMA: Final = "avroSchema"
DESCRIPTORS: Final = "protobufDescriptors"
MESSAGE: Final = "protobufMessage"
DEAD_LETTER_TOPIC: Final = "deadLetterTopic"

NAMES: Final = (
    VALUE_FORMAT, VALUE_HEADER, JSON_SCHEMA, AVRO_SCHEMA, DESCRIPTORS, MESSAGE, DEAD_LETTER_TOPIC,
)  # fmt: skip

_NEEDED: Final = {
    ValueFormat.BINARY: (),
    ValueFormat.STRING: (),
    ValueFormat.JSON: (JSON_SCHEMA,),
    ValueFormat.AVRO: (AVRO_SCHEMA,),
    ValueFormat.PROTOBUF: (DESCRIPTORS, MESSAGE),
}
_EXAMPLES: Final = {
    JSON_SCHEMA: "valueSchema='id BIGINT, name STRING' says what to read from the values",
    AVRO_SCHEMA: "avroSchema is the schema that values were written with, as JSON or as a file",
    DESCRIPTORS: "protobufDescriptors is a file made by protoc --include_imports"
    " --descriptor_set_out=FILE, or its bytes in base64",
    MESSAGE: "protobufMessage names the message with its package, such as shop.Order",
}
_AVRO_TEXTS: Final = ("{", "[", '"')
"""How a schema in JSON begins; everything else is the path of one."""


class ValueOptions(NamedTuple):
    """How values are read. Travels to executors, so it holds plain values only."""

    format: ValueFormat = ValueFormat.BINARY
    schema: str = ""
    """Of JSON as the user wrote it, of Avro as JSON, of Protobuf a FileDescriptorSet in base64."""
    message: str = ""
    """Of Protobuf: the full name."""
    has_header: bool = False
    """Whether each value begins with the header of Confluent's serializers: a zero, and the number
    of a schema in a registry. The number is passed over."""
    dead_letter_topic: str | None = None
    """Where bad values go; without one they stand in a column of their own."""

    @classmethod
    def from_options(cls, options: Options) -> ValueOptions:
        """Read the options; ConfigError says in one line what is wrong with them."""
        kind = ValueFormat(
            options.choice(VALUE_FORMAT, [one.value for one in ValueFormat], default="binary")
        )
        _check_needed(options, kind)
        header = options.choice(VALUE_HEADER, ("none", "confluent"), default="none")
        topic = options.text(DEAD_LETTER_TOPIC)
        for name, is_given in ((VALUE_HEADER, header != "none"), (DEAD_LETTER_TOPIC, topic)):
            if is_given and kind is ValueFormat.BINARY:
                raise ConfigError(f"{name} has no effect on values that are not read: set"
                                  f" {VALUE_FORMAT}")  # fmt: skip
        if topic is not None and not topic.strip():
            raise ConfigError(f"{DEAD_LETTER_TOPIC} is empty: name a topic, or leave it out")
        return cls(
            kind,
            _schema(options, kind),
            (options.text(MESSAGE) or "").strip().lstrip("."),
            header == "confluent",
            topic,
        )


def _check_needed(options: Options, kind: ValueFormat) -> None:
    """Refuse what the format needs and has not, and what only another format needs."""
    for owner, names in _NEEDED.items():
        for name in names:
            if (owner is kind) != (name in options):
                raise ConfigError(
                    f"{VALUE_FORMAT}={owner.value} and {name} go together: {_EXAMPLES[name]}"
                )


def _schema(options: Options, kind: ValueFormat) -> str:
    match kind:
        case ValueFormat.JSON:
            return options.text(JSON_SCHEMA) or ""
        case ValueFormat.AVRO:
            return _avro_schema((options.text(AVRO_SCHEMA) or "").strip())
        case ValueFormat.PROTOBUF:
            return _descriptors((options.text(DESCRIPTORS) or "").strip())
        case _:
            return ""


def _avro_schema(given: str) -> str:
    if given.startswith(_AVRO_TEXTS):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{AVRO_SCHEMA}={given!r} is neither JSON nor a file that can be read: {error}"
        ) from None


def _descriptors(given: str) -> str:
    try:
        base64.b64decode(given, validate=True)
    except binascii.Error:
        pass
    else:
        if given and not _is_file(given):
            return given
    try:
        return base64.b64encode(Path(given).read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{DESCRIPTORS}={given[:80]!r} is neither base64 nor a file that can be read: {error}"
        ) from None


def _is_file(given: str) -> bool:
    """Tell whether what could be base64 is the path of a file: one such as `orders` could be."""
    try:
        return Path(given).is_file()
    except OSError:  # longer than any path
        return False
