"""kill -9 under load: nothing acknowledged is lost, nothing torn is served (P1, P2, P4, P8).

Plain and idempotent producers write numbered records with acks=all to small segments. The broker
is killed at a moment of chance, or comes to its end at a named crash point; it starts again on the
same folder, and everything it had promised must be there, where it had promised it, and once.

MOLDAU_KILL_ROUNDS sets how often (three times by default; with more, more crash points are visited
as well), MOLDAU_KILL_SEED which moments.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from moldau.storage.disk import Disk
from moldau.storage.verify import verify_partition
from process.raw_client import RawClient
from process.serving import CRASHED, Serving
from process.writers import Load, Writer, check_all, make_writers

QUICK_ROUNDS = 3
ROUNDS = int(os.environ.get("MOLDAU_KILL_ROUNDS", QUICK_ROUNDS))
SEED = int(os.environ.get("MOLDAU_KILL_SEED", "1"))
SECONDS_PER_ROUND = 15
"""A round takes two or three; the machine may be busy."""

PARTITIONS = 2
TOPIC_CONFIG = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000"}
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "100"}
"""Checkpoints fall behind and catch up several times in a life."""

CRASHES = (
    "segment.append.after_write:60",
    "segment.create.after_open:6",
    "log.roll.before_create:2",
    "log.snapshot.before_rename:3",
    "flush.before_epochs:2",
    "manager.checkpoint.before_high_watermarks:3",
)
"""Points that a broker under load comes to, each at a visit in the midst of its work."""

MORE_CRASHES = (
    "segment.append.before_write:60",
    "segment.indexes.before_offsets:2",
    "log.roll.before_store:2",
    "log.roll.before_snapshot:3",
    "log.roll.after_create:4",
    "log.snapshot.after_rename:3",
    "flush.before_sync:2",
    "flush.before_indexes:2",
    "flush.before_folder:2",
    "manager.checkpoint.before_recovery_points:4",
    "manager.checkpoint.before_log_starts:3",
)
"""For runs that were asked to be thorough; the simulation visits every point in any case."""


def start(directory: Path, crash_at: str = "") -> Serving:
    return Serving(directory, overrides=SETTINGS, environ={"MOLDAU_CRASH_AT": crash_at}).start()


def create_topics(broker: Serving) -> None:
    with RawClient((broker.host, broker.port)) as client:
        for topic in ("plain", "exact"):
            assert client.create_topic(topic, PARTITIONS, TOPIC_CONFIG) == 0


def check_after_restart(directory: Path, writers: list[Writer], more: int = 40) -> None:
    """Start again, check, write some more, check, stop in order, check the files."""
    broker = start(directory)
    try:
        address = (broker.host, broker.port)
        check_all(writers, address)
        load = Load(writers, address)
        goal = load.acknowledged_count() + more
        eventually(lambda: load.acknowledged_count() >= goal or not load.working(), "writing on")
        load.finish()
        assert load.acknowledged_count() >= goal
        check_all(writers, address)
        assert broker.stop() == 0
        assert "Traceback" not in broker.errors, broker.errors
    finally:
        broker.kill()
    check_files(broker.data)


def check_files(data: Path) -> None:
    """Run the offline check over every partition."""
    folders = [path for path in data.iterdir() if path.name.startswith(("plain-", "exact-"))]
    assert len(folders) == 2 * PARTITIONS
    findings = [
        str(finding) for folder in folders for finding in verify_partition(Disk(), str(folder))
    ]
    assert not findings, findings


@pytest.mark.timeout(240 + ROUNDS * SECONDS_PER_ROUND)
def test_nothing_acknowledged_is_lost_over_kills_at_any_moment(tmp_path):
    dice = random.Random(SEED)
    writers = make_writers(PARTITIONS, SEED)
    for number in range(ROUNDS):
        broker = start(tmp_path)
        try:
            address = (broker.host, broker.port)
            if number == 0:
                create_topics(broker)
            else:
                check_all(writers, address)
            load = Load(writers, address)
            goal = load.acknowledged_count() + dice.randint(100, 1500)
            eventually(
                lambda load=load, goal=goal: (
                    load.acknowledged_count() >= goal or not load.working()
                ),
                "enough to lose",
            )
            assert load.working(), [writer.refusals for writer in writers]
        finally:
            broker.kill()
        load.finish()
        assert "Traceback" not in broker.errors, broker.errors
    check_after_restart(tmp_path, writers)


def test_a_loss_of_one_batch_would_be_found(tmp_path):
    """The check itself is checked: what a crash must not do is done by hand."""
    writers = make_writers(PARTITIONS, SEED)
    broker = start(tmp_path)
    try:
        create_topics(broker)
        load = Load(writers, (broker.host, broker.port))
        eventually(
            lambda: all(len(writer.acknowledged) > 10 for writer in writers), "something to lose"
        )
        load.finish()
    finally:
        broker.kill()
    last = max((broker.data / "exact-1").glob("*.log"))
    os.truncate(last, last.stat().st_size - 1)
    with start(tmp_path) as again, pytest.raises(AssertionError, match="exact-1: lost"):
        check_all(writers, (again.host, again.port))


@pytest.mark.parametrize("crash_at", CRASHES + (MORE_CRASHES if ROUNDS > QUICK_ROUNDS else ()))
def test_nothing_acknowledged_is_lost_by_a_crash_at(tmp_path, crash_at):
    writers = make_writers(PARTITIONS, SEED)
    broker = start(tmp_path, crash_at)
    try:
        create_topics(broker)
        load = Load(writers, (broker.host, broker.port))
        status = broker.wait()
        load.finish()
    finally:
        broker.kill()
    assert status == CRASHED, broker.errors
    assert "Traceback" not in broker.errors, broker.errors
    check_after_restart(tmp_path, writers)


def test_a_crash_in_the_midst_of_an_orderly_stop_is_a_crash_like_any_other(tmp_path):
    writers = make_writers(PARTITIONS, SEED)
    broker = start(tmp_path, "manager.close.before_clean_mark")
    try:
        create_topics(broker)
        load = Load(writers, (broker.host, broker.port))
        eventually(lambda: load.acknowledged_count() > 200, "something to keep")
        assert broker.stop() == CRASHED
        load.finish()
    finally:
        broker.kill()
    check_after_restart(tmp_path, writers)


@pytest.mark.parametrize(
    "crash_at", ["journal.append.after_write:6", "manager.create.before_topic_id:2"]
)
def test_a_topic_half_made_is_made_or_not_after_a_crash_but_never_half(tmp_path, crash_at):
    broker = start(tmp_path, crash_at)
    try:
        with RawClient((broker.host, broker.port)) as client, contextlib.suppress(OSError):
            for number in range(10):
                client.create_topic(f"topic-{number}", 2)
        assert broker.wait() == CRASHED
    finally:
        broker.kill()
    with start(tmp_path) as again, RawClient((again.host, again.port)) as client:
        for number in range(10):
            code = client.create_topic(f"topic-{number}", 2)
            assert code.name in {"NONE", "TOPIC_ALREADY_EXISTS"}
            assert [client.offset(f"topic-{number}", index) for index in (0, 1)] == [0, 0]
