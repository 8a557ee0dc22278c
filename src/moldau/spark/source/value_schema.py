"""The schema of values, from what the user wrote: `id BIGINT, tags ARRAY<STRING>`, or Spark's JSON.

Spark's own reader of such texts lives in its JVM, which the Python processes of a source cannot
reach. This one reads the types that values in JSON have; numbers with a fixed number of digits,
dates and times are left to Spark: read them as STRING, and cast.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from moldau.base.errors import ConfigError

_PLAIN: Final[dict[str, type[DataType]]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "string": StringType,
}
_WORD: Final = re.compile(r"`(?:[^`]|``)*`|[A-Za-z0-9_]+|[<>,:]|\S")


def parse_value_schema(text: str) -> StructType:
    """Read a schema; ConfigError says what could not be read."""
    found = _from_json(text) if text.lstrip().startswith("{") else _Words(text).schema()
    if not found.fields:
        raise ConfigError("valueSchema names no column")
    _check(found)
    return found


def _from_json(text: str) -> StructType:
    try:
        return StructType.fromJson(json.loads(text))
    except Exception as error:  # noqa: BLE001 - Spark raises whatever it stumbles over
        raise ConfigError(f"valueSchema is no schema in Spark's JSON: {error}") from None


def _check(kind: DataType) -> None:
    """Refuse types that values in JSON are not read as."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check(field.dataType)
    elif isinstance(kind, ArrayType):
        _check(kind.elementType)
    elif type(kind) not in _PLAIN.values():
        raise ConfigError(
            f"valueSchema: {kind.simpleString()} is not read from JSON: take STRING, and cast"
        )


class _Words:
    """Reads a schema word by word."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = _WORD.findall(text)
        self._words.reverse()

    def schema(self) -> StructType:
        """Read `name TYPE, name TYPE` to the end."""
        fields = self._fields(end="")
        if self._words:
            self._refuse()
        return StructType(fields)

    def _fields(self, end: str) -> list[StructField]:
        fields: list[StructField] = []
        while self._peek() != end:
            if fields:
                self._expect(",")
            name = self._name()
            if self._peek() == ":":
                self._words.pop()
            fields.append(StructField(name, self._type()))
        return fields

    def _name(self) -> str:
        word = self._peek()
        if not re.match(r"[`A-Za-z0-9_]", word):
            self._refuse()
        self._words.pop()
        return word[1:-1].replace("``", "`") if word.startswith("`") else word

    def _type(self) -> DataType:
        word = self._peek().lower()
        if word not in (*_PLAIN, "array", "struct"):
            self._refuse()
        self._words.pop()
        if word in _PLAIN:
            return _PLAIN[word]()
        self._expect("<")
        found: DataType
        found = StructType(self._fields(end=">")) if word == "struct" else ArrayType(self._type())
        self._expect(">")
        return found

    def _expect(self, word: str) -> None:
        if self._peek() != word:
            self._refuse()
        self._words.pop()

    def _peek(self) -> str:
        return self._words[-1] if self._words else ""

    def _refuse(self) -> NoReturn:
        where = f"at {self._peek()!r}" if self._words else "at its end"
        raise ConfigError(
            f"valueSchema={self._text!r} cannot be read {where}: it is like 'id BIGINT, name"
            f" STRING, tags ARRAY<STRING>', of the types {', '.join(sorted(_PLAIN))}, array, struct"
        )
