"""What the answer to Produce tells beside the offset: times of duplicates, the start of the log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.log_kit import HandClock, make_batch
from moldau.base.ids import PartitionKey, TopicId
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.records.builder import BatchBuilder
from moldau.replication.partition import Partition, Role
from moldau.replication.partitions import Partitions
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.produce import ProduceHandler

ME = 1


class Kit:
    """One partition that starts at offset 2, and a producer."""

    def __init__(self):
        disk = log_kit.Broker()
        key, topic_id = PartitionKey("t", 0), TopicId(bytes(16))
        self.log = disk.manager.open_or_create(key, topic_id, disk.config)
        partition = Partition(key, topic_id, self.log, Role(ME, 0, 0, (ME,), (ME,)))
        partitions = Partitions()
        partitions.add(partition)
        log_kit.append(self.log, make_batch([b"a", b"b", b"c"]))
        partition.advance()
        self.log.delete_records_before(2)
        self._handler = ProduceHandler(
            partitions, ME, HandClock(), None, None, Traffic(), RequestStats(), None, None
        )

    def send(self, records):
        data = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
        context = RequestContext(SimpleNamespace(peer="nobody"), 9, "client")
        response = self._handler(ProduceRequest(None, 1, 100, [data]), context)
        return response.responses[0].partition_responses[0]


def numbered(sequence, timestamp=1000):
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=sequence)
    builder.append(timestamp, b"k", b"v")
    return builder.build()


def test_a_duplicate_is_answered_with_the_place_and_time_it_had():
    kit = Kit()
    first = kit.send(numbered(0))
    again = kit.send(numbered(0))
    assert (first.base_offset, first.log_append_time_ms) == (3, -1)
    assert (again.base_offset, again.log_append_time_ms) == (3, 1000)
    assert kit.log.log_end_offset == 4


@pytest.mark.parametrize(
    ("sequences", "code"), [((0, 5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), ((-1,), None)]
)
def test_a_refused_producer_is_told_where_the_log_starts(sequences, code):
    kit = Kit()
    *accepted, refused = [kit.send(numbered(sequence)) for sequence in sequences]
    assert all(one.error_code == 0 for one in accepted)
    assert refused.error_code == (code or ErrorCode.INVALID_RECORD)
    assert (refused.base_offset, refused.log_start_offset) == (-1, 2)


def test_nothing_is_told_of_the_log_to_one_whose_bytes_were_damaged():
    damaged = bytearray(numbered(0))
    damaged[-1] ^= 1
    refused = Kit().send(bytes(damaged))
    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
    assert refused.log_start_offset == -1
