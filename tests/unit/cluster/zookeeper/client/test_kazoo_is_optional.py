"""A broker without ZooKeeper must start where kazoo is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

EVERYTHING_OF_A_BROKER = """
import sys
sys.modules["kazoo"] = None  # as if it were not installed
import moldau
import moldau.cli.main
import moldau.cli.serve
import moldau.client
import moldau.cluster.zookeeper.client.port
import moldau.server.broker
import moldau.sim.zookeeper.session
"""


@pytest.mark.process
def test_nothing_imports_kazoo_before_it_is_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING_OF_A_BROKER], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
