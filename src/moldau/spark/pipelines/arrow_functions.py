"""Functions of plain Python over Arrow columns, which Spark runs in its workers.

It is Spark's own way to make them, and needs no pandas; Spark's type hints just do not know it yet.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]


def arrow_function(function: Callable[..., pa.Array], returned: str) -> Callable[..., Column]:
    """Return a function of columns; `returned` is the SQL type of what it gives.

    What `function` needs besides its columns travels with it; all of them are annotated as
    `pa.Array`, from which Spark sees what kind of function it is.
    """
    made: Callable[..., Column] = arrow_udf(function, returned)
    return made
