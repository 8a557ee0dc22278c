"""The handlers of transactions over one shard and a few partitions, as tests drive them."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kits import log_kit
from kits.coordinator_kit import MemoryLog
from kits.partition_kit import make_partition
from kits.request_kit import context
from kits.slicing import finished
from moldau.base.ids import PartitionKey, TopicId
from moldau.cluster.store import StoreFailed
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.sweeping import TransactionSettings
from moldau.engine.errors import ClientClosed
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from moldau.records.batch import iter_batches, parse_header
from moldau.records.control import end_transaction_marker
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.transaction_admin import TransactionAdminHandlers
from moldau.server.handlers.transactions import TransactionHandlers
from moldau.server.transactions.marker_sending import MarkerSender
from moldau.server.transactions.markers import MarkerWriter
from moldau.server.transactions.remote_markers import RemoteMarkers
from moldau.server.transactions.remote_verification import RemoteCoordinators
from moldau.server.transactions.verification import (
    RetrySettings,
    TransactionVerifier,
)
from moldau.storage.flushing import Flusher
from moldau.storage.topic_config import LogConfig

ME, OTHER = 1, 2
ORDERS = PartitionKey("orders", 0)
OFFSETS = PartitionKey("__consumer_offsets", 3)
TOPIC_ID = TopicId(bytes([7] * 16))
NONE = ErrorCode.NONE


class HandIds:
    """Gives producer ids out, unless the controller has none to give."""

    def __init__(self):
        self.next = 4000
        self.failed = False
        self.failure = StoreFailed("no disk")

    async def take(self):
        if self.failed:
            raise self.failure
        self.next += 1
        return self.next - 1


class InPlace:
    """Does work at once."""

    async def run(self, work, /, *args):
        return work(*args)


class ScriptedBrokers:
    """Other brokers: a test answers each request, in the order in which they come."""

    def __init__(self):
        self.requests = asyncio.Queue()
        self.is_closed = False

    async def call(self, broker_id, request, *, lowest_version=0):
        del lowest_version
        answer = asyncio.get_running_loop().create_future()
        self.requests.put_nowait(Asked(broker_id, request, answer))
        return await answer

    async def next(self):
        """Return what the next request asks for."""
        return await asyncio.wait_for(self.requests.get(), 10)

    async def close(self):
        self.is_closed = True
        while not self.requests.empty():
            self.requests.get_nowait().fail(ClientClosed("closed"))


class Asked(NamedTuple):
    """One request to another broker, without an answer yet."""

    broker_id: int
    request: Any
    answer: asyncio.Future

    def fail(self, error):
        self.answer.set_exception(error)

    def written(self, *codes):
        """Say of each partition, in the order of the request, what became of its marker."""
        left = iter(codes)
        self.answer.set_result(
            WriteTxnMarkersResponse(
                [
                    WritableTxnMarkerResult(
                        marker.producer_id,
                        [
                            WritableTxnMarkerTopicResult(
                                topic.name,
                                [
                                    WritableTxnMarkerPartitionResult(index, next(left))
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in self.request.markers
                ]
            )
        )

    def verified(self, *codes, error=0):
        """Say of each partition, in the order of the request, whether it is in its transaction."""
        left = iter(codes)
        self.answer.set_result(
            AddPartitionsToTxnResponse(
                error_code=error,
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        one.transactional_id,
                        [
                            AddPartitionsToTxnTopicResult(
                                topic.name,
                                [
                                    AddPartitionsToTxnPartitionResult(index, next(left))
                                    for index in topic.partitions
                                ],
                            )
                            for topic in one.topics
                        ],
                    )
                    for one in self.request.transactions
                    if not error
                ],
            )
        )


class Kit:
    """One coordinator, its partitions on a simulated disk, and everything between."""

    def __init__(self, *, version=2, **config):
        self.disk = log_kit.Broker(config=LogConfig(**config))
        self.partitions = Partitions()
        self.metadata = {}
        self.failures = []
        self.offsets_ended = []
        self.ids = HandIds()
        self.writer = MarkerWriter(
            self.partitions,
            self.disk.clock,
            Flusher(InPlace()),
            lambda index, producer, *, committed: self.offsets_ended.append(
                (index, producer, committed)
            ),
            self.failures.append,
        )
        self.others = ScriptedBrokers()
        self.sender = MarkerSender(
            ME, self.writer, RemoteMarkers(self.others), self.image, lambda: self.runtime
        )
        settings = TransactionSettings(
            max_timeout_ms=900_000,
            abort_interval_ms=10_000,
            expiration_ms=604_800_000,
            expiration_interval_ms=3_600_000,
            transaction_version=lambda: version,
        )
        self.log = MemoryLog(leader_epoch=9)
        self.runtime = Runtime(
            "__transaction_state",
            1,
            lambda _index, epoch: TransactionShard(epoch, settings),
            self.disk.clock,
            perform=self.sender,
            settled=self.sender.settled,
        )
        self.producers = TransactionHandlers(self.runtime, self.ids, self.image, lambda _: 3)
        self.admin = TransactionAdminHandlers(self.runtime, self.writer, self.disk.clock)
        self.coordinator = None
        self.verifier = TransactionVerifier(
            self.runtime,
            self.disk.clock,
            RetrySettings(1, 50),
            RemoteCoordinators(self.others),
            lambda _: self.coordinator,
        )
        self.partition(ORDERS)
        self.partition(OFFSETS)

    def image(self):
        return SimpleNamespace(partition=self.metadata.get)

    def partition(self, key, *, leader=ME):
        log = self.disk.manager.open_or_create(key, TOPIC_ID, self.disk.config)
        found = make_partition(key, TOPIC_ID, log, Role(leader, 0, 0, (ME,), (ME,)))
        self.partitions.add(found)
        self.metadata[key] = SimpleNamespace(leader=leader)
        return found

    def lead(self):
        self.runtime.lead(self.log)
        return self

    def markers(self, key=ORDERS):
        """The markers in a partition: committed, producer id, epoch, coordinator epoch."""
        log = self.partitions.get(*key).log
        content = log_kit.region_bytes(log.read(0, 100_000, log.log_end_offset))
        found = []
        for position, size, *_ in iter_batches(content):
            batch = content[position : position + size]
            header = parse_header(batch)
            if header.control:
                aborted, coordinator_epoch = end_transaction_marker(batch)
                producer = header.producer_id, header.producer_epoch
                found.append((not aborted, *producer, coordinator_epoch))
        return found

    async def init(self, version=5, name="copier", **fields):
        request = InitProducerIdRequest(name, 60_000, **fields)
        return await self.producers.init_producer_id(request, at(version))

    async def add(self, producer, *keys, version=3, name="copier"):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics(*keys),
        )
        response = await there(self.producers.add_partitions_to_txn(request, at(version)))
        return codes(response.results_by_topic_v3_and_below)

    async def end(self, producer, *, committed=True, version=3, name="copier"):
        request = EndTxnRequest(name, *producer, committed)
        response = await there(self.producers.end_txn(request, at(version)))
        return response.error_code, response.producer_id, response.producer_epoch

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def until(self, state):
        """Return once the transaction is in this state; markers are tried again without a rest."""
        for _ in range(1000):
            if (await self.state()).transaction_state == state:
                return
            await asyncio.sleep(0)
        pytest.fail(f"never {state}")

    async def state(self, name="copier"):
        request = DescribeTransactionsRequest([name])
        (described,) = (
            await there(self.admin.describe_transactions(request, at(0)))
        ).transaction_states
        return described


def topics(*keys):
    return [AddPartitionsToTxnTopic(key.topic, [key.partition]) for key in keys]


def codes(results):
    return {
        (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    }


def at(version):
    return context(version)


async def there(answer):
    answer = finished(answer)
    return await answer if inspect.isawaitable(answer) else answer


def run(work):
    asyncio.run(work())
