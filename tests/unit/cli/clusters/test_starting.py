"""Brokers come up in order and together, or not at all; small programs stand in for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from moldau.base.errors import UserError
from moldau.cli.clusters import processes, starting
from moldau.cli.clusters.layout import ClusterFolder, ClusterShape, ZooKeeperChoice
from moldau.cli.clusters.starting import bring_up, refuse_too_few_controllers
from moldau.cli.clusters.stop_signals import Interrupted, StopSignals
from moldau.cli.clusters.stopping import kill, stop, stop_until_signal

pytestmark = pytest.mark.process

SERVES = "import signal; print('ready 127.0.0.1:1', flush=True); signal.pause()"
NEVER_READY = "import signal; print('not ready yet', flush=True); signal.pause()"
FAILS = "print('moldau: cannot listen', flush=True)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVES}"


@pytest.fixture
def brokers(tmp_path):
    found = ClusterFolder(tmp_path, ClusterShape("id", 9092, 3)).brokers
    for broker in found:
        broker.folder.mkdir()
    yield found
    kill(found)


@pytest.fixture
def quorum(tmp_path):
    """A cluster of which the first three of four brokers vote."""
    cluster = ClusterFolder(tmp_path, ClusterShape("id", 9092, 4, controller_count=3))
    for broker in cluster.brokers:
        broker.folder.mkdir()
    yield cluster
    kill(cluster.brokers)


@pytest.fixture
def programs(monkeypatch):
    """What runs as each broker, by its number."""
    chosen = dict.fromkeys((1, 2, 3, 4), SERVES)
    monkeypatch.setattr(
        processes, "command_of", lambda broker: [sys.executable, "-c", chosen[broker.node_id]]
    )
    return chosen


def nobody_runs(brokers):
    return [processes.running_id(broker) for broker in brokers] == [None, None, None]


def test_the_voter_is_up_before_the_others_start(brokers, programs):
    others = [str(broker.pid_file) for broker in brokers[1:]]
    programs[1] = f"import os; assert not any(map(os.path.exists, {others})); {SERVES}"
    said: list[str] = []
    with StopSignals() as signals:
        started = bring_up(brokers, signals, said.append)
        assert said[0] == f"broker 1 is up at 127.0.0.1:9092 (pid {started[0].child.pid})"
        assert sorted(line.split(" is up")[0] for line in said[1:]) == ["broker 2", "broker 3"]
        stop_until_signal(brokers, {}, signals)
    assert [one.child.wait() for one in started] == [-signal.SIGTERM] * 3


def waits_for(broker):
    """A program that is ready only once another one has been started."""
    file = str(broker.pid_file)
    return f"import os, time\nwhile not os.path.exists({file!r}): time.sleep(0.01)\n{SERVES}"


def test_voters_that_wait_for_each_other_come_up_before_the_others(quorum, programs):
    first, second, third, fourth = quorum.brokers
    programs[1], programs[2], programs[3] = map(waits_for, (second, third, first))
    said: list[str] = []
    with StopSignals() as signals:
        started = bring_up([fourth, third, second, first], signals, said.append)
    up = [line.split(" is up")[0] for line in said]
    assert (sorted(up[:3]), up[3]) == (["broker 1", "broker 2", "broker 3"], "broker 4")
    # They stop the other way round: who observes tells a controller that it leaves.
    assert stop(quorum.brokers) == [fourth, first, second, third]
    assert [one.child.wait() for one in started] == [-signal.SIGTERM] * 4


def test_a_broker_is_started_while_most_controllers_run(quorum, programs):
    first, second, third, fourth = quorum.brokers
    with pytest.raises(UserError) as caught:
        refuse_too_few_controllers(quorum, [fourth])
    assert str(caught.value) == (
        "0 of 3 controllers would run, but 2 are needed: start them together with `moldau cluster"
        f" start 1 2 4 --data {quorum.path}`"
    )
    with pytest.raises(UserError, match=r"1 of 3 controllers .* `moldau cluster start 1 3 --data"):
        refuse_too_few_controllers(quorum, [third])
    refuse_too_few_controllers(quorum, [third, second])
    with StopSignals() as signals:
        started = bring_up([first], signals, lambda _: None)
        refuse_too_few_controllers(quorum, [third])
        with pytest.raises(UserError, match=r"1 of 3 controllers .* start 2 4 --data"):
            refuse_too_few_controllers(quorum, [fourth])
        started += bring_up([second], signals, lambda _: None)
        refuse_too_few_controllers(quorum, [fourth])
    kill(quorum.brokers)
    for one in started:
        one.child.wait()


def test_with_one_controller_that_one_has_to_run(brokers, programs, tmp_path):
    cluster = ClusterFolder(tmp_path, ClusterShape("id", 9092, 3))
    with pytest.raises(UserError, match="the controller broker 1 is not running: start it first"):
        refuse_too_few_controllers(cluster, brokers[1:])
    refuse_too_few_controllers(cluster, brokers)
    on_zookeeper = ClusterFolder(tmp_path, ClusterShape(None, 9092, 3, ZooKeeperChoice()))
    refuse_too_few_controllers(on_zookeeper, on_zookeeper.brokers[1:])


def test_what_an_earlier_run_said_does_not_count(brokers, programs):
    brokers[0].log.write_text("ready 127.0.0.1:9092\n")
    programs[1] = FAILS
    with StopSignals() as signals, pytest.raises(UserError, match="broker 1 did not start"):
        bring_up(brokers, signals, lambda _: None)


def test_if_one_ends_its_last_lines_are_said_and_none_is_left(brokers, programs):
    programs[3] = FAILS
    brokers[2].log.write_text("ready, of an earlier run\n")
    said: list[str] = []
    with (
        StopSignals() as signals,
        pytest.raises(UserError, match=r"broker 3 .*: it ended; the end of"),
    ):
        bring_up(brokers, signals, said.append)
    assert [line for line in said if line.startswith(" ")] == ["  moldau: cannot listen"]
    assert nobody_runs(brokers)


def test_if_one_takes_too_long_none_is_left(brokers, programs, monkeypatch):
    monkeypatch.setattr(starting, "START_TIMEOUT_S", 2.0)
    programs[1] = NEVER_READY
    with StopSignals() as signals, pytest.raises(UserError, match="not ready within 2 s"):
        bring_up(brokers, signals, lambda _: None)
    assert nobody_runs(brokers)


def test_a_program_that_cannot_be_run_is_said_in_one_line(brokers, monkeypatch):
    monkeypatch.setattr(processes, "command_of", lambda _: ["/nowhere"])
    with StopSignals() as signals, pytest.raises(UserError, match="cannot start broker 1: No such"):
        bring_up(brokers, signals, lambda _: None)


def test_a_signal_while_they_come_up_stops_those_that_run(brokers, programs):
    programs[2] = NEVER_READY

    def interrupt(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with StopSignals() as signals:
        with pytest.raises(Interrupted):
            bring_up(brokers, signals, interrupt)
        assert signals.last == signal.SIGTERM
    assert nobody_runs(brokers)


def test_the_second_signal_kills_those_that_do_not_stop(brokers, programs):
    programs[2] = DEAF
    with StopSignals() as signals:
        started = bring_up(brokers, signals, lambda _: None)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            stop_until_signal(brokers, {}, signals)
        assert signals.last == signal.SIGINT
    assert started[1].child.wait() == -signal.SIGKILL
    for one in started:
        one.child.wait()
    assert nobody_runs(brokers)


@pytest.fixture
def children(monkeypatch):
    """Every process that is started."""
    found = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            found.append(self)

    monkeypatch.setattr(processes.subprocess, "Popen", Recorded)
    return found


def test_a_broker_that_cannot_be_written_down_does_not_stay(brokers, programs, children):
    brokers[0].pid_file.with_suffix(".tmp").mkdir()
    with StopSignals() as signals, pytest.raises(UserError, match="cannot start broker 1: Is a"):
        bring_up(brokers, signals, lambda _: None)
    assert [child.returncode for child in children] == [-signal.SIGKILL]


def test_a_folder_that_is_deleted_leaves_no_broker_that_comes_up(
    brokers, programs, children, tmp_path
):
    programs[1] = "\n".join(
        (
            "import os, shutil, signal, time",
            f"while not os.path.exists({str(brokers[0].pid_file)!r}): time.sleep(0.01)",
            f"shutil.rmtree({str(tmp_path)!r})",
            "signal.pause()",
        )
    )
    with StopSignals() as signals, pytest.raises(UserError, match=r"cannot read .*broker\.log"):
        bring_up(brokers, signals, lambda _: None)
    assert [child.returncode for child in children] == [-signal.SIGTERM]


def test_signals_mean_afterwards_what_they_meant_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
