"""Spark finds the format by itself, and says what is wrong where it cannot be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send

EXECUTOR_PYTHON = "spark.sql.execution.pyspark.python"
"""The Python of tasks alone: what is planned on the driver keeps its own."""


@pytest.fixture
def topic(broker):
    name = create_topic(broker.address, fresh_topic("discovery"))
    send(broker.address, name, [b"one", b"two"])
    return name


def load(spark, broker, topic):
    reader = spark.read.format("moldau").option("subscribe", topic)
    return reader.option("kafka.bootstrap.servers", broker.address).load()


def python_without(directory: Path, *modules: str) -> str:
    """Return a Python like this one that cannot import some modules."""
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n"
    (directory / "sitecustomize.py").write_text(blocked)
    program = directory / "python"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{directory}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def test_the_format_is_found_without_a_word_of_registration(spark, broker, topic):
    frame = load(spark, broker, topic)

    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    assert sorted(bytes(row.value) for row in frame.collect()) == [b"one", b"two"]


def test_a_schema_of_the_users_is_refused(spark, broker, topic):
    reader = spark.read.format("moldau").schema("value string").option("subscribe", topic)
    frame = reader.option("kafka.bootstrap.servers", broker.address).load()

    with pytest.raises(AnalysisException, match=r"leave \.schema\(\.\.\.\) out"):
        frame.collect()


@pytest.mark.parametrize("module", ["moldau", "numpy"])
def test_an_executor_that_lacks_a_library_says_which_and_where(
    spark, broker, topic, tmp_path, module
):
    python = python_without(tmp_path, module)
    spark.conf.set(EXECUTOR_PYTHON, python)
    try:
        with pytest.raises(PythonException) as failure:
            load(spark, broker, topic).collect()
    finally:
        spark.conf.unset(EXECUTOR_PYTHON)

    (line,) = [line for line in str(failure.value).splitlines() if "install moldau[spark]" in line]
    assert module in line.lower()
    assert f"on {os.uname().nodename}" in line
