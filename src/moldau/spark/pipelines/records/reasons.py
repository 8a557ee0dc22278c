"""What is wrong with a record, in words: the first of several conditions that holds.

Also when that is so of so many records that somebody should look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.base.errors import UserError

BAD_COUNT_MIN: Final = 20
"""Below this many bad records their ratio says nothing."""

Reason = tuple[Column, str | Column]
"""When it holds, and what is said then."""


def first_reason(reasons: Sequence[Reason]) -> Column:
    """Return what is said of a record; null if no condition holds."""
    (condition, text), *rest = reasons
    found = F.when(condition, text)
    for condition, text in rest:
        found = found.when(condition, text)
    return found


def unfit(name: str, size_max: int) -> Reason:
    """Find fault with a text that is missing, empty or too long."""
    size = F.coalesce(F.length(F.col(name)), F.lit(0))
    is_unfit = (size == 0) | (size > size_max)
    return is_unfit, f"no {name}, or one of more than {size_max} characters"


def too_large(size_max: int) -> Reason:
    """Find fault with a record that was cut by `Stage.records`, as it was larger than that."""
    size = F.col("size")
    return size > size_max, F.concat(size.cast("string"), F.lit(f" bytes, more than {size_max}"))


def check_ratio(dead: int, total: int, allowed: float | None) -> None:
    """Stop where so much is bad that somebody should look; call it before anything is filed."""
    if allowed is not None and dead >= BAD_COUNT_MIN and dead / total > allowed:
        raise UserError(
            f"{dead} of {total} records cannot be read, more than --bad-ratio {allowed:g} allows:"
            " look at what is sent, or go on with a higher one to have them filed as dead letters"
        )
