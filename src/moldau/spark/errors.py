"""What a query on topics can end with, by names that say whether it would end so again.

    UserError
    |-- DataLost            records are gone; a query that goes on has a gap
    |-- ReadInterrupted     passes by itself: their leader is away, or too slow
    `-- WriteInterrupted    passes by itself: brokers are away, or too slow

Spark hands on of an error nothing but its name and its text, so a pipeline goes by these names:
what is interrupted is tried again, any other `UserError` ends it. `moldau.errors` has them for
users; this module knows neither source nor sink, which raise them.
"""

# ruff: noqa: N818 - an exception here is named for what happened

from __future__ import annotations

from moldau.base.errors import UserError


class DataLost(UserError):
    """Records that a query should have read are not there any more."""

    advice = "Set failOnDataLoss=false to go on with what is there; a pipeline needs a new --out."


class ReadInterrupted(UserError):
    """Records did not come to Spark: their leader is away, or too slow."""

    retriable = True
    advice = "Run the query again once the brokers are back."


class WriteInterrupted(UserError):
    """Rows of Spark could not be written: brokers are away, or too slow."""

    retriable = True
    advice = "Run the query again once the brokers are back."
