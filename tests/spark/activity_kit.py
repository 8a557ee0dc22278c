"""Events for the activity pipeline, and runs of it in the session of the suite.

The windows are short, so that every batch closes some.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.activity.generator import Crowd, Habits
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running.frame import Order, Run
from spark.activity_model import Record, Rules

RULES = Rules(window_s=10, delay_s=20, gap_s=15, top=3)
FIRST_MS = 1_700_000_000_000
OPTIONS: Mapping[str, Any] = {
    "window": 10_000,
    "delay": 20_000,
    "session-gap": 15_000,
    "skew": 600_000,
    "idle": 300_000,
    "top": 3,
    "bad-ratio": None,
    "live-topic": None,
}
BATCH_ROWS, STEP_MS = 150, 150
"""A batch spans some 22 s of events: every one of them closes windows, but for the first."""


def made_up_records(batches: int) -> list[Record]:
    """Return records of one partition, with all that a pipeline must take."""
    crowd = Crowd(
        7, Habits(users=40, pages=8, late=0.1, late_by_ms=90_000, twice=0.03, broken=0.03)
    )
    odd = (
        _view("far", time="2100-01-01T00:00:00Z"),
        _view("old", time="1970-01-01T00:00:00Z"),
        _view("older", time="1970-01-01T00:00:00+01:00"),
        _view("ancient", time="0001-01-01T00:00:00+01:00"),
        _view("huge", page="/" + "x" * 500_000),
        _view("ancient", time="0000-06-01T00:00:00Z"),
        _view("antique", time="0001-01-01T00:00:00+01:00"),
        _view("one") + b"\n" + _view("other"),
        _view("one") + b" and more",
        _view("quoted").replace(b'"', b"'"),
        _view("farther", time="9999-12-31T23:59:59-01:00"),
    )
    count = batches * BATCH_ROWS - len(odd)
    values = [crowd.event(FIRST_MS + STEP_MS * n)[1] for n in range(count)]
    for place, value in enumerate(odd):
        values.insert(BATCH_ROWS - 10 * place - 1, value)
    return [Record(0, offset, value) for offset, value in enumerate(values)]


def _view(name: str, page: str = "/", time: str = "2023-11-14T22:13:20Z") -> bytes:
    told = {"event_id": name, "kind": "view", "user": "u", "page": page, "time": time}
    return json.dumps(told).encode()


def activity_topic(address: str, batches: int) -> tuple[str, list[Record]]:
    """Fill a topic of one partition, so that batches are what they were sent as."""
    topic = create_topic(address, fresh_topic("activity"))
    records = made_up_records(batches)
    send(address, topic, [record.value or b"" for record in records])
    return topic, records


class TestRun:
    """Runs of the pipeline in the session of the suite, until all there is has been read."""

    __test__ = False

    def __init__(self, spark: SparkSession, address: str, topic: str, out: Path) -> None:
        self._spark = spark
        self._address = address
        self._topic = topic
        self._out = out
        self.told: list[Mapping[str, Any]] = []
        """Every status that was shown."""
        self.is_enough: Callable[[Mapping[str, Any]], bool] = lambda _: False
        """Tells by a status whether a run is to be stopped."""

    def run(
        self, pauses_s: Sequence[float] = (1, 1, 1), *, once: bool = True, **options: Any
    ) -> None:
        """Run through the frame: until all there is has been read, or until it is stopped."""
        order = Order(
            ACTIVITY,
            Places.of(str(self._out)),
            {**OPTIONS, "topic": self._topic, **options},
            {
                "kafka.bootstrap.servers": self._address,
                "kafka.bootstrap.timeout.ms": "500",
                "kafka.default.api.timeout.ms": "5000",
            },
            once=once,
            batch_rows=BATCH_ROWS,
        )
        session = lambda: nullcontext(self._spark)  # noqa: E731 - one word would not say more
        self._run = Run(order, self._tell, session=session, pauses_s=pauses_s)
        self._run.run()

    def _tell(self, status: Mapping[str, Any]) -> None:
        self.told.append(status)
        if self.is_enough(status):
            self.stop()

    def stop(self) -> None:
        """Have the run end, from any thread."""
        self._run.stop()

    @property
    def states(self) -> list[str]:
        """The states that were shown, one after the other."""
        states = [one["state"] for one in self.told]
        return [state for n, state in enumerate(states) if n == 0 or states[n - 1] != state]
