"""When a produce request is answered on a partition with followers, and what it is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kits import log_kit
from kits.log_kit import HandClock, make_batch
from kits.partition_kit import ME, OTHER, give_role, make_partition
from kits.request_kit import context
from moldau.base.errors import ProtocolError
from moldau.base.ids import PartitionKey, TopicId
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Role
from moldau.replication.partitions import Partitions
from moldau.server.handlers.produce import Destination, Placed, ProduceHandler
from moldau.server.network.dispatch import Applied
from moldau.storage.flushing import Flusher
from moldau.storage.topic_config import LogConfig

BOTH = Role(ME, 0, 0, (ME, OTHER), (ME, OTHER))
SHRUNK = Role(ME, 0, 1, (ME, OTHER), (ME,))
CONTEXT = context(9)
LONG_MS = 1_000_000


class InPlace:
    """Does work at once."""

    async def run(self, work, /, *args):
        return work(*args)

    async def compute(self, lane, work, *args):
        return work(*args)


class Kit:
    """Two partitions with a follower each, which the test plays."""

    def __init__(self, role=BOTH, **config):
        disk = log_kit.Broker(config=LogConfig(**config))
        self.partitions = Partitions()
        for index in range(2):
            key, topic_id = PartitionKey("t", index), TopicId(bytes(16))
            log = disk.manager.open_or_create(key, topic_id, disk.config)
            self.partitions.add(make_partition(key, topic_id, log, role))
        self.traffic, self.stats = Traffic(), RequestStats()
        executor = InPlace()
        self.handler = ProduceHandler(
            self.partitions,
            HandClock(),
            executor,
            Flusher(executor),
            self.traffic,
            self.stats,
            None,
            None,
        )

    def __getitem__(self, index):
        return self.partitions.get("t", index)

    def send(self, *indexes, acks=ACKS_ALL, timeout_ms=LONG_MS, batch=None):
        data = [PartitionProduceData(index, batch or make_batch()) for index in indexes or (0,)]
        topic = TopicProduceData("t", bytes(16), partition_data=data)
        answer = self.handler(ProduceRequest(None, acks, timeout_ms, [topic]), CONTEXT)
        return answer.future if isinstance(answer, Applied) else answer

    def fetch(self, index, offset):
        self[index].update_follower(OTHER, offset, self[index].role.leader_epoch, 0.0)


def codes(response):
    return [ErrorCode(one.error_code) for one in response.responses[0].partition_responses]


def offsets(response):
    return [one.base_offset for one in response.responses[0].partition_responses]


def run(work):
    return asyncio.run(work())


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_NONE])
def test_who_does_not_ask_for_followers_does_not_wait_for_them(acks):
    kit = Kit()
    answer = kit.send(acks=acks)
    assert kit[0].log_end_offset == 1
    assert kit[0].high_watermark == 0
    assert answer is None if acks == ACKS_NONE else offsets(answer) == [0]


def test_alone_acks_all_is_answered_on_the_spot():
    answer = Kit(SHRUNK).send()
    assert (codes(answer), offsets(answer)) == ([ErrorCode.NONE], [0])


def test_acks_all_is_answered_when_the_high_watermark_has_passed_the_batch():
    async def work():
        kit = Kit()
        first, second = kit.send(), kit.send()
        assert kit[0].log_end_offset == 2
        kit.fetch(0, 0)
        assert not first.done()
        kit.fetch(0, 1)
        assert (codes(first.result()), offsets(first.result())) == ([ErrorCode.NONE], [0])
        assert not second.done()
        kit.fetch(0, 2)
        assert offsets(await second) == [1]

    run(work)


def test_one_answer_comes_when_all_partitions_are_decided():
    async def work():
        kit = Kit()
        answer = kit.send(0, 1)
        kit.fetch(1, 1)
        assert not answer.done()
        give_role(kit[0], Role(OTHER, 1, 1, (ME, OTHER), (OTHER,)))
        assert codes(await answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
        assert kit.traffic.of("t").failed_produce == 1

    run(work)


def test_a_retried_batch_waits_for_the_place_it_has():
    async def work():
        kit, batch = Kit(), make_batch(producer=(7, 0, 0))
        first, other, retried = kit.send(batch=batch), kit.send(), kit.send(batch=batch)
        assert kit[0].log_end_offset == 2
        kit.fetch(0, 1)
        assert offsets(await first) == offsets(await retried) == [0]
        assert not other.done()
        assert offsets(kit.send(batch=batch)) == [0]
        other.cancel()

    run(work)


def test_time_runs_out_for_who_waits():
    async def work():
        kit = Kit()
        patient = kit.send()
        late = await kit.send(timeout_ms=0)
        assert (codes(late), offsets(late)) == ([ErrorCode.REQUEST_TIMED_OUT], [1])
        kit.fetch(0, 2)
        assert codes(await patient) == [ErrorCode.NONE]

    run(work)


@pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER, ACKS_NONE])
def test_too_few_in_sync_replicas_refuse_acks_all_before_the_append(acks):
    kit = Kit(SHRUNK, min_insync_replicas=2)
    answer = kit.send(acks=acks)
    assert kit[0].log_end_offset == (acks != ACKS_ALL)
    if acks == ACKS_ALL:
        assert codes(answer) == [ErrorCode.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize(
    ("before", "refusal"),
    [
        (SHRUNK, ErrorCode.NOT_ENOUGH_REPLICAS),
        (Role(OTHER, 0, 1, (ME, OTHER), (ME, OTHER)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_batches_behind_one_that_was_turned_away_wait_for_it(before, refusal):
    """Several are under way when the replicas become enough, or the broker begins to lead."""
    first, second = (make_batch(producer=(7, 0, sequence)) for sequence in (0, 1))

    async def work():
        kit = Kit(before, min_insync_replicas=2)
        assert codes(kit.send(batch=first)) == [refusal]
        give_role(kit[0], replace(BOTH, leader_epoch=1, partition_epoch=2))
        on_fast_path = kit.handler.append_at_once(
            Destination("t", None, 0, ACKS_ALL), memoryview(second), 9
        )
        assert on_fast_path is None
        assert codes(kit.send(batch=second)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        answers = [kit.send(batch=first), kit.send(batch=second)]
        kit.fetch(0, 2)
        assert [offsets(await one) for one in answers] == [[0], [1]]

    run(work)


def test_a_batch_of_garbage_that_is_turned_away_is_not_waited_for():
    kit = Kit(SHRUNK, min_insync_replicas=2)
    for garbage in (b"", b"\xff" * 100, make_batch()[:40], make_batch(producer=(7, 0, -5))):
        assert codes(kit.send(batch=garbage or b"x")) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert kit[0].log.producers._expected == {}


def test_an_isr_that_shrinks_too_far_is_told_after_the_append():
    async def work():
        kit = Kit(min_insync_replicas=2)
        answer = kit.send()
        give_role(kit[0], SHRUNK)
        assert codes(await answer) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        assert kit[0].log_end_offset == 1

    run(work)


def test_an_isr_that_shrinks_to_the_leader_commits_where_that_is_enough():
    async def work():
        kit = Kit()
        answer = kit.send()
        give_role(kit[0], SHRUNK)
        assert codes(await answer) == [ErrorCode.NONE]

    run(work)


def test_a_topic_that_is_deleted_is_told():
    async def work():
        kit = Kit()
        answer = kit.send()
        kit.partitions.remove(kit[0].key)
        assert codes(await answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run(work)


def test_a_partition_that_moves_to_other_brokers_is_told():
    class Elsewhere:
        def has_partition(self, topic, index):
            return True

    async def work():
        kit = Kit()
        kit.partitions._known_topics = Elsewhere()
        answer = kit.send()
        kit.partitions.remove(kit[0].key)
        assert codes(await answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(work)


def test_a_client_that_leaves_is_waited_for_no_more():
    async def work():
        kit = Kit()
        answer, partition = kit.send(), kit[0]
        assert len(partition._delayed) == 1
        answer.cancel()
        await settle()
        assert len(partition._delayed) == 0
        kit.fetch(0, 1)
        assert partition.high_watermark == 1

    run(work)


@pytest.mark.parametrize("config", [{"flush_messages": 1}, {"compression_type": "gzip"}])
def test_batches_that_need_work_or_a_sync_wait_for_followers_too(config):
    async def work():
        kit = Kit(**config)
        answer = asyncio.ensure_future(kit.send())
        await settle()
        assert kit[0].log_end_offset == 1
        assert not answer.done()
        kit.fetch(0, 1)
        assert codes(await answer) == [ErrorCode.NONE]

    run(work)


def test_a_request_without_acks_is_still_told_by_closing():
    kit = Kit(Role(OTHER, 0, 0, (ME, OTHER), (ME, OTHER)))
    with pytest.raises(ProtocolError):
        kit.send(acks=ACKS_NONE)


class TestFastPath:
    @pytest.mark.parametrize("acks", [ACKS_ALL, ACKS_LEADER])
    @pytest.mark.parametrize("role", [BOTH, SHRUNK])
    def test_it_appends_whether_or_not_followers_are_waited_for(self, acks, role):
        kit = Kit(role)
        batch = memoryview(make_batch())
        placed = kit.handler.append_at_once(Destination("t", None, 0, acks), batch, 9)
        assert placed == Placed(kit[0], 1, 0, -1, 0)
        assert kit[0].log_end_offset == 1
        assert kit[0].high_watermark == (role is SHRUNK)

    def test_it_leaves_alone_what_is_refused(self):
        kit = Kit(SHRUNK, min_insync_replicas=2)
        batch = memoryview(make_batch())
        assert kit.handler.append_at_once(Destination("t", None, 0, ACKS_ALL), batch, 9) is None
        kit[0].update_config(replace(kit[0].config, min_insync_replicas=1))
        assert kit.handler.append_at_once(Destination("t", None, 0, ACKS_ALL), batch, 9)
