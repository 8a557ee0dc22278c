"""The pytest plugin, in a pytest of its own as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
QUIET = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@pytest.fixture
def run_pytest(tmp_path):
    """Run a test module with the plugin and nothing else; returns what it said."""

    def run(source):
        (tmp_path / "test_it.py").write_text(source)
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p",
                   "moldau.testing.plugin", "--rootdir", str(tmp_path), str(tmp_path)]  # fmt: skip
        ended = subprocess.run(
            command, env=QUIET, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return ended.stdout

    return run


@pytest.mark.process
def test_each_test_has_a_broker_of_its_own_and_the_shared_one_is_shared(run_pytest):
    said = run_pytest(
        """
from moldau import Producer
from moldau.testing import TestBroker

seen, shared = [], []

def check(broker):
    with Producer(broker.bootstrap_servers) as producer:
        assert producer.send("t", b"v").result(10).offset == 0
    seen.append(broker)

def test_one(moldau_broker):
    check(moldau_broker)

def test_two(moldau_broker):
    check(moldau_broker)
    assert not seen[0].is_running

def test_shared(moldau_shared_broker):
    shared.append(moldau_shared_broker)

def test_shared_again(moldau_shared_broker):
    assert shared == [moldau_shared_broker] and shared[0].is_running

def test_made_to_order(moldau_broker_factory):
    one = moldau_broker_factory(topics={"a": 2})
    two = moldau_broker_factory(settings={"num.partitions": 4})
    assert one.bootstrap_servers != two.bootstrap_servers
    assert (one.folder / "a-1").is_dir()
    seen[:] = [one, two]

def test_they_ended_with_it():
    assert not any(broker.is_running for broker in seen)
"""
    )
    assert "6 passed" in said, said


@pytest.mark.process
def test_a_cluster_of_three_is_a_fixture_and_ends_with_its_test(run_pytest):
    said = run_pytest(
        """
from moldau import Producer

seen = []

def test_it_replicates(moldau_cluster):
    assert moldau_cluster.running == (1, 2, 3)
    moldau_cluster.create_topic("t")
    moldau_cluster.kill(3)
    with Producer(moldau_cluster.bootstrap_servers, acks="all") as producer:
        producer.send("t", b"v").result(60)
    assert [record.value for record in moldau_cluster.records("t")] == [b"v"]
    seen.append(moldau_cluster)

def test_it_ended():
    assert seen[0].running == ()
"""
    )
    assert "2 passed" in said, said


@pytest.mark.process
def test_without_a_fixture_nothing_of_moldau_is_loaded(run_pytest):
    said = run_pytest(
        """
import sys

def test_nothing():
    loaded = {name for name in sys.modules if name.split(".")[0] == "moldau"}
    assert loaded == {"moldau", "moldau.testing", "moldau.testing.plugin"}
    # From Python 3.14 on the debugger, which pytest loads, brings it along.
    assert "asyncio" not in sys.modules or sys.version_info >= (3, 14)
"""
    )
    assert "1 passed" in said, said


def test_pytest_finds_the_plugin_by_itself_where_moldau_is_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"moldau": "moldau.testing.plugin"}
