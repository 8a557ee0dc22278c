"""What the table of the benchmark says about its bars."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from bench import run
from bench.bars import Better, Measure
from bench.cluster import CLUSTER
from bench.failover import FAILOVER
from bench.many_replicas import MANY_REPLICAS
from bench.page import QUICK
from bench.quorum import QUORUM
from bench.report import Samples, render, verdict
from bench.run import RESULTS

MORE = Measure("latency", "rate", "rate", "MB/s", Better.MORE, bar=1.5)
LESS = Measure("latency", "time", "time", "s", Better.LESS, bar=0.5)


@pytest.mark.parametrize(
    ("measure", "ratios", "said"),
    [
        (MORE, [1.5, 2.0, 1.6], "yes"),
        (MORE, [1.4, 2.0, 1.6], "in 2 of 3"),
        (MORE, [1.4, 1.0], "no"),
        (LESS, [0.5, 0.1], "yes"),
        (LESS, [0.51, 0.1], "in 1 of 2"),
        (LESS, [0.51, 2.0], "no"),
    ],
)
def test_a_bar_is_met_only_where_every_round_clears_it(measure, ratios, said):
    assert verdict(measure, ratios) == said


def test_a_ratio_is_taken_within_a_round_and_shown_with_its_spread():
    samples = Samples("Kafka", "Moldau")
    samples.add("latency", {"p50": 100.0, "p99": 200.0}, {"p50": 50.0, "p99": 400.0})
    samples.add("latency", {"p50": 300.0, "p99": 200.0}, {"p50": 75.0, "p99": 100.0})
    page = render(samples, RESULTS, QUICK)
    p50, p99 = [line for line in page.splitlines() if line.startswith("| one record")]
    assert "| 200 (100-300) | 62.5 (50-75) | 0.375 (0.25-0.5)x | <= 0.9x | yes |" in p50
    assert p99.endswith("| in 1 of 2 |")


def test_what_other_guests_took_is_said_per_round_and_nothing_of_it_on_a_quiet_machine():
    samples = Samples("Kafka", "Moldau")
    figures = {"p50": 100.0, "p99": 200.0}
    samples.add("latency", figures, figures, stolen=0.004)
    assert "other guests" not in render(samples, RESULTS, QUICK)
    samples.add("latency", figures, figures, stolen=0.234)
    assert "lost more: latency 0%, 23%." in render(samples, RESULTS, QUICK)


@pytest.mark.parametrize(
    ("steady", "shares", "repeated", "kept"),
    [
        (100, [0.5, 0.5], 0, 0.5),
        (5, [0.0, 0.04], 0, 0.04),
        (5, [0.2, 0.0, 0.0, 0.01], 1, 0.01),
        (5, [0.2] * 6, 2, 0.2),
    ],
)
def test_rounds_that_others_disturbed_are_measured_anew_a_few_times(
    monkeypatch, steady, shares, repeated, kept
):
    taken = iter(shares)
    monkeypatch.setattr(run, "Stolen", lambda: SimpleNamespace(share=lambda: next(taken)))
    samples = Samples("Kafka", "Moldau")
    asked = run.parse([f"--steady={steady}"])
    measures = [lambda: {"p50": 100.0, "p99": 200.0}] * 2
    run._round("latency", 0, asked, measures, samples)
    assert samples.stolen == {"latency": [kept]}
    assert sum(samples.repeated.values()) == repeated
    assert len(samples.rounds["latency"]) == 1
    assert list(taken) == []
    page = render(samples, RESULTS, QUICK)
    assert ("measured again because of it: latency" in page) == (repeated > 0)


def test_a_figure_that_only_one_side_has_is_printed_without_a_ratio():
    samples = Samples("Kafka", "Moldau")
    samples.add("truncation", {}, {"stall": 12.0})
    samples.add("truncation", {}, {"stall": 18.0})
    (row,) = [
        line for line in render(samples, CLUSTER, QUICK).splitlines() if "longest stall" in line
    ]
    assert row.endswith("| ms |  | 15 (12-18) |  | printed |  |")


def test_what_could_not_be_measured_is_said():
    samples = Samples(
        "Kafka", "Moldau", failures=["latency, round 1, moldau: it did not start:\nits log"]
    )
    page = render(samples, RESULTS, QUICK)
    assert page.endswith("\n- latency, round 1, moldau: it did not start\n")


@pytest.mark.parametrize(
    "page", [RESULTS, CLUSTER, FAILOVER, MANY_REPLICAS, QUORUM], ids=lambda page: page.title
)
def test_every_measure_has_its_work_and_its_own_name(page):
    names = {(measure.work, measure.name) for measure in page.measures}
    assert len(names) == len(page.measures)
    for work in page.works:
        module = importlib.import_module(f"bench.works.{work}")
        assert callable(getattr(module, "prepared", None) or module.run)
