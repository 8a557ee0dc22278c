"""Work that is prepared once for all rounds: both sides on stage, in turn, and gone at the end."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from bench import run
from bench.bars import MEASURES
from bench.stage import BenchError


@pytest.fixture
def told(monkeypatch):
    """Replace the brokers of `fetch`: what is told is which sides came, measured and went."""
    told = []

    @contextmanager
    def prepared(stage):
        side = stage.directory.name
        told.append(f"{side} comes")

        def measure():
            told.append(side)
            if "fails" in told:
                raise BenchError("no records")
            return {measure.name: 1.0 for measure in MEASURES if measure.work == "fetch"}

        try:
            yield measure
        finally:
            told.append(f"{side} goes")

    monkeypatch.setattr("bench.works.fetch.prepared", prepared)
    return told


def run_fetch(page):
    sides = ["--baseline", "moldau", "--candidate", "moldau"]
    return run.main(["--quick", "--works", "fetch", "--rounds", "2", *sides, "--output", str(page)])


def test_both_sides_stay_for_all_rounds_and_take_turns(told, tmp_path):
    assert run_fetch(tmp_path / "page.md") == 0
    assert told == [
        *("side-0 comes", "side-1 comes"),
        *("side-0", "side-1"),
        *("side-1", "side-0"),
        *("side-1 goes", "side-0 goes"),
    ]


def test_a_failure_is_told_and_both_sides_end(told, tmp_path, capsys):
    told.append("fails")
    assert run_fetch(tmp_path / "page.md") == 1
    assert told[-2:] == ["side-1 goes", "side-0 goes"]
    assert "fetch, round 1, moldau: no records" in capsys.readouterr().err
