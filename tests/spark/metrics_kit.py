"""Samples for the metrics pipeline, and the rules it is run with.

The windows are short, so that every batch closes some.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from moldau.collect.metrics.samples import Sample, encode
from moldau.spark.pipelines.metrics.deviation import LEAST_CHANGES
from spark.metrics_model import Rules

RULES = Rules(10, 20, 6, 3, 6, 0.2, dict(LEAST_CHANGES))
OPTIONS: Mapping[str, Any] = {
    "window": 10_000, "delay": 20_000, "skew": 600_000, "idle": 300_000, "history": 6,
    "history-min": 3,
}  # fmt: skip
FIRST_MS = 1_790_000_000_000
STEP_MS = 2_000
ROUND = 60
"""Ticks after which the same things happen again."""
_GOOD = b'{"host":"h","service":"s","metric":"m","value":1,"time":"2026-09-21T14:13:21Z"}'
BROKEN = {
    b"not json": "not one JSON object",
    b"%s\n%s" % (_GOOD, _GOOD): "not one JSON object",
    b"%s,%s" % (_GOOD, _GOOD): "not one JSON object",
    b"%s] and more [%s" % (_GOOD, _GOOD): "not one JSON object",
    b'%s, "end": 1} and more' % _GOOD: "not one JSON object",
    b'%s, "more": 1' % _GOOD: "not one JSON object",
    b'%s\n,"told": %s' % (_GOOD, _GOOD): "not one JSON object",
    b"[%s]" % _GOOD: "not one JSON object",
    _GOOD.replace(b'"', b"'"): "not one JSON object",
    b'{"metric": "m"}': "no host, or one of more than 512 characters",
    b'{"host": "h", "service": "s", "metric": "m", "value": "much"}': "value is no number",
    b'{"host": "h", "service": "s", "metric": "m", "value": 1, "kind": "sum"}': (
        "kind is none of gauge, count, counter, histogram"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "kind": "histogram", "buckets": [[1]]}': (
        "buckets are no pairs of a bound and a count"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "kind": "histogram", "buckets": [[1, 1e19]]}': (
        "a bucket counts more than 9007199254740992"
    ),
    b'{"host":"h","service":"s","metric":"m","kind":"histogram","buckets":[[1,1]],"sum":"much"}': (
        "sum is no number"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "value": 1, "unit": "%s"}' % (b"u" * 513): (
        "unit of more than 512 characters"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "value": 1, "interval_s": 0}': (
        "interval_s is no time above zero"
    ),
    b'{"host": "h", "service": "s", "metric": "m", "value": 1}': (
        "no time such as 2026-11-16T12:00:00Z"
    ),
    b'{"host":"h","service":"s","metric":"m","value":1,"time":"2100-01-01T00:00:00Z"}': (
        "time lies in the future"
    ),
    b'{"host":"h","service":"s","metric":"m","value":1,"time":"1969-12-31T23:59:59.9Z"}': (
        "time lies before 1970"
    ),
    b'{"host":"h","service":"s","metric":"m","value":1,"time":"0000-01-01T00:00:00Z"}': (
        "time lies before 1970"
    ),
}


def made_up_samples(ticks: int) -> list[bytes]:
    """Return what two hosts send, tick by tick: all kinds, and one thing that stands out in each.

    A counter is reset, some samples come twice and some late; in every round of ticks again. A
    third host sends some that lie a microsecond apart.
    """
    chance = random.Random(3)
    values: list[bytes] = []
    totals = {"a": 0, "b": 500}
    for tick in range(ticks):
        time_ms = FIRST_MS + STEP_MS * tick
        wild = 30 <= tick % ROUND < 35
        for host in ("a", "b"):
            cpu = 0.95 if wild and host == "a" else 0.2 + 0.01 * chance.random()
            requests = 2 + chance.randrange(3)
            values.append(encode(Sample("host", "cpu.used", cpu, "ratio"), host, time_ms, 2.0))
            sample = Sample("shop", "http.responses", requests, "count", "2xx")
            values.append(encode(sample, host, time_ms, 2.0))
            totals[host] = 3 if tick % ROUND == 17 else totals[host] + (900 if wild else 10)
            values.append(told(host, time_ms, kind="counter", value=totals[host], unit="count"))
            times = [[0.1, 400], [0.5, 900 if wild else 2], [None, tick % 3]]
            values.append(
                told(host, time_ms, kind="histogram", buckets=times, sum=4.5, unit="seconds")
            )
        for after_us in (0, 1):
            time = datetime.fromtimestamp(time_ms / 1000, UTC) + timedelta(microseconds=after_us)
            near = {"metric": "steps", "time": time.isoformat(), "value": 2 * tick + after_us}
            kinds = ("gauge", "counter")
            values += [told("c", time_ms, kind=kind, unit="count", **near) for kind in kinds]
        if tick % 10 == 9:
            values += [values[-2], told("a", time_ms - 90_000, kind="gauge", value=1)]
    return values


def told(host: str, time_ms: int, **more: object) -> bytes:
    time = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    return json.dumps(
        {"time": time, "host": host, "service": "shop", "metric": "sent", **more}
    ).encode()


def made_up(count: int) -> list[bytes]:
    """Return so many samples, among them some that are none."""
    values = made_up_samples(count // 8)[: count - len(BROKEN)]
    for at, value in enumerate(BROKEN):
        values.insert(at * count // len(BROKEN), value)
    return values
