"""What a leader tells of the end of a partition before its high watermark has caught up (KIP-207).

Broker 1 takes over a log of three records. It has heard of the first one only that it is committed.
"""

from __future__ import annotations

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.partition_kit import ME, OTHER, give_role, make_partition
from kits.request_kit import context, session
from kits.slicing import finished
from moldau.base.ids import PartitionKey, TopicId
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, OffsetHandlers

UNKNOWN = ErrorCode.OFFSET_NOT_AVAILABLE
READ_COMMITTED = 1


class Kit:
    def __init__(self):
        disk = log_kit.Broker()
        key, topic_id = PartitionKey("t", 0), TopicId(bytes(16))
        log = disk.manager.open_or_create(key, topic_id, disk.config)
        for timestamp in (100, 200, 300):
            log_kit.append(log, make_batch(timestamps=timestamp), 4)
        old_role = Role(OTHER, 4, 0, (ME, OTHER), (ME, OTHER))
        self.partition = make_partition(key, topic_id, log, old_role)
        self.partition.set_high_watermark(1)
        give_role(self.partition, Role(ME, 5, 1, (ME, OTHER), (ME, OTHER)))
        partitions = Partitions()
        partitions.add(self.partition)
        self.handlers = OffsetHandlers(
            partitions, None, None, is_for_brokers=lambda asker: asker.listener == "BROKERS"
        )

    def ask(self, timestamp, *, version=7, replica=-1, isolation=0, listener="BROKERS"):
        asked = ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=9)
        request = ListOffsetsRequest(replica, isolation, [ListOffsetsTopic("t", [asked])])
        asker = session(listener=listener)
        response = finished(self.handlers.list_offsets(request, context(version, asker=asker)))
        told = response.topics[0].partitions[0]
        if told.error_code:
            return ErrorCode(told.error_code)
        return told.offset if version else told.old_style_offsets

    def fetch(self, offset):
        self.partition.update_follower(OTHER, offset, 5, 0.0)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_the_end_is_not_told_before_the_high_watermark_has_reached_the_epoch(isolation):
    kit = Kit()
    assert kit.ask(LATEST, isolation=isolation) is UNKNOWN
    kit.fetch(2)
    assert kit.ask(LATEST, isolation=isolation) is UNKNOWN
    kit.fetch(3)
    assert kit.ask(LATEST, isolation=isolation) == 3


def test_a_time_is_answered_where_its_record_is_committed():
    kit = Kit()
    assert kit.ask(100) == 0
    assert kit.ask(200) is kit.ask(301) is kit.ask(MAX_TIMESTAMP) is UNKNOWN
    kit.fetch(3)
    assert [kit.ask(200), kit.ask(301), kit.ask(MAX_TIMESTAMP)] == [1, -1, 2]


def test_the_start_is_told():
    assert Kit().ask(EARLIEST) == 0


def test_a_replica_is_told_where_the_log_ends():
    assert Kit().ask(LATEST, replica=OTHER) == 3


def test_where_clients_ask_nobody_is_a_replica():
    assert Kit().ask(LATEST, replica=OTHER, listener="CLIENTS") is UNKNOWN


@pytest.mark.parametrize("version", [0, 1, 4])
def test_clients_that_do_not_know_the_error_get_another_to_retry_on(version):
    assert Kit().ask(LATEST, version=version) is ErrorCode.LEADER_NOT_AVAILABLE
    assert Kit().ask(EARLIEST, version=version) in (0, [0])
