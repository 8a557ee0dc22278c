"""The errors of Spark sources and sinks; their names tell whether a retry can help.

    UserError
    |-- DataLost            permanent: records are gone, and going on would leave a gap
    |-- ReadInterrupted     temporary: the leader is down or too slow
    `-- WriteInterrupted    temporary: brokers are down or too slow

Spark passes on only the name and the text of an error, so pipelines decide by name. They retry
after an interruption; any other `UserError` ends them. Users import these from `moldau.errors`.
This module does not know source and sink, which raise them.
"""

# ruff: noqa: N818 - an exception here is named for what happened

from __future__ import annotations

from moldau.base.errors import UserError


class DataLost(UserError):
    """Records were deleted before the query could read them."""

    advice = "Set failOnDataLoss=false to continue without them; a pipeline needs a new --out."


class ReadInterrupted(UserError):
    """Spark could not read records: the leader is down or too slow."""

    retriable = True
    advice = "Run the query again when the brokers are back."


class WriteInterrupted(UserError):
    """Spark could not write rows: brokers are down or too slow."""

    retriable = True
    advice = "Run the query again when the brokers are back."
