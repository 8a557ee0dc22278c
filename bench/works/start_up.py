"""From the start of the process to the first answered request, on an empty folder."""

from __future__ import annotations

from bench.stage import Stage, time_start


def run(stage: Stage) -> dict[str, float]:
    with stage.broker(started=False) as broker:
        return {"empty": time_start(broker)}
