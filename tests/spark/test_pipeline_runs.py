"""Runs of a pipeline that do not go as they should: what is said, tried again, and goes on.

The activity pipeline stands for all of them; what is shown here belongs to the frame.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import select
import subprocess
import threading

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from kafka_harness.distribution import SPARK_CONNECTOR
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from moldau.base.errors import StorageError, UserError
from moldau.spark.pipelines.activity.declared import ACTIVITY
from moldau.spark.pipelines.running import frame
from moldau.spark.pipelines.running.failures import PipelineFailed
from moldau.spark.pipelines.storage import LocalFiles
from process.mounts import grow, small_volume
from spark.activity_kit import (
    BATCH_ROWS,
    OPTIONS,
    RULES,
    TestRun,
    activity_topic,
    made_up_records,
)
from spark.activity_model import check_tables
from spark.pipeline_kit import pipeline_settings
from spark.pipeline_process import command, handled, process, run_words, status
from spark.session import ENVIRONMENT, settings
from spark.topic_rows import FIRST_MS, TopicRow, send_rows


@pytest.fixture
def session(spark):
    with pipeline_settings(spark) as prepared:
        yield prepared


class FullDisk(LocalFiles):
    """A disk that is full for some of the writes to a table."""

    refusals = 0

    def write(self, path, data):
        if "/pages/" in path and FullDisk.refusals:
            FullDisk.refusals -= 1
            raise StorageError(path, f"cannot be written: {os.strerror(errno.ENOSPC)}")
        super().write(path, data)


def one_line(failed: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(failed.value)
    assert "\n" not in text
    return text


@pytest.mark.long
def test_a_full_disk_is_said_and_tried_again_and_then_ends_the_run(
    session, broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(frame, "LocalFiles", FullDisk)
    topic, records = activity_topic(broker.address, batches=1)
    run = TestRun(session, broker.address, topic, tmp_path)

    FullDisk.refusals = 2
    with pytest.raises(PipelineFailed) as failed:
        run.run(pauses_s=[0])
    assert one_line(failed).endswith("cannot be written: No space left on device")
    retrying = next(one for one in run.told if one["state"] == "retrying")
    assert retrying["error"].endswith("No space left on device; next try in 0 s")
    assert run.states[-3:] == ["running", "stopping", "failed"]

    run.run()
    check_tables(tmp_path, records, RULES, ends=[-1])


@pytest.mark.long
def test_a_volume_that_fills_up_ends_a_run_with_one_line_and_it_goes_on_with_more_space(
    session, broker, tmp_path
):
    """All that a run writes is on the volume, Spark's checkpoints too."""
    topic, records = activity_topic(broker.address, batches=1)
    with small_volume(tmp_path / "volume", 64 * 1024) as volume:
        run = TestRun(session, broker.address, topic, volume / "out")
        with pytest.raises(UserError) as failed:
            run.run(pauses_s=[])
        assert "No space left on device" in one_line(failed)
        assert run.states[-1] == "failed"

        grow(volume, 64 * 1024 * 1024)
        run.run()
        check_tables(volume / "out", records, RULES, ends=[-1])


def test_a_broker_that_is_gone_is_waited_for(session, tmp_path):
    with make_broker(kind_under_test(), tmp_path / "broker") as broker:
        topic, records = activity_topic(broker.address, batches=1)
        run = TestRun(session, broker.address, topic, tmp_path / "out")
        broker.kill()

        def bring_back() -> None:
            eventually(lambda: "retrying" in run.states, "the loss is said")
            broker.start()

        helper = threading.Thread(target=bring_back)
        helper.start()
        run.run(pauses_s=[1] * 60)
        helper.join()

    assert "no broker" in next(one["error"] for one in run.told if one["state"] == "retrying")
    check_tables(tmp_path / "out", records, RULES, ends=[-1])


def test_what_does_not_pass_ends_a_run_at_once_with_one_line(session, broker, tmp_path):
    topic, _ = activity_topic(broker.address, batches=1)
    run = TestRun(session, broker.address, topic, tmp_path)
    run.run()
    # The later ones are not late: the end of the run has closed the windows of the first.
    values = [record.value for record in made_up_records(batches=3)]
    send(broker.address, topic, values)

    state = tmp_path / "_moldau" / "state" / "0"
    with replaced(state, '{"version": 1'), pytest.raises(UserError) as failed:
        run.run(pauses_s=[60])
    assert f"{state} cannot be read" in one_line(failed)

    log = tmp_path / "events" / "_spark_metadata" / "0"
    with replaced(log, None), pytest.raises(UserError) as failed:
        run.run(pauses_s=[60])
    assert "has 0 appends and is to get number 1: part of the table is missing" in one_line(failed)

    offsets = tmp_path / "_moldau" / "checkpoint" / "landing" / "offsets"
    newest = max(offsets.glob("[0-9]*"), key=lambda path: int(path.name))
    with replaced(newest, "v1\nnonsense"), pytest.raises(UserError) as failed:
        run.run(pauses_s=[60])
    assert f"the checkpoint is damaged: {newest} cannot be read" in one_line(failed)

    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: topic not in admin.list_topics(timeout=60).topics, "the topic is gone")
    create_topic(broker.address, topic)
    send(broker.address, topic, values * 3)
    with pytest.raises(UserError) as failed:
        run.run(pauses_s=[60])
    assert "was deleted and created again" in one_line(failed)
    assert one_line(failed).endswith("begin with a new --out")


