"""What a measurement looks like on a topic: one JSON object, always with the same fields.

The schema is a promise (docs/collecting.md): fields are only ever added. Pure.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple


class Sample(NamedTuple):
    """One value of one metric at one moment."""

    service: str
    """What is measured: `host`, the name of a process, or a service behind an access log."""
    metric: str
    value: float
    unit: str
    target: str | None = None
    """Which of several: a device, an interface, a process id, a class of statuses."""


def encode(sample: Sample, host: str, time_ms: int, interval_s: float) -> bytes:
    """Write a sample as the value of a record."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    fields = {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "host": host,
        "service": sample.service,
        "metric": sample.metric,
        "target": sample.target,
        "value": sample.value,
        "unit": sample.unit,
        "interval_s": interval_s,
    }
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()
