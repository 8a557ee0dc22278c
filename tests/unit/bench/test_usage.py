"""What the kernel says a process has used, children included."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from bench.usage import Stolen, cpu_seconds, family, peak_memory_mb, running_seconds

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
"""


@pytest.mark.process
def test_children_belong_to_the_family_while_they_live():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        assert family(parent.pid) == [parent.pid, child]
        assert peak_memory_mb(parent.pid) > peak_memory_mb(child) > 1
        parent.communicate("\n")


@pytest.mark.process
def test_time_of_a_dead_child_is_counted():
    before = cpu_seconds(os.getpid())
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spin], check=True)
    # The kernel counts in ticks of 10 ms, rounded for each process; half is far from none.
    assert cpu_seconds(os.getpid()) - before > 0.15


def test_the_time_of_a_thread_that_runs_is_counted():
    before, used = running_seconds(os.getpid()), time.thread_time()
    while time.thread_time() < used + 0.1:
        pass
    # The kernel may be a tick behind; half is far from none.
    assert running_seconds(os.getpid()) - before > 0.05


def test_what_was_stolen_is_a_part_of_the_time_of_all_processors(monkeypatch):
    taken_s = iter([7.0, 12.0])
    monkeypatch.setattr("bench.usage.time.perf_counter", lambda: 100.0)
    monkeypatch.setattr("bench.usage._stolen_seconds", lambda: next(taken_s))
    monkeypatch.setattr("bench.usage.os.cpu_count", lambda: 2)
    stolen = Stolen()
    monkeypatch.setattr("bench.usage.time.perf_counter", lambda: 110.0)
    assert stolen.share() == 0.25
