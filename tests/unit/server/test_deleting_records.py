"""When DeleteRecords is answered on partitions with followers, and what it is told."""

from __future__ import annotations

import asyncio

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.partition_kit import ME, OTHER, give_role
from kits.request_kit import context
from kits.slicing import finished
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.replication.ports import ReplicationPorts
from moldau.server.handlers.offsets import OffsetHandlers

BOTH = Role(ME, 5, 1, (ME, OTHER), (ME, OTHER))
LONG_MS = 1_000_000


class Kit:
    """Two partitions of three records, committed on two brokers; the test plays the other one."""

    def __init__(self):
        disk = log_kit.Broker()
        self.partitions, self.live = Partitions(), {OTHER}
        for index in range(2):
            key, topic_id = PartitionKey("t", index), TopicId(bytes(16))
            log = disk.manager.open_or_create(key, topic_id, disk.config)
            partition = Partition(key, topic_id, log, ME, ReplicationPorts(self, self))
            give_role(partition, BOTH)
            for _ in range(3):
                log_kit.append(log, make_batch(), 5)
            self.partitions.add(partition)
            self.fetch(index, 0)
        self.handlers = OffsetHandlers(self.partitions, None, None)

    def broker_epoch(self, broker_id):
        return 7

    def is_eligible(self, broker_id):
        return broker_id in self.live

    def propose(self, *_):
        """Let the ISR be what the test says."""

    def __getitem__(self, index):
        return self.partitions.get("t", index)

    def fetch(self, index, log_start):
        """Be the follower that has everything and whose log starts here."""
        self[index].update_follower(OTHER, 3, 5, 0.0, log_start_offset=log_start)

    def delete(self, *offsets, timeout_ms=LONG_MS):
        asked = [DeleteRecordsPartition(index, offset) for index, offset in enumerate(offsets)]
        request = DeleteRecordsRequest([DeleteRecordsTopic("t", asked)], timeout_ms)
        return finished(self.handlers.delete_records(request, context(2)))


def told(response):
    results = response.topics[0].partitions
    return [(ErrorCode(one.error_code), one.low_watermark) for one in results]


def run(work):
    asyncio.run(work())


def test_it_is_answered_when_every_live_replica_has_deleted_the_records():
    async def work():
        kit = Kit()
        answer = kit.delete(2, -1)
        assert [kit[0].log_start_offset, kit[1].log_start_offset] == [2, 3]
        kit.fetch(0, 1)
        kit.fetch(1, 3)
        assert not answer.done()
        kit.fetch(0, 2)
        assert told(await answer) == [(ErrorCode.NONE, 2), (ErrorCode.NONE, 3)]

    run(work)


def test_what_every_replica_has_deleted_is_answered_at_once():
    kit = Kit()
    assert told(kit.delete(0)) == [(ErrorCode.NONE, 0)]


def test_a_broker_that_is_fenced_is_not_waited_for():
    async def work():
        kit = Kit()
        answer = kit.delete(2)
        kit.live.clear()
        kit[0].shrink_isr(0.0)
        assert told(await answer) == [(ErrorCode.NONE, 2)]
        assert told(kit.delete(3)) == [(ErrorCode.NONE, 3)]

    run(work)


def test_a_replica_that_is_removed_is_not_waited_for():
    async def work():
        kit = Kit()
        answer = kit.delete(2)
        give_role(kit[0], Role(ME, 5, 2, (ME,), (ME,)))
        assert told(await answer) == [(ErrorCode.NONE, 2)]

    run(work)


def test_time_runs_out():
    async def work():
        assert told(await Kit().delete(2, timeout_ms=0)) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]

    run(work)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            lambda kit: give_role(kit[0], Role(OTHER, 6, 2, (ME, OTHER), (ME, OTHER))),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        (
            lambda kit: kit.partitions.remove(PartitionKey("t", 0)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
    ],
)
def test_it_fails_at_once_when_this_broker_leads_no_more(change, error):
    async def work():
        kit = Kit()
        answer = kit.delete(2, 2)
        change(kit)
        kit.fetch(1, 2)
        assert [code for code, _ in told(await answer)] == [error, ErrorCode.NONE]

    run(work)


def test_one_partition_that_is_refused_does_not_keep_the_others_from_waiting():
    async def work():
        kit = Kit()
        answer = kit.delete(9, 2)
        kit.fetch(1, 2)
        assert told(await answer) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1), (ErrorCode.NONE, 2)]

    run(work)


def test_a_client_that_leaves_is_waited_for_no_more():
    async def work():
        kit = Kit()
        answer = kit.delete(2)
        answer.cancel()
        await asyncio.sleep(0)
        assert not kit[0]._deletions
        kit.fetch(0, 2)

    run(work)
