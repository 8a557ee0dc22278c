"""Kafka refuses to start on a metadata batch whose records differ in time."""

import asyncio
import random

from kits.sole_voter import commit, lead, sole_voter
from moldau.base.files import read_whole
from moldau.cluster.changes import FeatureLevelSet
from moldau.records.batch import iter_batches, parse_header
from moldau.sim.disk import SimDisk


class RunningClock:
    """A clock that moves with every look at it."""

    def __init__(self):
        self.now_ms = 1_000

    def monotonic(self):
        return self.now_ms / 1000

    def wall_ms(self):
        self.now_ms += 1
        return self.now_ms


def test_all_records_of_a_metadata_batch_have_one_time():
    disk = SimDisk(random.Random(1))

    async def scenario():
        store = sole_voter(disk, ["/data"], 1, RunningClock(), random.Random(1))
        await lead(store)
        changes = [FeatureLevelSet(f"feature-{number}", 1) for number in range(5)]
        await commit(store, store.image.version, changes)
        await store.close()

    asyncio.run(scenario())
    journal = memoryview(read_whole(disk, "/data/__cluster_metadata-0/00000000000000000000.log"))
    headers = [parse_header(journal, span.position) for span in iter_batches(journal)]
    assert max(header.count for header in headers) >= 5
    assert all(header.base_timestamp == header.max_timestamp for header in headers)
