"""What the kernel says a process has used, children included."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.usage import cpu_seconds, family, peak_memory_mb

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
child.communicate(b"\\n")
"""


def test_children_belong_to_the_family_while_they_live():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        assert family(parent.pid) == [parent.pid, child]
        assert peak_memory_mb(parent.pid) > peak_memory_mb(child) > 1
        parent.communicate("\n")


def test_time_of_a_dead_child_is_counted():
    before = cpu_seconds(os.getpid())
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spin], check=True)
    # The kernel counts in ticks of 10 ms, rounded for each process; half is far from none.
    assert cpu_seconds(os.getpid()) - before > 0.15
