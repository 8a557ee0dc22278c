"""Several pipelines in one Spark: who starts when, who ends with whom. Spark itself is played."""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from kafka_harness.waiting import eventually
from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import Pipeline
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running import together
from moldau.spark.pipelines.running.desk import STATUS, Desk, ask_to_stop, owner, read_status
from moldau.spark.pipelines.running.frame import Order
from moldau.spark.pipelines.running.together import Together


class Query:
    """A query that does what a test tells it."""

    def __init__(self, name, spark):
        self.name = name
        self._spark = spark
        self._is_active = True
        self.status = {"isTriggerActive": False}
        self.lastProgress = None
        self.error = None

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        if self._spark.is_killed:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return self._is_active

    def had_batch(self, number=0):
        self.lastProgress = SimpleNamespace(json=json.dumps({"name": "q", "batchId": number}))

    def fail(self, text):
        self.error, self._is_active = text, False

    def stop(self):
        self._is_active = False

    def exception(self):
        return self.error


class Spark:
    """A Spark whose sessions know nothing but each other."""

    sparkContext = SimpleNamespace(master="local[2]")  # noqa: N815 - Spark's name
    conf = SimpleNamespace(get=lambda _name: "2", set=lambda _name, _value: None)

    def __init__(self):
        self.started = 0
        self.ended = 0
        self.is_killed = False

    def newSession(self):  # noqa: N802 - Spark's name
        return self

    @contextlib.contextmanager
    def session(self):
        self.started += 1
        yield self
        self.ended += 1


class Scene:
    """Pipelines of one query each, and everything that was shown."""

    def __init__(self, folder, titles, monkeypatch):
        self.queries = {}
        self.shown = []
        self.spark = Spark()
        self.folder = folder
        monkeypatch.setattr(together, "LOOK_S", 0.01)
        monkeypatch.setattr("moldau.spark.pipelines.running.frame.LOOK_S", 0.01)
        monkeypatch.setattr("moldau.spark.pipelines.running.desk.LOOK_S", 0.01)
        monkeypatch.setitem(sys.modules, "played", SimpleNamespace(start=self._start))
        declared = Pipeline("played", "", "played:start", (), ())
        self.orders = {
            title: Order(declared, Places.of(str(folder / title)), {}, {}) for title in titles
        }
        self.together = self._together(3600)

    def _together(self, head_start_s):
        return Together(
            self.orders, lambda *told: self.shown.append(told), self.spark.session,
            head_start_s=head_start_s,
        )  # fmt: skip

    def without_patience(self):
        self.together = self._together(0)

    def _start(self, stage):
        title = stage.places.desk.parent.name
        self.queries[title] = Query(title, self.spark)
        return [self.queries[title]]

    def desk(self, title):
        return self.orders[title].places.desk

    def state(self, title):
        return read_status(self.desk(title))["state"]


@pytest.fixture
def scene(tmp_path, monkeypatch):
    return Scene(tmp_path, ["a", "b", "c"], monkeypatch)


@contextlib.contextmanager
def running(scene):
    """Run them in a thread; at the end of the block they have ended."""
    failures = []

    def run():
        try:
            scene.together.run()
        except UserError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        scene.together.stop(urgent=True)
        thread.join()


def test_each_starts_when_the_one_before_has_had_a_batch(scene):
    with running(scene):
        eventually(lambda: scene.queries, "the first starts")
        eventually(lambda: scene.state("c") == "starting", "all have their locks")
        assert set(scene.queries) == {"a"}
        scene.queries["a"].had_batch()
        eventually(lambda: "b" in scene.queries, "the second starts")
        assert "c" not in scene.queries
        scene.queries["b"].stop()
        eventually(lambda: "c" in scene.queries, "nobody waits for one that has ended")
    assert (scene.spark.started, scene.spark.ended) == (1, 1)
    assert [scene.state(title) for title in "abc"] == ["stopped"] * 3


def test_what_the_last_run_has_counted_stands_while_one_waits_for_its_turn(scene):
    scene.desk("c").mkdir(parents=True)
    (scene.desk("c") / STATUS).write_text('{"state": "stopped", "totals": {"events": 7}}')
    with running(scene):
        eventually(lambda: scene.state("c") == "starting", "all have their locks")
        assert read_status(scene.desk("c"))["totals"] == {"events": 7}


