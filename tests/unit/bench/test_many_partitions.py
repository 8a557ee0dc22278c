"""How many partitions a bench makes, and in which topics."""

from __future__ import annotations

import pytest
from bench import run
from bench.page import FULL, QUICK
from bench.quorum import QUORUM
from bench.works.replicated_partitions import many_topics


@pytest.mark.parametrize(
    ("partitions", "held"),
    [(100, [100]), (2_000, [2_000]), (10_000, [2_000] * 5), (4_500, [2_000, 2_000, 500])],
)
def test_no_topic_has_more_partitions_than_kafka_creates_for_a_request(partitions, held):
    assert list(many_topics(partitions).values()) == held


@pytest.mark.parametrize("scale", [[], ["--quick"]])
def test_the_partitions_that_are_asked_for_are_made_and_told(monkeypatch, tmp_path, scale):
    made = []

    def measured(stage):
        made.append(stage.scale.partitions)
        return {measure.name: 1.0 for measure in QUORUM.measures if measure.work == work}

    work = "quorum_partitions"
    monkeypatch.setattr(f"bench.works.{work}.run", measured)
    page = tmp_path / "page.md"
    asked = ["--works", work, "--rounds", "1", "--candidate", "moldau"]
    assert run.main([*asked, *scale, "--partitions", "7777", "--output", str(page)], QUORUM) == 0
    assert made == [7777, 7777]
    assert "7,777 partitions" in page.read_text()


def test_the_default_is_that_of_the_scale():
    assert run.parse([], QUORUM).partitions is None
    assert (QUORUM.scales[FULL].partitions, QUORUM.scales[QUICK].partitions) == (2_000, 100)
