"""What each check says of a machine: the result, and which change it advises."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from kits.machine_kit import GB, NOW_S, PLAN, ToldMachine, folder
from moldau.cli.doctor.command import examine, report_of
from moldau.cli.doctor.findings import Result
from moldau.cli.doctor.machine import Java, Python, WallClock
from moldau.cli.doctor.software import EXTRAS

OK, OPTIONAL, ADVICE, PROBLEM = Result.OK, Result.OPTIONAL, Result.ADVICE, Result.PROBLEM


def findings(plan=PLAN, **told):
    return {one.check: one for one in examine(ToldMachine(**told), plan)}


def on(**changes):
    """Return the argument for a machine whose log directory has these values."""
    return {"folders": {"/data": folder(**changes)}}


def test_a_machine_with_everything_needs_no_change():
    found = findings()
    assert {one.result for one in found.values()} == {OK}
    assert not any(one.advice for one in found.values())
    assert report_of(list(found.values())).status == 0


@pytest.mark.parametrize(
    ("told", "check", "result", "advice"),
    [
        ({"interpreter": Python("CPython", (3, 10, 1))}, "python", PROBLEM, "3.11"),
        ({"interpreter": Python("CPython", (3, 15, 0))}, "python", ADVICE, "3.14"),
        ({"interpreter": Python("PyPy", (3, 11, 0))}, "python", ADVICE, "CPython"),
        ({"compiled": False}, "compiled", ADVICE, "make wheel"),
        ({"crc": False}, "checksums", ADVICE, "CRC-32C"),
        ({"missing": ("pyarrow",)}, "extra arrow", OPTIONAL, "moldau[arrow]"),
        ({"missing": ("kazoo",)}, "extra zookeeper", OPTIONAL, "moldau[zookeeper]"),
        ({"a_java": Java(None, "too old")}, "java", ADVICE, "Java 17"),
        ({"a_java": Java(None), "missing": ("pyspark",)}, "java", OPTIONAL, "JAVA_HOME"),
        ({"named_system": "darwin"}, "system", ADVICE, "Linux"),
        ({"handles": False}, "system", ADVICE, "5.3"),
        ({"open_files": 600}, "open files", PROBLEM, "LimitNOFILE"),
        ({"open_files": 4096}, "open files", ADVICE, "LimitNOFILE"),
        ({"memory": GB // 4}, "memory", ADVICE, "queued.max.request.bytes"),
        ({"memory": None}, "memory", OK, ""),
        ({"somaxconn": 49}, "backlog", ADVICE, "somaxconn"),
        ({"somaxconn": None}, "backlog", OK, ""),
        ({"a_clock": WallClock(5.0, NOW_S, None)}, "clock", PROBLEM, "Set the clock"),
        ({"a_clock": WallClock(NOW_S, 0.0, False)}, "clock", ADVICE, "time server"),
        ({"a_clock": WallClock(NOW_S, 0.0, None)}, "clock", OK, ""),
        ({"taken": "in use"}, "listener PLAINTEXT", PROBLEM, "another address or port"),
        ({"known_hosts": False}, "name broker-1", ADVICE, "advertised.listeners"),
        (on(is_folder=False), "directory /data", PROBLEM, "another folder"),
        (on(is_writable=False), "directory /data", PROBLEM, "writable"),
        (on(existing="/"), "directory /data", OK, ""),
        (on(free_bytes=1000), "room /data", PROBLEM, "refuse writes"),
        (on(free_bytes=2 * GB - 1), "room /data", ADVICE, "log.segment.bytes"),
        (on(free_bytes=2 * GB), "room /data", OK, ""),
        (on(free_files=100), "room /data", ADVICE, "inodes"),
        (on(free_files=None), "room /data", OK, ""),
        (on(file_system="nfs4"), "file system /data", ADVICE, "local disk"),
        (on(file_system="tmpfs"), "file system /data", ADVICE, "Use a disk"),
        (on(file_system="overlay"), "file system /data", ADVICE, "Mount a volume"),
        (on(tells_cached_pages=False), "file system /data", ADVICE, "RWF_NOWAIT"),
        (on(can_send_files=False), "file system /data", PROBLEM, "sendfile"),
        (on(tells_cached_pages=None, can_send_files=None), "file system /data", OK, ""),
        (on(newest_file_s=NOW_S + 1), "times /data", PROBLEM, "Set the clock"),
    ],
)  # fmt: skip
def test_each_lack_is_named_with_what_to_change(told, check, result, advice):
    found = findings(**told)[check]
    assert (found.result, "\n" in found.advice) == (result, False)
    assert advice in found.advice
    assert bool(found.advice) == (result is not OK)


def test_a_problem_is_a_status_and_advice_is_none():
    assert report_of(list(findings(compiled=False).values())).status == 0
    assert report_of(list(findings(taken="in use").values())).status == 1


def test_a_broker_that_runs_here_may_have_its_port():
    found = findings(taken="in use", **on(is_locked=True))
    assert found["listener PLAINTEXT"].result is OK
    assert found["directory /data"].found == "in use by a broker"


def test_a_broker_on_zookeeper_needs_its_client():
    found = findings(replace(PLAN, is_on_zookeeper=True), missing=("kazoo",))
    assert found["extra zookeeper"].result is PROBLEM


def test_memory_of_requests_without_a_limit_is_advised_against():
    assert findings(replace(PLAN, request_memory_bytes=-1))["memory"].result is ADVICE


def test_the_extras_are_those_of_the_package():
    text = (Path(__file__).parents[4] / "pyproject.toml").read_text()
    declared = tomllib.loads(text)["project"]["optional-dependencies"]
    names = {
        extra: tuple(line.partition(">")[0] for line in lines) for extra, lines in declared.items()
    }
    assert names == {name: extra.distributions for name, extra in EXTRAS.items()}