def test_nobody_waits_for_ever_for_a_first_batch(scene):
    scene.without_patience()
    with running(scene):
        eventually(lambda: len(scene.queries) == 3, "all start")


def test_with_the_first_that_fails_all_end_and_it_is_named(scene):
    scene.without_patience()
    with running(scene) as failures:
        eventually(lambda: len(scene.queries) == 3, "all start")
        scene.queries["b"].fail("x\nmoldau.base.errors.UserError: no plums")
        eventually(lambda: failures, "the end")
    assert isinstance(failures[0], UserError)
    assert str(failures[0]) == "b: the query b has failed: no plums"
    assert [scene.state(title) for title in "abc"] == ["stopped", "failed", "stopped"]
    assert not any(query.isActive for query in scene.queries.values())


def test_the_end_of_the_machine_is_that_of_all_and_named_as_such(scene):
    scene.without_patience()
    with running(scene) as failures:
        eventually(lambda: len(scene.queries) == 3, "all start")
        eventually(lambda: scene.state("c") == "running", "all run")
        scene.spark.is_killed = True
        eventually(lambda: failures, "the end")
    assert str(failures[0]).startswith("Spark's virtual machine has ended")
    for title in "abc":
        told = read_status(scene.desk(title))
        assert (told["state"], told["error"]) == ("failed", str(failures[0]))


def test_one_that_is_stopped_leaves_the_others_running_also_before_its_turn(scene):
    with running(scene):
        eventually(lambda: scene.queries, "the first starts")
        eventually(lambda: owner(scene.desk("b")) is not None, "the second has its lock")
        ask_to_stop(scene.desk("b"))
        eventually(lambda: owner(scene.desk("b")) is None, "the second ends")
        assert scene.state("b") == "stopped"
        assert scene.state("a") == "running"
        scene.queries["a"].had_batch()
        eventually(lambda: "c" in scene.queries, "the third starts")
        assert "b" not in scene.queries
        for title in "ac":
            ask_to_stop(scene.desk(title))
        eventually(lambda: scene.spark.ended, "Spark ends with the last of them")


def test_a_stop_lets_the_running_batch_end_and_the_next_one_does_not(scene):
    scene.without_patience()
    with running(scene):
        eventually(lambda: len(scene.queries) == 3, "all start")
        for query in scene.queries.values():
            query.status = {"isTriggerActive": True}
        scene.together.stop()
        scene.queries["a"].status = {"isTriggerActive": False}
        eventually(lambda: not scene.queries["a"].isActive, "its batch has ended")
        assert scene.queries["b"].isActive
        ask_to_stop(scene.desk("b"))
        ask_to_stop(scene.desk("b"))
        eventually(lambda: not scene.queries["b"].isActive, "it was asked twice")
        assert scene.queries["c"].isActive


def test_a_folder_that_is_taken_ends_all_before_spark_starts(scene):
    other = Desk(scene.desk("b"))
    with running(scene) as failures:
        eventually(lambda: failures, "the end")
    other.close()
    assert str(failures[0]).startswith("b: a pipeline writes to this folder already")
    assert scene.spark.started == 0
    assert scene.state("a") == "stopped"


def test_a_spark_that_does_not_start_is_the_reason_in_every_status(scene):
    @contextlib.contextmanager
    def session():
        raise UserError("Spark does not start: no Java")
        yield

    scene.spark.session = session
    scene.without_patience()
    with running(scene) as failures:
        eventually(lambda: failures, "the end")
    assert str(failures[0]) == "Spark does not start: no Java"
    for title in "abc":
        told = read_status(scene.desk(title))
        assert (told["state"], told["error"]) == ("failed", "Spark does not start: no Java")


def test_a_signal_ends_all(scene):
    def later():
        eventually(lambda: scene.queries, "the first starts")
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    sender = threading.Thread(target=later)
    sender.start()
    scene.together.run()
    sender.join()
    assert [scene.state(title) for title in "abc"] == ["stopped"] * 3
    assert signal.getsignal(signal.SIGTERM) is before
    assert {title for title, _ in scene.shown} == {"a", "b", "c"}
