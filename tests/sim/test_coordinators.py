"""Coordinators of a whole simulated broker: found, served, killed at every point, found again."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.network import Address
from moldau.client.errors import ConnectionLost
from moldau.coordination.crash_points import CRASH_POINTS
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.log_lines import log_lines
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import World

GROUP, TRANSACTION, SHARE = 0, 1, 2
SETTINGS = {"node.id": "1", "log.dirs": "/data", "auto.create.topics.enable": "false"}
TOPIC = "orders"
RETRIED = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

BROKER = Address("broker", 9092)
CLIENT = ConnectionSettings(client_id="me")


class Bench:
    """One broker and those who ask it."""

    def __init__(self, world, **settings):
        self.world = world
        self.network = SimNetwork(world)
        disk = SimDisk(world.random("disk"), trace=world.trace)
        self.broker = SimBroker(world, self.network, disk, SETTINGS | settings)
        self._connection = None

    async def ask(self, request, version=None):
        """Ask over one connection, which is opened again after a crash."""
        while True:
            try:
                if self._connection is None:
                    host = self.network.host("client")
                    self._connection = await ClientConnection.open(host, BROKER, CLIENT)
                return await self._connection.call(request, version)
            except (ConnectionLost, OSError):
                self._connection = None
                await asyncio.sleep(0.01)

    async def find(self, *keys, kind=GROUP):
        response = await self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[*keys]))
        return [(one.key, one.error_code, one.node_id) for one in response.coordinators]

    async def create(self):
        await self.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)]))

    async def commit(self, group, offset):
        """Commit until it is acknowledged, as a consumer does."""
        partitions = [OffsetCommitRequestPartition(0, offset)]
        request = OffsetCommitRequest(
            group, topics=[OffsetCommitRequestTopic(TOPIC, b"", partitions)]
        )
        request.generation_id_or_member_epoch = -1
        while True:
            await self.find(group)
            response = await self.ask(request, 8)
            code = response.topics[0].partitions[0].error_code
            if code not in RETRIED:
                return code
            await asyncio.sleep(0.05)

    async def committed(self, group):
        topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=[0])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)])
        while True:
            (found,) = (await self.ask(request, 8)).groups
            if found.error_code not in RETRIED:
                return found.topics[0].partitions[0].committed_offset
            await asyncio.sleep(0.05)


def simulate(work, seed=1, **settings):
    with World(seed) as world, log_lines(world.trace) as lines:
        result = world.run(work(Bench(world, **settings)))
        assert lines.bugs == []
        return result


class TestFinding:
    def test_the_first_to_ask_makes_the_topic_and_is_answered(self):
        async def work(bench):
            await bench.broker.start()
            assert await bench.find("a", "b") == [("a", 0, 1), ("b", 0, 1)]
            assert await bench.find("t", kind=TRANSACTION) == [("t", 0, 1)]
            return {
                name: len(topic.partitions)
                for name, topic in bench.broker.broker.parts.image().topics.items()
            }

        assert simulate(work) == {"__consumer_offsets": 50, "__transaction_state": 50}

    def test_those_who_ask_at_once_are_all_answered_and_one_topic_is_made(self):
        async def work(bench):
            await bench.broker.start()
            host = bench.network.host("client")
            connections = [await ClientConnection.open(host, BROKER, CLIENT) for _ in range(5)]
            request = FindCoordinatorRequest(coordinator_keys=["a"])
            found = await asyncio.gather(*(each.call(request) for each in connections))
            return [(one.coordinators[0].error_code, one.coordinators[0].node_id) for one in found]

        for seed in range(3):
            assert simulate(work, seed) == [(0, 1)] * 5

    def test_old_versions_name_one_coordinator_at_the_top(self):
        async def work(bench):
            await bench.broker.start()
            return [
                (found.error_code, found.node_id, found.host, found.port, found.coordinators)
                for version in range(4)
                for found in [await bench.ask(FindCoordinatorRequest("a"), version)]
            ]

        assert simulate(work) == [(0, 1, "broker", 9092, [])] * 4

    @pytest.mark.parametrize("kind", [SHARE, 3, -1])
    def test_no_other_kind_of_coordinator_is_found(self, kind):
        async def work(bench):
            await bench.broker.start()
            found = await bench.find("a", kind=kind)
            old = await bench.ask(FindCoordinatorRequest("a", kind), 3)
            return found, (old.error_code, old.node_id)

        invalid = ErrorCode.INVALID_REQUEST
        assert simulate(work) == ([("a", invalid, -1)], (invalid, -1))

    def test_nothing_is_made_for_nobody(self):
        async def work(bench):
            await bench.broker.start()
            assert await bench.find() == []
            return dict(bench.broker.broker.parts.image().topics)

        assert simulate(work) == {}

    def test_a_broker_that_cannot_make_the_topic_says_so_and_serves_on(self):
        async def work(bench):
            await bench.broker.start()
            bench.broker.disk.faults.fill_up(10)
            return await bench.find("a")

        assert simulate(work) == [("a", ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)]


class TestTopics:
    def test_they_have_kafkas_configs_and_the_settings_of_the_broker(self):
        async def work(bench):
            await bench.broker.start()
            await bench.find("a")
            await bench.find("a", kind=TRANSACTION)
            resources = [
                DescribeConfigsResource(2, name, None)
                for name in ("__consumer_offsets", "__transaction_state")
            ]
            answer = await bench.ask(DescribeConfigsRequest(resources))
            topics = bench.broker.broker.parts.image().topics
            return [
                (
                    len(topics[result.resource_name].partitions),
                    {one.name: one.value for one in result.configs if one.config_source == 1},
                )
                for result in answer.results
            ]

        settings = {
            "offsets.topic.num.partitions": "7",
            "offsets.topic.segment.bytes": "5000000",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "9",
            "transaction.state.log.min.isr": "2",
        }
        assert simulate(work, **settings) == [
            (
                7,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": "5000000",
                },
            ),
            (
                9,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": "1",
                    "segment.bytes": "104857600",
                    "unclean.leader.election.enable": "false",
                },
            ),
        ]

    def test_they_are_internal_and_records_in_them_are_not_deleted(self):
        async def work(bench):
            await bench.broker.start()
            await bench.find("a")
            described = await bench.ask(MetadataRequest(None))
            delete = DeleteRecordsTopic("__consumer_offsets", [DeleteRecordsPartition(0, 0)])
            deleted = await bench.ask(DeleteRecordsRequest([delete]))
            return (
                [(topic.name, topic.is_internal) for topic in described.topics],
                deleted.topics[0].partitions[0].error_code,
            )

        internal = [("__consumer_offsets", True)]
        assert simulate(work) == (internal, ErrorCode.INVALID_TOPIC_EXCEPTION)

    def test_asking_for_metadata_makes_them_as_finding_a_coordinator_does(self):
        async def work(bench):
            await bench.broker.start()
            topics = [MetadataRequestTopic(name="__consumer_offsets")]
            topics.append(MetadataRequestTopic(name="__share_group_state"))
            request = MetadataRequest(topics, allow_auto_topic_creation=True)
            answer = await bench.ask(request)
            return [(one.error_code, len(one.partitions), one.is_internal) for one in answer.topics]

        missing = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0, True)
        assert simulate(work, **{"auto.create.topics.enable": "true"}) == [(0, 50, True), missing]


class TestLives:
    def test_an_orderly_stop_leaves_no_task_and_the_next_start_has_the_offsets(self):
        async def work(bench):
            await bench.broker.start()
            await bench.create()
            for number in range(5):
                assert await bench.commit(f"group {number}", number) == 0
            await bench.broker.stop()
            assert bench.broker.leaked_tasks() == []
            await bench.broker.start()
            return [await bench.committed(f"group {number}") for number in range(5)]

        assert simulate(work) == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("point", CRASH_POINTS)
    def test_an_acknowledged_commit_is_read_back_after_a_kill_at(self, point):
        async def work(bench):
            await bench.broker.start()
            await bench.create()
            told = {}
            with CrashPlan(trace=bench.world.trace) as plan:
                for life in range(3):
                    bench.broker.crash_at(plan, point, 2)
                    committing = asyncio.create_task(commits(bench, told, life))
                    while bench.broker.alive and not committing.done():
                        await asyncio.wait([committing], timeout=0.05)
                    if bench.broker.alive:
                        bench.broker.kill()
                    while not bench.broker.alive:
                        try:
                            await bench.broker.start()
                        except Crashed:
                            continue
                    await committing
            assert plan.passed[point]
            return told, {group: await bench.committed(group) for group in told}

        told, found = simulate(work)
        assert told
        assert found == told


async def commits(bench, told, life):
    """Commit to a few groups, noting what was acknowledged."""
    for number in range(6):
        group, offset = f"group {number % 3}", life * 10 + number
        assert await bench.commit(group, offset) == 0
        told[group] = offset
