"""A large group coming together: from the last JoinGroup sent to the last SyncGroup answered."""

from __future__ import annotations

from bench.stage import Stage, data_topic, load

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""The first member forms its group alone (`bench.group_members`); nobody is to wait for that."""


def run(stage: Stage) -> dict[str, float]:
    scale = stage.scale
    with stage.broker(settings=SETTINGS) as broker:
        topic = data_topic(broker, "groups", scale.group_members)
        measured = load(
            "group_members",
            address=broker.address,
            topic=topic,
            members=scale.group_members,
            warm_up=scale.group_rounds,
            rounds=scale.group_rounds,
        )
    return {"join": measured["median"]}
