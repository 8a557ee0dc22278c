"""Small versions of `make attack` and `make fuzz`: what no client may do to the others.

Memory is bounded, no healthy client fails, nothing is answered -1 and no traceback is logged. How
long the loop was held up is printed by `make attack`: machines of tests are shared.
"""

from __future__ import annotations

import pytest

from attacks.fuzz import ControllerFuzzer, Fuzzer
from attacks.run import attacked
from attacks.scenes import SCENES
from attacks.watched import watched_broker
from moldau.cli.frame.version import is_compiled

HEAVY = {
    "tiny_elements", "half_frames", "old_readers", "gzip_bombs", "pipelined", "largest_requests",
    "largest_changes",
}  # fmt: skip
HEAVY_MARKS = (pytest.mark.long, pytest.mark.timeout(1_200))
"""A scene with every API takes three minutes on an idle machine."""
FRAMES = 3_000


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=HEAVY_MARKS) if name in HEAVY else name for name in SCENES],
)
def test_an_attack_harms_nobody_else(tmp_path, name):
    assert attacked(name, tmp_path, compiled=is_compiled()).problems == []


def test_no_frame_harms_the_broker(tmp_path):
    with watched_broker(tmp_path, compiled=is_compiled()) as watched:
        fuzzer = Fuzzer(watched, seed=1)
        fuzzer.run(FRAMES)
        assert watched.toll().problems == []
    assert fuzzer.counts["answered"] > FRAMES / 4
    assert fuzzer.counts["closed"] > 0


def test_no_frame_of_a_node_harms_the_controller(tmp_path):
    with watched_broker(tmp_path, compiled=is_compiled(), is_voter=True) as watched:
        fuzzer = ControllerFuzzer(watched, seed=1)
        fuzzer.run(FRAMES)
        assert watched.toll().problems == []
    assert fuzzer.counts["answered"] > FRAMES / 4
    assert fuzzer.counts["closed"] > 0
