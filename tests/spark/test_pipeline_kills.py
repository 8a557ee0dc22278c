"""Each pipeline with every part of it killed in the middle, and its tables compared with the input.

A pipeline runs as the command that users type, on a cluster whose executors are processes, against
a broker that is one. In the middle of batches the broker is killed (-9) and started again, then an
executor, whose place another one takes, and then the driver, which is started again, this time
without a cluster. In the end every table must hold what a plain computation over the same records
gives, each record once, and so must the topics that it tells things on.

A story takes a minute, so that the suite has that of the activity pipeline alone.

MOLDAU_PIPELINE_TABLES sets the format of the tables, `delta` or `iceberg`.

MOLDAU_PIPELINE_KILLS sets how many kills there are instead, on the cluster all the time, of whom
and when being left to chance; MOLDAU_PIPELINE_SEED sets which. `make soak-pipelines` does so.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.declaration import PARQUET
from spark.foreign_tables import LIBRARIES, as_parquet, library_settings
from spark.pipeline_cases import CASES, Case
from spark.pipeline_process import batch_under_way, handled, kill, process, run_words, status
from spark.session import settings
from spark.standalone import SMALL_EXECUTORS, SPECULATION
from spark.topic_rows import send_rows, stored_rows

KILLS = int(os.environ.get("MOLDAU_PIPELINE_KILLS", "0"))
SEED = int(os.environ.get("MOLDAU_PIPELINE_SEED", "1"))
STORIES = os.environ.get("MOLDAU_PIPELINE_STORIES", "all" if KILLS else "one")
"""`all`, or the first alone."""
TABLES = os.environ.get("MOLDAU_PIPELINE_TABLES", PARQUET)
TOPIC = "records"
FOR_EVER = {"retention.ms": "-1"}
"""The records have times long past."""
PATIENCE_S = 180
"""A driver and its executors start in ten seconds on two idle cores."""
PAUSE_MAX_S = 4
"""Longer than a batch takes: a kill of chance falls into any part of one, or of a start."""
BATCHES_PER_KILL = 3
"""So many are done, more or less, until a kill of chance comes."""


class Kill(NamedTuple):
    """Who is killed, and when."""

    victim: str
    batch: int
    """While this batch or a later one is under way."""
    with_rows: bool = False
    """Whether some rows of the batch must have been written."""
    pause_s: float = 0
    """How long after that."""


def kills() -> list[Kill]:
    """Return one kill of each part, or as many of chance as were asked for."""
    if not KILLS:
        return [Kill("broker", 1), Kill("executor", 2), Kill("driver", 2, with_rows=True)]
    dice = random.Random(SEED)
    moments = sorted(dice.choices(range(BATCHES_PER_KILL * KILLS), k=KILLS))
    return [
        Kill(
            dice.choice(("broker", "executor", "driver")),
            batch,
            with_rows=dice.random() < 0.5,
            pause_s=dice.uniform(0, PAUSE_MAX_S),
        )
        for batch in moments
    ]


BATCHES = 4 + BATCHES_PER_KILL * KILLS


def spark_settings(case: Case) -> dict[str, str]:
    """Return two executors and tasks that run twice; where time counts, for one pipeline only."""
    if KILLS or case.pipeline is ACTIVITY:
        return {**SMALL_EXECUTORS, **SPECULATION}
    return {**SMALL_EXECUTORS, "spark.cores.max": "1"}


class Scene:
    """A pipeline that runs, with all that can be killed of it."""

    def __init__(self, case: Case, broker, cluster, folder: Path) -> None:
        self.out = folder / "out"
        self._broker = broker
        self._cluster = cluster
        self._queries = case.queries
        self._said = folder / "said.txt"
        options = {**case.options, "topic": create_topic(broker.address, TOPIC, config=FOR_EVER)}
        for told in case.told:
            options[told.option] = create_topic(broker.address, told.option)
        self._words = run_words(
            case.pipeline,
            options,
            broker.address,
            self.out,
            batch_rows=case.batch_rows,
            settings={**settings(folder), **spark_settings(case), **library_settings(TABLES)},
        )
        self._words += ["--table-format", TABLES]
        self.records = case.made_up(BATCHES)
        rows = (case.row(one, TOPIC, at) for at, one in enumerate(self.records))
        at_once = {"queue.buffering.max.messages": len(self.records)}
        send_rows(broker.address, rows, **at_once)
        self._running = ExitStack()

    def __enter__(self):
        self._start(self._cluster.url)
        return self

    def __exit__(self, *_):
        self._running.close()

    def _start(self, master: str) -> None:
        words = [*self._words, "--master", master]
        self.driver = self._running.enter_context(
            process(words, self._said, self._cluster.environment)
        )

    @property
    def is_done(self) -> bool:
        """Whether each query is through with all records; the driver must not have given up."""
        assert self.driver.poll() is None, self._said.read_text()
        return {handled(self.out, one) for one in self._queries} == {len(self.records)}

    def kill(self, moment: Kill) -> int:
        """Wait for a moment, and kill one part in it; return the batch that it has hit."""
        eventually(
            lambda: (
                self.is_done
                or batch_under_way(self.out, with_rows=moment.with_rows) >= moment.batch
            ),
            f"batch {moment.batch}",
            PATIENCE_S,
        )
        time.sleep(moment.pause_s)
        self._kill(moment.victim)
        hit = batch_under_way(self.out)
        if moment.victim == "broker":
            self._broker.start()
        elif moment.victim == "driver":
            assert status(self.out)["state"] == "died"
            self._start(self._cluster.url if KILLS else "local[2]")
        return hit

    def _kill(self, victim: str) -> None:
        match victim:
            case "broker":
                self._broker.kill()
            case "driver":
                kill(self.driver)
            case _:
                eventually(self._cluster.kill_executor, "there is an executor", PATIENCE_S)

    def finish(self) -> None:
        """Wait until all is filed, and end the pipeline in good order."""
        eventually(lambda: self.is_done, "all is filed", PATIENCE_S + 5 * BATCHES)
        self.driver.terminate()
        assert self.driver.wait(60) == 0, self._said.read_text()


@pytest.mark.java(SPARK_CONNECTOR, *filter(None, [LIBRARIES.get(TABLES)]))
@pytest.mark.timeout(3 * PATIENCE_S + 60 * KILLS)
@pytest.mark.parametrize("case", CASES if STORIES == "all" else CASES[:1], ids=str)
def test_tables_are_what_the_records_say_after_kills_of_every_part(case, cluster, tmp_path):
    hits = []
    with make_broker(kind_under_test(), tmp_path / "broker") as broker:
        with Scene(case, broker, cluster, tmp_path) as scene:
            for moment in kills():
                hits.append(scene.kill(moment))
                print(f"{case}: {moment.victim} killed, batch {hits[-1]} under way")
            scene.finish()
        seen = as_parquet(scene.out, tmp_path / "seen")
        for told in case.told:
            told.check(stored_rows(broker.address, told.option), seen, scene.records)
    case.check(seen, scene.records)
    assert KILLS or min(hits) > 0
