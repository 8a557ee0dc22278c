"""Java's producer as fast as it goes: Kafka's own `kafka-producer-perf-test`."""

from __future__ import annotations

import re
import subprocess

from tests.kafka_harness.distribution import CURRENT, jars, require
from tests.kafka_harness.kafka_node import AS_SHIPPED

_HEAP = ("-Xmx512M",)
"""Of Kafka's script for this tool; the collector is that of its brokers."""
_COLLECTOR = tuple(option for option in AS_SHIPPED if not option.startswith(("-Xmx", "-Xms")))
_TIMEOUT_S = 600
_TOTAL = re.compile(r"^(\d+) steady state records sent, ([\d.]+) records/sec .*99th")


def run(
    address: str, topic: str, size: int, batch_size: int, warm_up: int, count: int
) -> dict[str, float]:
    """Write records of `size` random bytes with acks=all, `warm_up` of them not timed.

    The tool counts its warm-up among the records, and tells the rest apart in its last line.
    """
    command = [
        require("java"), *_HEAP, *_COLLECTOR, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", str(jars(CURRENT) / "*"), "org.apache.kafka.tools.ProducerPerformance",
        "--bootstrap-server", address, "--topic", topic, "--throughput", "-1",
        "--num-records", str(warm_up + count), "--warmup-records", str(warm_up),
        "--record-size", str(size),
        "--command-property", "acks=all", f"batch.size={batch_size}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    totals = [found for line in done.stdout.splitlines() if (found := _TOTAL.match(line))]
    if done.returncode != 0 or not totals:
        raise RuntimeError(f"the producer ended with {done.returncode}: {done.stderr[-500:]}")
    records, rate = int(totals[-1][1]), float(totals[-1][2])
    return {"records": records, "bytes": records * size, "seconds": records / rate}
