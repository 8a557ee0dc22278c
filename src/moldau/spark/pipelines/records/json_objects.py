"""Records that are one JSON object each, read by Spark.

Spark's own reading stops behind the first object: what follows, another object or nonsense, would
be dropped without a word. So a record is read as a member of an object that goes on behind it,

    {"told": <the record>, "end": <the record's hash>}

which cannot be read unless the record is one whole value, or one with further members behind it:
`{...}, "more": {...}`. Those are no JSON in an array, where it is looked for them if there may be
any. The hash is there so that no record can bring the end itself. Texts in single quotes, which
Spark would take, are no JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.records.reasons import Reason

_BROKEN: Final = "broken"
_OPTIONS: Final = {"columnNameOfCorruptRecord": _BROKEN, "allowSingleQuotes": "false"}
_MAY_GO_ON: Final = r"\}\s*,"
"""What stands before members behind an object, and in few records otherwise."""


def read_object(text: Column, names: Iterable[str]) -> Column:
    """Return the members of these names, as texts, under `told` of the column.

    Whether there are any `not_an_object` says.
    """
    members = ", ".join(f"{name}: STRING" for name in names)
    schema = f"told STRUCT<{members}>, end BIGINT, {_BROKEN} STRING"
    whole = F.concat(F.lit('{"told":'), text, F.lit(',"end":'), F.xxhash64(text), F.lit("}"))
    return F.from_json(whole, schema, _OPTIONS)


def not_an_object(read: str, text: Column) -> Reason:
    """Find fault with a text of which `read_object` has made nothing, in the column `read`."""
    is_whole = F.col(f"{read}.{_BROKEN}").isNull() & (F.col(f"{read}.end") == F.xxhash64(text))
    values = F.from_json(F.concat(F.lit("["), text, F.lit("]")), "ARRAY<STRING>", _OPTIONS)
    is_one = ~text.rlike(_MAY_GO_ON) | (F.size(values) == 1)
    is_object = F.col(f"{read}.told").isNotNull() & F.coalesce(is_whole & is_one, F.lit(False))
    return ~is_object, "not one JSON object"
