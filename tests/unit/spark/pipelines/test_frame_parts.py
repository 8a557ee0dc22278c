"""The parts of the frame that need no Spark session: folders, status, figures, commands."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import re
import sys
import threading
import urllib.request
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kits.cli_kit import moldau
from moldau.base.errors import ConfigError, UserError
from moldau.cli.pipeline import skew_note
from moldau.cli.pipelines.view import status_line, view
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.declaration import Kind, Option, Pipeline, checked
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.running import frame
from moldau.spark.pipelines.running.desk import LOCK, STOP, Desk, ask_to_stop, owner, read_status
from moldau.spark.pipelines.running.exposition import serve_metrics
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.pipelines.running.frame import Order, Run
from moldau.spark.pipelines.running.progress import Figures, figures_of
from moldau.spark.pipelines.session.starting import LOCAL_SETTINGS, settings_for
from moldau.spark.pipelines.submitting import submit_command

STATUS = {
    "pipeline": "activity",
    "state": "running",
    "queries": [
        {"query": "landing", "batch": 3, "rows": 1200, "rows_per_second": 800.4, "batch_ms": 1500,
         "lag": 7, "dropped": 0}
    ],
    "totals": {"events": 1100, "late": 90, "dead": 10},
    "watermark_ms": 1_790_000_000_000,
}  # fmt: skip


# Where things are


def test_everything_is_below_out_unless_it_is_said_otherwise(tmp_path):
    places = Places.of(str(tmp_path))
    assert places.desk == tmp_path / "_moldau"
    assert places.checkpoint("landing") == f"{tmp_path}/_moldau/checkpoint/landing"
    assert places.is_local
    assert Places.of(f"file://{tmp_path}") == places
    elsewhere = Places.of(str(tmp_path), "hdfs://n/c/", "/var/desk")
    assert elsewhere.checkpoint("q") == "hdfs://n/c/q"
    assert not elsewhere.is_local


def test_a_folder_is_the_same_from_wherever_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    places = Places.of(str(tmp_path / "tables"), str(tmp_path / "kept"))
    assert Places.of("../tables", "../kept") == places
    assert Places.of(f"file:{tmp_path}/below/../tables", f"file://{tmp_path}/./kept/") == places


@pytest.mark.parametrize("path", ["/data/act#1", "/x?y=1", "/with%20space"])
def test_urls_of_files_that_would_name_another_folder_are_refused(path):
    assert Places.of(path).out == path
    for out, checkpoint in ((f"file://{path}", None), ("/out", f"file:{path}")):
        with pytest.raises(UserError, match="name the folder without file: in front"):
            Places.of(out, checkpoint)


def test_tables_of_another_system_need_a_desk_here(tmp_path):
    with pytest.raises(UserError, match="--desk"):
        Places.of("hdfs://n/t")
    assert Places.of("hdfs://n/t/", desk=str(tmp_path)).table("pages") == "hdfs://n/t/pages"


@pytest.mark.parametrize("option", ["out", "checkpoint", "desk"])
def test_an_empty_path_is_no_folder(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"--{option} is empty"):
        Places.of(**{"out": str(tmp_path), option: ""})


# Who runs it


def test_one_pipeline_at_a_time_has_a_folder(tmp_path):
    desk = Desk(tmp_path)
    with pytest.raises(UserError, match=f"process {os.getpid()}"):
        Desk(tmp_path)
    assert owner(tmp_path) == os.getpid()
    desk.close()

    assert owner(tmp_path) is None
    Desk(tmp_path).close()


def test_who_asks_for_the_owner_does_not_keep_a_start_out(tmp_path):
    Desk(tmp_path).close()
    with (tmp_path / LOCK).open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        later = threading.Timer(0.05, fcntl.flock, (asking, fcntl.LOCK_UN))
        later.start()
        Desk(tmp_path).close()
        later.join()


def test_a_lock_that_cannot_be_had_or_read_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for use in (Desk, owner, ask_to_stop):
        with pytest.raises(UserError, match="Not a directory"):
            use(tmp_path / "file" / "desk")
    for command in ("stop", "status"):
        ran = moldau("pipeline", command, "--out", tmp_path / "file")
        assert (ran.status, ran.err.count("\n")) == (1, 1)
        assert ran.err.endswith(": Not a directory\n")

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match=f"cannot use {tmp_path}: No locks available"):
        Desk(tmp_path)


def test_a_lock_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / LOCK).symlink_to("/dev/full")
    with pytest.raises(UserError, match=f"cannot use {tmp_path}: "):
        Desk(tmp_path)


def test_a_status_of_a_pipeline_that_is_gone_without_a_word_says_so(tmp_path):
    desk = Desk(tmp_path)
    desk.tell({"state": "running"})
    assert read_status(tmp_path)["state"] == "running"
    desk.close()

    assert read_status(tmp_path)["state"] == "died"


def test_who_is_asked_to_stop_hears_it_and_hears_when_it_is_urgent(tmp_path):
    (tmp_path / STOP).write_bytes(b"..")  # to one that was before
    desk, heard = Desk(tmp_path), []
    desk.listen(lambda *, urgent: heard.append(urgent))
    assert ask_to_stop(tmp_path) == os.getpid()
    eventually(lambda: heard == [False], "asked")
    ask_to_stop(tmp_path)
    eventually(lambda: heard == [False, True], "asked again")
    desk.close()
    assert ask_to_stop(tmp_path) is None


def test_where_none_has_run_there_is_no_status_and_nobody_to_stop(tmp_path):
    with pytest.raises(UserError, match="no pipeline has run here"):
        read_status(tmp_path)
    assert ask_to_stop(tmp_path) is None
    (tmp_path / LOCK).write_text("123456\n")
    assert ask_to_stop(tmp_path) is None  # the number of somebody who holds no lock is nobody's


# How it goes


def test_figures_are_taken_from_the_progress_of_a_query():
    offsets = {"id": "x", "offsets": {"0": 10, "1": 5}}
    latest = {"id": "x", "offsets": {"0": 14, "1": 5, "2": 3}}
    progress = {
        "name": "landing",
        "batchId": 4,
        "numInputRows": 12,
        "processedRowsPerSecond": 6.0,
        "batchDuration": 2000,
        "eventTime": {"watermark": "2026-11-16T00:00:01.500Z"},
        "stateOperators": [{"numRowsDroppedByWatermark": 2}],
        "sources": [
            {
                "endOffset": {"moldau": 1, "topics": {"t": offsets}},
                "latestOffset": {"moldau": 1, "topics": {"t": latest}},
            }
        ],
    }
    assert figures_of(progress) == Figures("landing", 4, 12, 6.0, 2000, 7, 1_794_787_201_500, 2)


def test_a_progress_that_tells_nothing_is_no_figures():
    assert figures_of({"sources": [{"endOffset": "5", "latestOffset": None}]}) == Figures("")


def test_a_status_is_one_line():
    line = status_line("shop", STATUS)
    assert line.startswith("shop running; landing: batch 3, 1,200 rows, 800/s, 1,500 ms, lag 7; ")
    assert "late 90" in line
    assert status_line("shop", {**STATUS, "error": "no broker"}).endswith("; no broker")
    assert "\n" not in line


def test_a_source_whose_clock_is_ahead_is_named(tmp_path):
    ahead = {"source": "web-1", "by_ms": 540_123, "at_ms": 1_790_000_000_000}
    told = "the clock of web-1 is 9m ahead (seen 2026-09-21T14:13:20+00:00)"
    assert status_line("shop", {**STATUS, "ahead": ahead}).endswith(told)
    desk = Desk(tmp_path / "_moldau")
    desk.tell({**STATUS, "ahead": ahead})
    desk.close()
    assert moldau("pipeline", "status", "--out", tmp_path).err == f"moldau: {told}\n"


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_an_option_that_would_have_no_effect_is_refused_before_spark_starts(tmp_path, verb):
    given = ("pipeline", verb, "logs", "--out", tmp_path / "o", "--desk", tmp_path / "o")
    ran = moldau(*given, "--master", "yarn", "--format", "till")
    assert (ran.status, ran.err) == (
        1,
        "moldau: --format has no effect without --pattern: give both\n",
    )
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", ["activity", "logs", "metrics"])
def test_sources_may_be_further_ahead_than_behind_only_with_a_word(name):
    defaults = {one.name: one.default for one in PIPELINES[name].options}
    assert defaults["skew"] == defaults["delay"]
    assert skew_note({"skew": 60_000, "delay": 60_000}) is None
    note = skew_note({"skew": 540_000, "delay": 90_000})
    assert note.startswith("--skew 9m is more than --delay 1m30s: ")
    assert skew_note({"topic": "t"}) is None


def test_a_query_without_a_batch_has_no_figures():
    begun = {**STATUS, "queries": [Figures("landing")._asdict()], "totals": {}}
    assert "landing: no batch yet; watermark" in status_line("activity", begun)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_figures_and_what_is_wrong(monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    with view() as show:
        show("shop", {**STATUS, "state": "retrying", "error": "no broker; next try in 5 s"})
        show("logs", {**STATUS, "pipeline": "logs", "state": "failed", "error": "no disk"})
    shown = screen.getvalue()
    for text in ("shop", "retrying", "LAG", "1200", "800", "WATERMARK", "no broker; next try"):
        assert text in shown
    assert "failed" in shown
    assert "no disk" not in shown  # it is what the command ends with


def test_a_terminal_that_can_replace_nothing_shows_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    with view() as show:
        show("shop", {**STATUS, "state": "retrying", "error": "no broker; next try in 5 s"})
        assert "no broker; next try" in screen.getvalue()


def test_the_same_figures_are_metrics():
    port = free_port()
    close = serve_metrics(port, lambda: STATUS)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            page = answer.read().decode()
    finally:
        close()
    assert 'moldau_pipeline_lag_records{pipeline="activity",query="landing"} 7.0' in page
    assert 'moldau_pipeline_records_total{fate="late",pipeline="activity"} 90.0' in page
    assert 'watermark_timestamp_seconds{pipeline="activity"} 1.79e+09' in page


def test_a_failure_is_one_line_and_says_whether_it_may_pass():
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback\n"
        "  File x\nmoldau.base.errors.UserError: 30 of 30 records cannot be read\n SQLSTATE: X"
    )
    own = PipelineFailed("landing", text)
    assert str(own) == "the query landing has failed: 30 of 30 records cannot be read"
    assert own.is_final
    gone = PipelineFailed("q", "x\nmoldau.client.errors.NoBrokerReachable: no broker")
    assert (str(gone), gone.is_final) == ("the query q has failed: no broker", False)
    lost = PipelineFailed("q", "moldau.spark.errors.DataLost: t-0 is gone. Set failOnDataLoss")
    assert str(lost) == "the query q has failed: t-0 is gone: begin with a new --out"
    raised = "terminated with exception: x\nTraceback (most recent call last):\n F\nOSError: no"
    assert str(PipelineFailed("q", raised)) == "the query q has failed: OSError: no"
    raised += "\npy4j.protocol.Py4JJavaError: calling persist.\n: java.lang.Error: gone\n\tat x"
    assert str(PipelineFailed("q", raised)) == "the query q has failed: java.lang.Error: gone"
    raised += "\nCaused by: java.io.IOException: No space left on device\n\tat y"
    raised += "\n\n=== Streaming Query ===\nIdentifier: q [id = 1]\n"
    full = "the query q has failed: java.io.IOException: No space left on device"
    assert str(PipelineFailed("q", raised)) == full
    several = (
        "terminated with exception: x\nTraceback (most recent call last):\n F\n"
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.count.\n"
        ": org.apache.spark.SparkException: [MULTIPLE] Multiple failures (2) in stage: \n"
        "  1. SparkException: [FAILED] Error reading file:/a.parquet.  SQLSTATE: KD001\n"
        "  2. SparkException: [FAILED] Error reading file:/b.parquet.  SQLSTATE: KD001"
        " SQLSTATE: XX000\n\tat x"
    )
    assert str(PipelineFailed("q", several)).endswith("Error reading file:/b.parquet.")
    other = PipelineFailed("q", "[STREAM_FAILED] terminated with exception: disk full\nat x")
    assert str(other) == "the query q has failed: disk full"
    called = "An error occurred while calling o3.start.\n: java.io.EOFException: No content\n\tat x"
    assert str(PipelineFailed("", called)) == (
        "the queries do not start: java.io.EOFException: No content"
    )


# What is tried again


class FailingQuery:
    """A query that ends with an error once all it has to tell of batches was looked at."""

    def __init__(self, name, *rows, error="terminated with exception: no space"):
        self.name = name
        self.status = {"isTriggerActive": False}
        self._told = [
            {"name": name, "batchId": n, "numInputRows": one} for n, one in enumerate(rows)
        ]
        self._error = error

    @property
    def lastProgress(self):  # noqa: N802 - Spark's name
        told = self._told.pop(0) if len(self._told) > 1 else next(iter(self._told), None)
        return told and SimpleNamespace(json=json.dumps(told))

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        return len(self._told) > 1

    def stop(self):
        pass

    def exception(self):
        return self._error


def made_up_run(monkeypatch, tmp_path, start, show, pauses_s=()):
    """Return a run of a pipeline without Spark."""
    monkeypatch.setitem(sys.modules, "made_up", SimpleNamespace(start=start))
    monkeypatch.setattr(frame, "LOOK_S", 0.001)
    order = Order(Pipeline("p", "", "made_up:start", (), ()), Places.of(str(tmp_path)), {}, {})
    spark = SimpleNamespace(
        sparkContext=SimpleNamespace(master="none"), streams=SimpleNamespace(active=())
    )
    return Run(order, show, session=lambda: nullcontext(spark), pauses_s=pauses_s)


def tries_of(monkeypatch, tmp_path, queries_of, pauses_s=(0, 0)):
    """Run until it is given up; return how often it was begun."""
    tries = []

    def start(stage):
        assert len(tries) < 10, "it is tried for ever"
        tries.append(stage)
        return queries_of(len(tries))

    run = made_up_run(monkeypatch, tmp_path, start, lambda _: None, pauses_s)
    with pytest.raises(PipelineFailed, match="the query landing has failed: no space"):
        run.run()
    return len(tries)


def test_a_query_that_fails_each_time_is_given_up_though_another_goes_on(monkeypatch, tmp_path):
    queries = lambda _: [FailingQuery("landing"), FailingQuery("live", 5, 5, error=None)]  # noqa: E731
    assert tries_of(monkeypatch, tmp_path, queries) == 3


def test_tries_are_counted_anew_once_the_query_has_gone_on_also_if_it_was_idle_then(
    monkeypatch, tmp_path
):
    queries = lambda n: [FailingQuery("landing", *((7, 0, 0) if n < 5 else ()))]  # noqa: E731
    assert tries_of(monkeypatch, tmp_path, queries) == 6


def test_output_that_nobody_reads_is_not_taken_for_the_end_of_spark(monkeypatch, tmp_path):
    def show(status):
        if status["state"] == "running":
            raise BrokenPipeError(32, "Broken pipe")

    start = lambda _: [FailingQuery("landing", 1, 1)]  # noqa: E731
    with pytest.raises(BrokenPipeError):
        made_up_run(monkeypatch, tmp_path, start, show).run()
    assert "Broken pipe" in read_status(tmp_path / "_moldau")["error"]


def test_a_status_that_cannot_be_shown_ends_nothing(monkeypatch, tmp_path):
    def show(status):
        raise OSError(errno.ENOSPC, "No space left on device")

    start = lambda _: [FailingQuery("landing", 1, 1, error=None)]  # noqa: E731
    made_up_run(monkeypatch, tmp_path, start, show).run()
    assert read_status(tmp_path / "_moldau")["state"] == "stopped"


# Settings and commands


def test_what_a_user_sets_is_stronger_than_what_stands_here():
    own = settings_for(is_local=True, given={"spark.ui.enabled": "true"})
    assert own["spark.ui.enabled"] == "true"
    assert LOCAL_SETTINGS.items() <= own.items()
    assert not set(LOCAL_SETTINGS) & set(settings_for(is_local=False, given={}))


def test_a_declaration_with_an_option_twice_is_refused():
    option = Option("out", Kind.TEXT, None, "")
    with pytest.raises(ConfigError, match="twice"):
        checked(Pipeline("p", "", "m:f", (option,), ()))


def test_every_pipeline_explains_itself():
    for name in PIPELINES:
        ran = moldau("pipeline", "run", name, "--help")
        assert ran.status == 0
        for option in PIPELINES[name].options:
            assert f"--{option.name} " in ran.out


@pytest.mark.parametrize(
    ("master", "program"),
    [
        ("yarn", "/opt/pipeline.py"),
        ("k8s://https://h:6443", "local:///opt/pipeline.py"),
        ("spark://h:7077", "/opt/pipeline.py"),
    ],
)
def test_a_cluster_gets_its_command(master, program):
    line = submit_command(
        master, "/opt/pipeline.py", ["run"], python="/opt/python", image="i", settings={"a": "b c"}
    )
    assert f"--master {master} --deploy-mode" in line
    assert "--conf 'a=b c'" in line
    assert "spark.pyspark.python=/opt/python" in line
    assert line.endswith(f"\n  {program} run")


@pytest.mark.parametrize("program", ["https://host/p.py", "local:/opt/p.py", "local:///opt/p.py"])
def test_a_program_with_a_scheme_is_left_where_it_is(program):
    line = submit_command("k8s://h", program, [], python="python3", image="i", settings={})
    assert line.endswith(f"\n  {program}")


def test_masters_that_cannot_be_are_refused():
    with pytest.raises(UserError, match="no master"):
        submit_command("nonsense", "p", [], python="python3", settings={})
    with pytest.raises(UserError, match="--image"):
        submit_command("k8s://h", "p", [], python="python3", settings={})


def test_submit_repeats_what_was_typed():
    ran = moldau(
        "pipeline", "submit", "activity", "-b", "h:1", "--master", "yarn", "--out", "hdfs:///t",
        "--desk", "/d", "--window", "30s", "--once", "--program", "p.py",
    )  # fmt: skip
    assert ran.status == 0
    words = "p.py run activity --out hdfs:///t --desk /d --once --window 30s"
    assert ran.out.endswith(f"{words} --bootstrap-servers h:1\n")


def test_submit_writes_out_brokers_and_settings_wherever_they_are_given(tmp_path):
    """A driver elsewhere has neither the environment nor the files of this machine."""
    submit = ["pipeline", "submit", "activity", "--out", tmp_path, "--program", "p.py"]
    ran = moldau(*submit, environ={"MOLDAU_BOOTSTRAP_SERVERS": "env:1"})
    assert ran.out.endswith(f"--out {tmp_path} --bootstrap-servers env:1\n")
    ran = moldau(*submit, "-b", "typed:1", environ={"MOLDAU_BOOTSTRAP_SERVERS": "env:1"})
    assert ran.out.endswith(f"--out {tmp_path} --bootstrap-servers typed:1\n")
    assert moldau(*submit).out.endswith(f"--out {tmp_path}\n")

    profiles = tmp_path / "profiles.toml"
    profiles.write_text('current = "shop"\n[profiles.shop]\n"bootstrap.servers" = "profile:1"\n')
    ran = moldau(*submit, environ={"MOLDAU_CONFIG": str(profiles)})
    assert ran.out.endswith("--bootstrap-servers profile:1\n")
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.rack=r\n")
    ran = moldau(*submit, "--command-config", file, "-X", "fetch.min.bytes=7")
    typed = "--bootstrap-servers file:1 -X client.rack=r -X fetch.min.bytes=7\n"
    assert ran.out.endswith(typed)


@pytest.mark.parametrize("zone", ["Mars", "", "../UTC", "Europe"])
def test_a_zone_that_there_is_not_is_refused_before_spark_starts(tmp_path, monkeypatch, zone):
    monkeypatch.setattr("moldau.cli.pipeline._require_spark", lambda: pytest.fail("it starts"))
    ran = moldau("pipeline", "run", "logs", "--out", tmp_path, "--zone", zone)
    assert (ran.status, ran.out) == (2, "")
    assert f"'--zone': {zone!r} is not known: expected one as Europe/Prague" in ran.err


def test_a_trigger_may_be_shorter_than_a_second(tmp_path):
    for typed, told in (("500ms", "500ms"), ("1500ms", "1s500ms"), ("90s", "1m30s")):
        ran = moldau("pipeline", "submit", "activity", "--out", tmp_path, "--trigger", typed)
        assert f"--trigger {told}\n" in ran.out
    ran = moldau("pipeline", "submit", "activity", "--out", tmp_path, "--window", "500ms")
    assert "'500ms' is out of range: expected 1s to 3650d" in ran.err


def test_submit_prints_no_command_that_the_driver_would_refuse():
    ran = moldau("pipeline", "submit", "activity", "--master", "yarn", "--out", "hdfs:///t")
    assert (ran.status, ran.out) == (1, "")
    assert "--desk" in ran.err


LONG = "9" * 5000


@pytest.mark.parametrize("pipeline", ["activity", "logs", "metrics"])
@pytest.mark.parametrize(
    ("option", "typed", "reason"),
    [
        ("--window", "0", "'0' is out of range: expected 1s to 3650d"),
        ("--window", "PT0S", "'PT0S' is out of range: expected 1s to 3650d"),
        ("--window", "1000000000000d", "is out of range: expected 1s to 3650d"),
        ("--window", f"{LONG}s", "is no duration: expected 10s or 5m"),
        ("--delay", "3651d", "'3651d' is out of range: expected 0 to 3650d"),
        ("--trigger", "600w", "'600w' is out of range: expected 0 to 3650d"),
    ],
)
def test_durations_that_make_no_sense_are_refused_in_one_line(
    tmp_path, pipeline, option, typed, reason
):
    ran = moldau("pipeline", "submit", pipeline, "--out", tmp_path, option, typed)
    assert ran.status == 2
    assert reason in ran.err
    assert "Traceback" not in ran.err


def test_nothing_is_a_duration_where_that_makes_sense(tmp_path):
    typed = ["--delay", "0", "--skew", "0s", "--trigger", "0"]
    ran = moldau("pipeline", "submit", "activity", "--out", tmp_path, *typed)
    assert ran.status == 0
    assert "--delay 0s --skew 0s" in ran.out
    ran = moldau("pipeline", "submit", "activity", "--out", tmp_path, "--session-gap", "0")
    assert (ran.status, ran.out) == (2, "")


def test_status_is_shown_as_a_table_and_as_data(tmp_path):
    desk = Desk(tmp_path / "_moldau")
    desk.tell({**STATUS, "state": "failed", "error": "no disk"})
    assert moldau("pipeline", "status", "--out", tmp_path).err == "moldau: no disk\n"
    desk.tell(STATUS)
    desk.close()
    ran = moldau("pipeline", "status", "--out", tmp_path)
    assert "died" in ran.out
    assert re.search(r"landing +3 +1200 +800 +1500 +7\n", ran.out)
    told = json.loads(moldau("pipeline", "status", "--out", tmp_path, "-o", "json").out)
    assert told == {**STATUS, "state": "died"}
    assert "no pipeline runs here" in moldau("pipeline", "stop", "--out", tmp_path).err
