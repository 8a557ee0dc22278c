"""Producing beside a consumer that reads old data from the disk.

The history is written, synced and pushed out of the page cache; then one client reads all of it
while another sends one record at a time. A broker that reads the disk where it also answers shows
it in the second client's tail. That the disk was really read is checked, not assumed.
"""

from __future__ import annotations

from bench.background_writer import BackgroundWriter
from bench.scale import MB
from bench.stage import BenchError, Stage, data_topic, evict, fill, read_back, warm_up
from bench.usage import disk_read_bytes

_RECORD_SIZE = 10_000


def run(stage: Stage) -> dict[str, float]:
    with stage.broker() as broker:
        warm_up(broker, stage.scale)
        history = data_topic(broker, "history")
        live = data_topic(broker, "live", 1)
        amount = stage.scale.history_bytes
        written = fill(broker, history, _RECORD_SIZE, amount, amount)
        evict(broker.data)
        before = disk_read_bytes(broker.pid)
        count = stage.scale.latency_records // 10
        with BackgroundWriter(stage.directory, broker.address, live, count=count) as writer:
            read = read_back(broker, history, written)
        times = writer.result()
        from_disk = disk_read_bytes(broker.pid) - before
    if from_disk < written["bytes"] / 2:
        raise BenchError(f"only {from_disk / MB:.0f} MB came from the disk: the cache was warm")
    return {"p50": times["p50"], "p99": times["p99"], "read": read["bytes"] / read["seconds"] / MB}
