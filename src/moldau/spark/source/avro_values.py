"""Values in Avro: what Spark is told they are, and how each is read.

Types are those that Spark's own `from_avro` makes, so that a query moves; a union is read where it
stands for "or null", or for numbers of two sizes. The schema is the one that values were written
with: there is no registry to ask for another.

fastavro is asked for when the first query wants it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.base.errors import ConfigError
from moldau.spark.shipping import needed_library

_PLAIN: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
_LOGICAL: Final[Mapping[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_DECIMAL: Final = "decimal"
_DIGITS_MAX: Final = 38
"""Of a decimal number of Spark's."""


def avro_type(schema: str) -> DataType:
    """Return what values of a schema are to Spark; ConfigError if they cannot be read."""
    library = _library()
    try:
        expanded = library.schema.expand_schema(json.loads(schema))
    except Exception as error:  # noqa: BLE001 - fastavro raises whatever it stumbles over
        raise ConfigError(f"avroSchema is no schema: {error or type(error).__name__}") from None
    return _spark_type(expanded, "the value")


def avro_decoder(schema: str) -> Callable[[bytes], Any]:
    """Return what reads one value, or raises."""
    read = _library().schemaless_reader
    parsed = _library().parse_schema(_as_read(json.loads(schema)))

    def decode(value: bytes) -> Any:
        stream = io.BytesIO(value)
        try:
            found = read(stream, parsed, None)
        except EOFError:
            raise ValueError("the value ends before its last field") from None
        if stream.tell() != len(value):
            # What has another schema often reads well as far as it goes.
            raise ValueError(f"{len(value) - stream.tell()} bytes are left behind the last field")
        return found

    return decode


def _library() -> Any:
    return needed_library("fastavro", asking="valueFormat=avro", extra="avro")


def _as_read(schema: Any) -> Any:
    """Leave out what says that a number or text is something else, where Spark takes it as it is.

    Times of day and UUIDs are that.
    """
    match schema:
        case list():
            return [_as_read(one) for one in schema]
        case dict():
            kept = (*_LOGICAL, _DECIMAL)
            return {
                name: _as_read(one)
                for name, one in schema.items()
                if name != "logicalType" or one in kept
            }
        case _:
            return schema


def _spark_type(schema: Any, where: str) -> DataType:
    match schema:
        case list():
            return _union_type(schema, where)
        case {"logicalType": str(logical)} if logical in (*_LOGICAL, _DECIMAL):
            return _logical_type(schema, logical, where)
        case {"type": "record" | "enum" | "fixed" | "array" | "map" as kind}:
            return _made_type(schema, kind, where)
        case {"type": dict() | list() as inner}:
            return _spark_type(inner, where)
        case {"type": str(name)} | str(name) if name in _PLAIN:
            return _PLAIN[name]
    raise _refusal("is of a type that cannot be read: empty, or one that holds itself", where)


def _made_type(schema: Mapping[str, Any], kind: str, where: str) -> DataType:
    """Return what a type is that is made of others, or made up."""
    match kind:
        case "record" if schema["fields"]:
            return StructType(
                [
                    StructField(field["name"], _spark_type(field["type"], field["name"]))
                    for field in schema["fields"]
                ]
            )
        case "enum":
            return StringType()
        case "fixed" if schema["size"] > 0:
            return BinaryType()
        case "array":
            return ArrayType(_spark_type(schema["items"], f"an item of {where}"))
        case "map":
            return MapType(StringType(), _spark_type(schema["values"], f"a value of {where}"))
    raise _refusal("is of a type without content", where)


def _logical_type(schema: Mapping[str, Any], logical: str, where: str) -> DataType:
    """Return what a number or bytes stand for."""
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    precision = schema.get("precision", 0)
    if precision < 1:
        raise _refusal("is a decimal that does not say how many digits it has", where)
    if precision > _DIGITS_MAX:
        raise _refusal(f"has {precision} digits, and Spark {_DIGITS_MAX}", where)
    return DecimalType(precision, schema.get("scale", 0))


def _union_type(branches: list[Any], where: str) -> DataType:
    """Return what "one of these" is: null is no type of its own, and a wide number holds both."""
    found = [_spark_type(one, where) for one in branches if one not in ("null", {"type": "null"})]
    match found:
        case [only]:
            return only
        case [IntegerType() | LongType(), IntegerType() | LongType()]:
            return LongType()
        case [FloatType() | DoubleType(), FloatType() | DoubleType()]:
            return DoubleType()
    raise _refusal("may be of several types, of which Spark has no column", where)


def _refusal(what: str, where: str) -> ConfigError:
    return ConfigError(f"avroSchema: {where} {what}: read the values as binary, and use from_avro")
