"""Many groups that commit one offset at a time, each waiting for its answer."""

from __future__ import annotations

from bench.stage import Stage, data_topic, load
from bench.works.groups import SETTINGS

GROUPS = 50


def run(stage: Stage) -> dict[str, float]:
    scale = stage.scale
    with stage.brokers(SETTINGS) as brokers:
        topic = data_topic(brokers, "commits", 1)
        measured = load(
            "commits",
            address=brokers.address,
            topic=topic,
            groups=GROUPS,
            warm_up_s=scale.commit_seconds,
            seconds=scale.commit_seconds,
        )
    return {"rate": measured["commits"] / measured["seconds"]}
