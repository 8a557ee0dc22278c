"""What tests of an observer's store share: a voter that runs, and what its log is given."""

from __future__ import annotations

import asyncio

from kits.sole_voter import commit, created
from moldau.base.files import read_whole
from moldau.cluster.journal import Journal
from moldau.cluster.kraft.raft_log import PreparedBatch
from moldau.cluster.record_codec import encode_change
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder

FOLDER = "/data/__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"
VOTERS_LOG = f"/voter/__cluster_metadata-0/{0:020d}.log"


def run(cluster, work):
    """Let a voter run while `work` does something."""

    async def running():
        await cluster.start_voter()
        result = await work()
        if cluster.handlers is not None:
            await cluster.stop_voter()
        return result

    return cluster.world.run(running())


async def fill(cluster, count, first=0):
    voter = cluster.voter
    for number in range(first, first + count):
        await commit(voter, voter.image.version, [created(number)])


async def following(cluster, disk, **settings):
    """Return an observer that has caught up."""
    observer = cluster.new_observer(disk, **settings)
    await observer.start()
    await observer.caught_up()
    return observer


async def catch_up(cluster, disk, **settings):
    """Let an observer follow until it has the voter's image, and close it."""
    observer = await following(cluster, disk, **settings)
    assert observer.image == cluster.voter.image
    await observer.close()


def assert_same_log(cluster, disk):
    """Compare an observer's log with the voter's, byte for byte."""
    assert read_whole(disk, LOG) == read_whole(cluster.disk, VOTERS_LOG)


async def write_raw(voter, values):
    """Commit records that the controller itself would not write."""
    builder = BatchBuilder()
    for value in values:
        builder.append(1_000, None, value)
    end = voter.node.life.log.end_offset + builder.count
    voter.node.append(PreparedBatch(bytearray(builder.build()), builder.count), builder.count)
    while voter.node.life.high_watermark < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def diverged(cluster, disk, count=2):
    """Give an observer's log an end that the voter does not have, of the voter's last epoch."""
    await fill(cluster, 3)
    await catch_up(cluster, disk)
    epoch = cluster.voter.leader_epoch
    journal = Journal(disk, FOLDER, is_copy=True)
    for _ in journal.load(0):
        pass
    journal.resume(0)
    for number in range(count):
        builder = BatchBuilder(base_offset=journal.next_offset, leader_epoch=epoch)
        builder.append(1_000, None, encode_change(created(900 + number), 30))
        data = builder.build()
        journal.append_copies(data, [parse_header(data)])
    journal.close()


async def failure_of(observer):
    failed = asyncio.get_running_loop().create_future()
    observer.on_failed(failed.set_result)
    raise await failed


async def with_snapshot(cluster, count=30):
    await fill(cluster, count, first=100)
    await cluster.voter._log._snapshotting.finish()
    assert cluster.voter._log.newest_snapshot is not None
