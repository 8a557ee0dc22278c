"""A whole broker whose partition has a follower in the ISR; the follower is played by the test."""

from __future__ import annotations

import asyncio

from kits.broker_bench import BROKER, CLIENT, simulate
from kits.partition_kit import ME, OTHER
from kits.replica_kit import Cluster
from moldau.engine.connection import ClientConnection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest, MetadataRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.replication.partition import Role
from moldau.replication.ports import ReplicationPorts

BOTH = Role(ME, 0, 100, (ME, OTHER), (ME, OTHER))
SHRUNK = Role(ME, 0, 100, (ME, OTHER), (ME,))


def result_of(produced):
    return produced.responses[0].partition_responses[0]


def test_requests_behind_a_produce_that_waits_are_handled_and_answered_in_order():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"0")  # the fast path knows this request now
        partition = bench.broker.broker.parts.partitions.get("t", 0)
        partition.become_leader(BOTH, bench.world.clock.monotonic())
        connection = await ClientConnection.open(bench.network.host("client"), BROKER, CLIENT)
        answered = []

        async def ask(name, request, version):
            response = await connection.call(request, version)
            answered.append(name)
            return response

        # One begins after the other: the simulation shuffles tasks.
        first = asyncio.ensure_future(ask("first", bench.batch(b"1"), 12))
        await asyncio.sleep(0)
        metadata = asyncio.ensure_future(ask("metadata", MetadataRequest(None), 12))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(ask("second", bench.batch(b"2"), 12))
        while partition.log_end_offset < 3:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.001)
        assert answered == []
        assert partition.high_watermark == 1
        assert await bench.values() == [b"0"]
        partition.update_follower(OTHER, 2, 0, bench.world.clock.monotonic())
        await asyncio.wait([first, metadata])
        assert answered == ["first", "metadata"]
        partition.update_follower(OTHER, 3, 0, bench.world.clock.monotonic())
        assert result_of(await first).base_offset == 1
        assert result_of(await second).base_offset == 2
        assert answered == ["first", "metadata", "second"]
        assert await bench.values() == [b"0", b"1", b"2"]
        late = await connection.call(bench.batch(b"3"), 12)
        assert result_of(late).error_code == ErrorCode.REQUEST_TIMED_OUT
        connection.close()
        await bench.broker.stop()

    simulate(work)


def commit(offset):
    partition = OffsetCommitRequestPartition(0, offset, committed_metadata="")
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])


def test_a_commit_waits_for_the_followers_also_when_the_fast_path_knows_it():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        for api in (FindCoordinatorRequest(coordinator_keys=["g"]), commit(1), commit(2)):
            await bench.ask(api, 4 if isinstance(api, FindCoordinatorRequest) else 9)
        partition = bench.broker.broker.parts.partitions.get("__consumer_offsets", 0)
        end_offset = partition.log_end_offset
        assert end_offset == partition.high_watermark == 2
        partition.become_leader(BOTH, bench.world.clock.monotonic())
        answer = asyncio.ensure_future(bench.ask(commit(3), 9))
        while partition.log_end_offset == end_offset:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert not answer.done()
        partition.update_follower(OTHER, end_offset + 1, 0, bench.world.clock.monotonic())
        assert (await answer).topics[0].partitions[0].error_code == ErrorCode.NONE
        await bench.broker.stop()

    simulate(work, **{"offsets.topic.num.partitions": "1"})


def test_a_commit_waits_for_a_follower_that_is_about_to_join():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        partition = bench.broker.broker.parts.partitions.get("__consumer_offsets", 0)
        partition.become_leader(SHRUNK, bench.world.clock.monotonic())
        for offset in (1, 2):
            await bench.ask(commit(offset), 9)
        end_offset = partition.log_end_offset
        assert end_offset == partition.high_watermark == 2
        cluster = Cluster()
        cluster.broker_epochs = {OTHER: 1}
        partition._ports = ReplicationPorts(cluster, cluster)
        now_s = bench.world.clock.monotonic()
        partition.update_follower(OTHER, end_offset, 0, now_s, broker_epoch=1)
        assert [proposal.isr for _, proposal in cluster.proposals] == [(ME, OTHER)]
        answer = asyncio.ensure_future(bench.ask(commit(3), 9))
        await asyncio.sleep(0.1)
        assert partition.log_end_offset == end_offset + 1
        assert not answer.done()
        partition.update_follower(OTHER, end_offset + 1, 0, now_s, broker_epoch=1)
        assert (await answer).topics[0].partitions[0].error_code == ErrorCode.NONE
        await bench.broker.stop()

    simulate(work, **{"offsets.topic.num.partitions": "1"})
