"""The demonstration, run as `make demo` runs it: short, interrupted, without Java, with a fault."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 500
"""Half a minute is what the longest one takes on two idle cores; others may use them."""
pytestmark = pytest.mark.timeout(PATIENCE_S + 60)


@pytest.fixture
def folder(tmp_path):
    """Where the demonstration does everything; nothing of it is left, and nobody who knows it."""
    place = tmp_path / "tmp"
    place.mkdir()
    yield place
    left = [one for one in psutil.process_iter(["cmdline"]) if str(place) in str(one.info)]
    assert not left


@contextmanager
def running(folder, *words, **environment):
    """A demonstration that was just started."""
    # Where tests run in the background of a shell, Ctrl-C is ignored unless somebody listens.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def ended(process):
    """What it has said until its end, and its status."""
    said, complained = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said + complained
    return said, complained, process.returncode


def test_every_event_stands_in_a_table_at_the_end(folder):
    with running(folder, "--seconds", "8", "--pipelines", "activity,changelog") as demo:
        said, complained, status = ended(demo)
    assert (complained, status) == ("", 0)
    equation = re.search(
        r"yes activity: (\S+) sent = (\S+) in the topic = (\S+) events \+ (\S+) late"
        r" \+ (\S+) dead_letters\n",
        said,
    )
    sent, records, *rows = (int(number.replace(",", "")) for number in equation.groups())
    assert sent == records == sum(rows) > 0
    assert re.search(r"yes stock: (\S+) sent = \1 in the topic = ", said)
    for topic in ("logs", "metrics"):
        sent, records = re.search(rf"yes {topic}: (\S+) sent = (\S+) in the topic", said).groups()
        assert sent == records != "0"
    assert "Top pages" in said
    assert not list(folder.iterdir())


def test_ctrl_c_ends_it_in_order(folder):
    with running(folder, "--forever", "--pipelines", "activity") as demo:
        assert "until Ctrl-C" in demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        said, complained, status = ended(demo)
    assert (complained, status) == ("", 0)
    assert "this is what there was" in said
    assert not list(folder.iterdir())


@pytest.mark.long
def test_without_java_it_says_so_and_shows_the_broker(folder):
    with running(folder, JAVA_HOME=str(folder / "nowhere")) as demo:
        said, complained, status = ended(demo)
    assert (complained, status) == ("", 0)
    assert said.startswith("pipelines need Java 17, and there is no Java in JAVA_HOME")
    assert "200000/200000" in said
    assert "river-0/00000000000000000000.index" in said
    assert not list(folder.iterdir())


@pytest.mark.long
def test_a_part_that_fails_is_told_in_one_line_and_its_log_is_kept(folder, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'version "17"\' >&2 && exit\nexit 3\n')
    java.chmod(0o755)
    with running(folder, "--pipelines", "activity", JAVA_HOME=str(tmp_path)) as demo:
        _said, complained, status = ended(demo)
    assert status == 1
    told = re.fullmatch(
        r"demo: spark has ended with status 1: (.+) \(its log: (.+)\)\n", complained
    )
    assert "Spark does not start" in told[1]
    assert [str(path) for path in folder.iterdir()] == [told[2]]
