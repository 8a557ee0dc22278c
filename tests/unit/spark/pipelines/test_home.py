"""A home of Spark's without its copy of PySpark: for whom, and that nothing is left of it."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from moldau.spark.pipelines.session import java
from moldau.spark.pipelines.session.home import (
    HOME,
    PYTHON,
    SUBMITTED,
    furnish,
    is_wanted,
    light_home,
)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_who_has_chosen_nothing_gets_one(master):
    assert is_wanted(master, {"spark.driver.memory": "1g"}, {PYTHON: sys.executable})
    assert is_wanted(master, {}, {})


@pytest.mark.parametrize(
    ("master", "settings", "environ"),
    [
        ("spark://h:7077", {}, {}),
        ("local-cluster[1,1,1024]", {}, {}),
        ("yarn", {}, {}),
        ("local", {}, {HOME: "/opt/spark"}),
        ("local", {}, {SUBMITTED: "1"}),
        ("local", {}, {PYTHON: "/usr/bin/python3"}),
        ("local", {"spark.pyspark.python": "python3"}, {}),
    ],
)
def test_what_somebody_has_chosen_stays(master, settings, environ):
    assert not is_wanted(master, settings, environ)


def test_it_has_what_spark_starts_with_and_no_pyspark(tmp_path):
    assert furnish(tmp_path)
    assert furnish(tmp_path)
    assert (tmp_path / "bin" / "spark-submit").is_file()
    assert list((tmp_path / "jars").glob("spark-core*.jar"))
    assert not (tmp_path / "python").exists()


def test_two_at_once_have_their_own_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(HOME, raising=False)
    with light_home():
        first = os.environ[HOME]
        with light_home():
            assert os.environ[HOME] != first
        assert (Path(first) / "jars").is_dir()
    assert HOME not in os.environ
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ('openjdk version "17.0.12" 2024-07-16', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_402"', "pipelines need Java 17, and the one here is Java 8"),
        ("nonsense", "pipelines need Java 17, and there is no Java in JAVA_HOME, which is"),
    ],
)
def test_a_java_that_will_not_do_is_told_in_one_line(tmp_path, monkeypatch, said, missing):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = java.what_is_missing()
    assert found is None if missing is None else found.startswith(missing)


def test_without_java_home_the_path_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    told = java.what_is_missing()
    assert told.startswith("pipelines need Java 17, and there is no Java here: install it, or set")


def test_a_collector_is_chosen_for_java_where_nobody_gives_it_options():
    assert java.collecting({"spark.a": "b"}, {"A": "b"}) == {java.OPTIONS: "-XX:+UseParallelGC"}
    for name in (java.OPTIONS, "spark.driver.defaultJavaOptions"):
        assert java.collecting({name: "-XX:+UseZGC"}, {}) == {}
    for name in ("JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS", "SPARK_HOME"):
        assert java.collecting({}, {name: "x"}) == {}
