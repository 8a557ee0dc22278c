"""What a measurement looks like on a topic: one JSON object, always with the same fields.

A distribution has some more, and null for a value. The schema is a promise (docs/collecting.md):
fields are only ever added. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Distribution(NamedTuple):
    """How many values lie where: what the metrics pipeline calls a histogram."""

    buckets: Sequence[tuple[float | None, int]]
    """Bounds, in order, each with how many values do not exceed it, but the one before; None is
    the bound of those that exceed all others."""
    total: float
    """What the values add up to."""


class Sample(NamedTuple):
    """One value of one metric at one moment, or how its values were spread since the last one."""

    service: str
    """What is measured: `host`, the name of a process, or a service behind an access log."""
    metric: str
    value: float | Distribution
    unit: str
    target: str | None = None
    """Which of several: a device, an interface, a process id, a class of statuses."""


def encode(sample: Sample, host: str, time_ms: int, interval_s: float) -> bytes:
    """Write a sample as the value of a record."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    spread = sample.value if isinstance(sample.value, Distribution) else None
    fields: dict[str, Any] = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "host": host,
        "service": sample.service,
        "metric": sample.metric,
        "target": sample.target,
        "value": sample.value if spread is None else None,
        "unit": sample.unit,
        "interval_s": interval_s,
    }
    if spread is not None:
        fields |= {"kind": "histogram", "buckets": spread.buckets, "sum": spread.total}
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
