"""What Spark tells of a query after each batch, reduced to what somebody wants to know.

Pure: from the JSON of Spark's progress to figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from moldau.spark.lag import rows_behind


class Figures(NamedTuple):
    """How one query goes."""

    query: str
    batch: int = -1
    rows: int = 0
    """Of the last batch."""
    rows_per_second: float = 0.0
    batch_ms: int = 0
    """How long the last batch took."""
    lag: int | None = None
    """Records that were there and not yet read; None where that is not known."""
    watermark_ms: int | None = None
    """Spark's own, of a query that has one."""
    dropped: int = 0
    """Groups of rows that Spark's watermark has dropped in the last batch."""


def figures_of(progress: Mapping[str, Any]) -> Figures:
    """Read the progress of a query."""
    operators: Sequence[Mapping[str, Any]] = progress.get("stateOperators") or ()
    durations = progress.get("durationMs") or {}
    return Figures(
        query=progress.get("name") or "",
        batch=int(progress.get("batchId", -1)),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_second=float(progress.get("processedRowsPerSecond") or 0.0),
        batch_ms=int(progress.get("batchDuration") or durations.get("triggerExecution") or 0),
        lag=_lag(progress.get("sources") or ()),
        watermark_ms=_watermark_ms(progress.get("eventTime") or {}),
        dropped=sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in operators),
    )


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Add up how many records all sources have before them."""
    known = [behind for one in sources if (behind := rows_behind(one)) is not None]
    return sum(sum(behind.values()) for behind in known) if known else None


def _watermark_ms(event_time: Mapping[str, str]) -> int | None:
    text = event_time.get("watermark")
    if text is None:
        return None
    watermark_ms = round(datetime.fromisoformat(text).timestamp() * 1000)
    return watermark_ms or None