@contextlib.contextmanager
def replaced(path, text):
    """Have a file hold something else for a while, or be gone."""
    kept = path.read_bytes()
    checksum = path.with_name(f".{path.name}.crc")
    checksum.unlink(missing_ok=True)
    path.unlink() if text is None else path.write_text(text)
    yield
    path.write_bytes(kept)


def activity_words(address, topic, out, folder):
    """Return the command that runs the activity pipeline on this machine."""
    words = run_words(
        ACTIVITY,
        {**OPTIONS, "topic": topic},
        address,
        out,
        batch_rows=BATCH_ROWS,
        settings=settings(folder),
    )
    return [*words, "--master", "local[2]"]


@pytest.mark.java(SPARK_CONNECTOR)
def test_a_run_is_seen_on_its_terminal_has_its_folder_alone_and_stops_in_good_order(tmp_path):
    out = tmp_path / "out"
    with make_broker(kind_under_test(), tmp_path / "broker") as broker:
        topic, records = activity_topic(broker.address, batches=2)
        words = activity_words(broker.address, topic, out, tmp_path)
        with Terminal(words) as run:
            run.until(lambda _: handled(out) == len(records), "all is filed")
            busy = subprocess.run(
                command("run", "activity", "--out", out),
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (busy.returncode, busy.stderr.count("\n")) == (1, 1)
            assert f"process {run.pid}" in busy.stderr
            stop = subprocess.run(
                command("stop", "--out", out), capture_output=True, text=True, check=False
            )
            shown = run.until(lambda _: run.ended, "the end")
        assert (stop.returncode, run.status) == (0, 0)
        assert "has ended" in stop.stderr
        for title in ("WATERMARK", "ROWS/S", "LAG", "BATCH MS", "LATE", "landing", "running"):
            assert title in shown
    assert status(out)["state"] == "stopped"
    assert sum(status(out)["totals"].values()) == len(records)
    check_tables(out, records, RULES)


@pytest.mark.java(SPARK_CONNECTOR)
@pytest.mark.long
def test_several_share_a_spark_and_go_on_when_one_of_them_is_stopped(broker, tmp_path):
    outs = {create_topic(broker.address, fresh_topic("several")): tmp_path / n for n in "ab"}
    (first, first_out), (second, second_out) = outs.items()
    file = tmp_path / "pipelines.toml"
    conf = [f'"{name}" = "{value}"' for name, value in settings(tmp_path).items()]
    each = [
        f'[{out.name}]\npipeline = "changelog"\ntopic = "{topic}"\nout = "{out}"'
        for topic, out in outs.items()
    ]
    head = [f'bootstrap-servers = "{broker.address}"', 'master = "local[2]"', "[conf]"]
    file.write_text("\n".join([*head, *conf, *each]))

    def change(topic, count):
        row = TopicRow(b"key", b'{"n": 1}', topic, 0, 0, FIRST_MS)
        send_rows(broker.address, [row] * count)

    with process(command("run", "--file", file), tmp_path / "said", ENVIRONMENT) as run:
        change(first, 3)
        change(second, 3)
        eventually(lambda: (handled(first_out), handled(second_out)) == (3, 3), "both run", 120)
        subprocess.run(command("stop", "--out", first_out), check=True, capture_output=True)
        change(second, 2)
        eventually(lambda: handled(second_out) == 5, "the other goes on", 60)
        assert [status(out)["state"] for out in outs.values()] == ["stopped", "running"]
        run.terminate()
        assert run.wait(60) == 0
    assert status(second_out)["state"] == "stopped"
    assert status(second_out)["totals"]["changes"] == 5


@pytest.mark.java(SPARK_CONNECTOR)
@pytest.mark.long
def test_a_machine_that_is_killed_ends_a_run_with_one_line_and_the_next_run_goes_on(
    broker, tmp_path
):
    out, said = tmp_path / "out", tmp_path / "said"
    topic, records = activity_topic(broker.address, batches=2)
    words = activity_words(broker.address, topic, out, tmp_path)
    with process(words, said, ENVIRONMENT) as run:
        eventually(lambda: handled(out) > 0, "a batch is filed", 120)
        machines = psutil.Process(run.pid).children(recursive=True)
        next(one for one in machines if one.name() == "java").kill()
        assert run.wait(60) == 1
    *before, last = said.read_text().splitlines()
    assert last.startswith("moldau: Spark's virtual machine has ended")
    assert all(line.startswith("moldau: activity ") for line in before), said.read_text()
    assert status(out)["state"] == "failed"
    assert status(out)["error"] in last

    subprocess.run([*words, "--once"], check=True, stderr=subprocess.DEVNULL)
    check_tables(out, records, RULES, ends=[-1])


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, words):
        self._words = words
        self._shown = b""
        self.ended = False
        self.status = None

    def __enter__(self):
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            own = {**os.environ, **ENVIRONMENT, "TERM": "xterm", "COLUMNS": "140", "LINES": "40"}
            os.execve(self._words[0], self._words, own)
        return self

    def __exit__(self, *_):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, 9)
        if not self.ended:
            os.close(self._terminal)

    def until(self, is_enough, what):
        """Read what is shown until it is enough; return all of it."""

        def look():
            while not self.ended and select.select([self._terminal], [], [], 0)[0]:
                self._read()
            return is_enough(self._shown)

        eventually(look, what, 120)
        return self._shown.decode(errors="replace")

    def _read(self):
        try:
            self._shown += os.read(self._terminal, 65536)
        except OSError:  # the other side has been closed
            self.ended = True
            os.close(self._terminal)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
