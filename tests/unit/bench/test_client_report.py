"""What the table of the clients says about its bars."""

from __future__ import annotations

import importlib

from bench.clients.bars import COMPARISONS, CPU, IMPORT, RATE, once, reading, writing
from bench.clients.consume import READERS
from bench.clients.produce import CONTESTS
from bench.clients.report import render
from bench.clients.run import WORKS
from bench.clients.writers import WRITERS


def round_of(our_rate, their_rate):
    figures = {}
    for client, rate in (("moldau-async", our_rate), ("aiokafka", their_rate)):
        figures[writing(client, 100, RATE)] = rate
        figures[writing(client, 100, CPU)] = 1e6 / rate
    return figures


def test_a_client_is_compared_within_a_round_by_rate_and_by_cpu():
    page = render([round_of(3000.0, 1000.0), round_of(4000.0, 2000.0)], "Apache Kafka 4", "moldau")
    rate, cost = [line for line in page.splitlines() if line.startswith("| AsyncProducer")]
    assert "| aiokafka | 1500 (1000-2000) | 3500 (3000-4000) |" in rate
    assert rate.endswith("| 2.5 (2-3)x | >= 2.5x | in 1 of 2 |")
    assert cost.endswith("| 0.417 (0.333-0.5)x | <= 0.4x | in 1 of 2 |")


def test_the_page_names_the_broker_and_the_form_of_our_client():
    page = render([round_of(3000.0, 1000.0)], "Apache Kafka 4", "moldau-compiled")
    assert "Moldau's client (moldau-compiled)" in page
    assert "All on one broker, Apache Kafka 4," in page


def test_work_that_was_not_done_has_no_row():
    page = render(
        [{once("moldau", IMPORT): 50.0, once("aiokafka", IMPORT): 60.0}], "Moldau", "moldau"
    )
    (row,) = [line for line in page.splitlines() if line.endswith("| yes |")]
    assert row.startswith("| importing")


def test_every_comparison_is_measured_by_some_work():
    assert {client for _, client in CONTESTS} <= set(WRITERS)
    written = {writing(client, size, one) for size, client in CONTESTS for one in (RATE, CPU)}
    for comparison in COMPARISONS:
        if comparison.measure.work == "produce":
            assert {comparison.ours, comparison.theirs} <= written
        elif comparison.measure.work == "consume":
            read = {reading(client, one) for client in READERS for one in (RATE, CPU)}
            assert {comparison.ours, comparison.theirs} <= read
    for work in WORKS:
        assert callable(importlib.import_module(f"bench.clients.{work}").run)
