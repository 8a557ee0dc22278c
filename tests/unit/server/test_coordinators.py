"""Shards follow their partitions: led ones are loaded, all others thrown away."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.coordinator_kit import MapShard, failed, one
from kits.partition_kit import give_role, make_partition
from kits.slicing import count_turns
from moldau.base.ids import PartitionKey, TopicId
from moldau.cluster.changes import PartitionChanged, PartitionCreated, TopicRemoved
from moldau.cluster.model import NO_LEADER
from moldau.coordination.outcome import NOTHING, ProducerIdentity
from moldau.coordination.runtime import Runtime
from moldau.observe.traffic import Traffic
from moldau.records.batch import CHECKED_POSITION, parse_header
from moldau.replication.partition import Role
from moldau.replication.partitions import Partitions
from moldau.server.lifecycle.internal_partitions import (
    CHANGES_PER_SLICE,
    Coordinators,
    LedPartition,
    LogParts,
)
from moldau.sim.disk_faults import Operation
from moldau.storage.flushing import Flusher
from moldau.storage.topic_config import LogConfig

ME, OTHER = 1, 2
TOPIC = "__consumer_offsets"
TOPIC_ID = TopicId(bytes([7] * 16))
COMPACTED = frozenset({"compact"})
BATCH = one(b"a", b"1")


class HandExecutor:
    """Does work in place, once a test lets it."""

    def __init__(self):
        self.open = asyncio.Event()
        self.open.set()

    async def run(self, work, /, *args):
        await self.open.wait()
        return work(*args)


class Image:
    """Topics with so many partitions each."""

    topic_id = TOPIC_ID

    def __init__(self, **topics):
        self.topics = topics

    def topic(self, name):
        count = self.topics.get(name)
        if count is None:
            return None
        return SimpleNamespace(name=name, id=self.topic_id, partitions=tuple(range(count)))

    def topic_by_id(self, topic_id):
        return SimpleNamespace(name=f"topic {topic_id[0]}", id=topic_id) if topic_id[0] else None


class Kit:
    """One broker's partitions on a simulated disk, under the runtime of a map."""

    def __init__(self, **config):
        config.setdefault("cleanup_policy", COMPACTED)
        self.disk = log_kit.Broker(config=LogConfig(segment_bytes=1000, **config))
        self.partitions = Partitions()
        self.executor = HandExecutor()
        self.traffic = Traffic()
        self.failures = []
        self.shards = []
        self.parts = LogParts(
            self.disk.clock, self.executor, Flusher(self.executor), self.traffic, self.fail
        )
        self.groups = Runtime(TOPIC, 50, self._make, self.disk.clock)
        self.coordinators = Coordinators(
            self.groups,
            Runtime("__transaction_state", 50, MapShard, self.disk.clock),
            self.partitions,
            lambda: Image(**{TOPIC: 1}),
            self.parts,
        )

    def _make(self, index, leader_epoch):
        self.shards.append(MapShard(index, leader_epoch))
        return self.shards[-1]

    def fail(self, error):
        self.failures.append(error)
        self.disk.manager.directory_failed(error)
        self.coordinators.directory_failed()

    def partition(self, *, leader=ME, epoch=0, partition_epoch=0, index=0, replicas=(ME,)):
        """Make a partition, or give it another role."""
        role = Role(leader, epoch, partition_epoch, replicas, replicas[:1])
        found = self.partitions.get(TOPIC, index)
        key = PartitionKey(TOPIC, index)
        if found is None:
            log = self.disk.manager.open_or_create(key, TOPIC_ID, self.disk.config)
            found = make_partition(key, TOPIC_ID, log, role)
            self.partitions.add(found)
        give_role(found, role)
        self.coordinators.partition_changed(key)
        return found

    def put(self, key, value, **more):
        return self.groups.call("k", lambda s, t, _: s.put(t, key, value, **more), failed)

    def get(self, key):
        return self.groups.call("k", lambda s, t, _: s.get(t, key), failed)


def run(work):
    return asyncio.run(work())


def test_a_partition_that_is_led_is_loaded_and_one_that_is_not_resigned():
    async def work():
        kit = Kit()
        kit.partition()
        for number in range(60):
            assert kit.put(b"%d" % (number % 7), b"%d" % number) == ("put", b"%d" % number)
        before = kit.shards[0].map
        kit.partition(leader=OTHER, epoch=1, replicas=(OTHER, ME))
        assert kit.shards[0].has_resigned
        assert kit.get(b"1") == ("failed", "NOT_COORDINATOR")
        partition = kit.partition(epoch=2)
        assert len(partition.log.segments) > 2
        await kit.shards[-1].serves.wait()
        assert kit.shards[-1].map == before
        assert kit.shards[-1].leader_epoch == 2

    run(work)


def test_a_change_that_leaves_the_leader_leaves_the_shard():
    async def work():
        kit = Kit()
        partition = kit.partition()
        give_role(partition, Role(ME, 0, 5, (ME, OTHER), (ME,)))
        kit.coordinators.partition_changed(partition.key)
        assert len(kit.shards) == 1

    run(work)


def test_a_partition_that_is_removed_takes_its_shard_along():
    async def work():
        kit = Kit()
        partition = kit.partition()
        kit.partitions.remove(partition.key)
        kit.coordinators.partition_changed(partition.key)
        assert kit.shards[0].has_resigned
        kit.coordinators.partition_changed(PartitionKey("orders", 0))
        assert len(kit.shards) == 1

    run(work)


def test_keys_are_spread_over_the_partitions_there_are():
    async def work():
        kit = Kit()
        assert kit.groups.partition_for("KafkaConsumerDemo") == 35
        kit.partition()
        assert kit.groups.partition_for("KafkaConsumerDemo") == 0

    run(work)


def test_a_disk_that_fails_ends_the_shards_on_it():
    async def work():
        kit = Kit()
        kit.partition()
        parked = kit.groups.call("k", lambda shard, ticket, now: shard.park(ticket), failed)
        kit.disk.sim().faults.fail(Operation.APPEND, "/data")
        assert kit.put(b"a", b"1") == ("failed", "NOT_COORDINATOR")
        assert parked.result() == ("failed", "NOT_COORDINATOR")
        assert kit.failures
        assert kit.shards[0].has_resigned

    run(work)


def test_a_disk_that_fails_while_a_shard_loads_ends_it():
    async def work():
        kit = Kit()
        kit.partition()
        kit.put(b"a", b"1")
        kit.disk.sim().faults.fail(Operation.READ, "/data")
        kit.partition(epoch=1)
        assert kit.get(b"a") == ("failed", "COORDINATOR_LOAD_IN_PROGRESS")
        while kit.groups.led:
            await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        assert kit.failures
        assert kit.shards[-1].has_resigned
        assert kit.get(b"a") == ("failed", "NOT_COORDINATOR")
        kit.disk.sim().faults.heal()

    run(work)


def test_groups_hear_of_topics_that_are_gone():
    async def work():
        kit = Kit()
        kit.partition()
        heard = []
        kit.shards[0].topics_deleted = lambda gone, now: heard.append(gone) or NOTHING
        listeners = []
        kit.coordinators.follow(SimpleNamespace(image=Image(), subscribe=listeners.append))
        changes = [TopicRemoved(TopicId(bytes([1] * 16))), TopicRemoved(TopicId(bytes(16)))]
        listeners[0](changes, Image())
        listeners[0]([], Image())
        assert heard == [{"topic 1": bytes([1] * 16)}]

    run(work)


def test_transactions_hear_which_partitions_have_another_leader():
    kit, listeners, heard = Kit(), [], []
    shard = SimpleNamespace(leaders_changed=heard.append)
    kit.coordinators._transactions = SimpleNamespace(tell_all=lambda tell: tell(shard, None))
    kit.coordinators.follow(SimpleNamespace(image=Image(), subscribe=listeners.append))
    topic_id = TopicId(bytes([1] * 16))
    without_leader = PartitionChanged(topic_id, 2, leader=NO_LEADER)
    in_sync = PartitionChanged(topic_id, 3, isr=(ME,))
    listeners[0]([without_leader, in_sync], Image())
    assert heard == []
    listeners[0]([in_sync, PartitionChanged(topic_id, 4, leader=OTHER)], Image())
    assert heard == [{PartitionKey("topic 1", 4)}]


def test_transactions_hear_of_many_leaders_in_slices():
    async def work():
        kit, listeners, heard = Kit(), [], []
        shard = SimpleNamespace(leaders_changed=heard.append)
        kit.coordinators._transactions = SimpleNamespace(tell_all=lambda tell: tell(shard, None))
        kit.coordinators.follow(SimpleNamespace(image=Image(), subscribe=listeners.append))
        count, topic_id = 10 * CHANGES_PER_SLICE, TopicId(bytes([1] * 16))
        changes = [PartitionChanged(topic_id, index, leader=OTHER) for index in range(count)]
        took = await count_turns(told(listeners[0], changes, kit.coordinators))
        assert took >= 10
        assert max(map(len, heard)) == CHANGES_PER_SLICE
        assert frozenset().union(*heard) == {PartitionKey("topic 1", one) for one in range(count)}

    async def told(listener, changes, coordinators):
        listener(changes, Image())
        await asyncio.gather(*coordinators._telling)

    run(work)


def test_a_broker_that_leads_nothing_knows_how_keys_are_spread():
    async def work():
        kit = Kit()
        listeners = []
        image = Image(**{TOPIC: 7})
        kit.coordinators.follow(SimpleNamespace(image=image, subscribe=listeners.append))
        assert kit.groups.partition_count == 7
        listeners[0]([PartitionCreated(TOPIC_ID, None)], Image(**{TOPIC: 8}))
        assert kit.groups.partition_count == 7  # as it was when the topic was first seen

    run(work)


class TestLedPartition:
    def test_a_batch_is_appended_in_the_name_of_the_coordinator_and_counted(self):
        async def work():
            kit = Kit()
            partition = kit.partition(epoch=3)
            kit.put(b"a", b"1", producer=ProducerIdentity(9, 0))
            assert partition.log.first_unstable_offset == 0
            assert partition.high_watermark == 1
            assert partition.log.epochs.latest == 3
            assert kit.traffic.of(TOPIC).messages_in == 1

        run(work)

    @pytest.mark.parametrize(
        ("role", "told"),
        [
            (Role(ME, 1, 0, (ME,), (ME,)), "NOT_COORDINATOR"),
            (Role(OTHER, 0, 0, (ME,), (ME,)), "NOT_COORDINATOR"),
            (Role(ME, 0, 0, (ME, OTHER), (ME,)), "COORDINATOR_NOT_AVAILABLE"),
        ],
    )
    def test_nothing_is_appended_that_a_leader_may_not_append(self, role, told):
        async def work():
            kit = Kit(min_insync_replicas=2)
            partition = kit.partition()
            give_role(partition, role)
            assert kit.put(b"a", b"1") == ("failed", told)
            assert partition.log.log_end_offset == 0

        run(work)

    @pytest.mark.parametrize(
        ("role", "config", "appended"),
        [
            (Role(ME, 0, 0, (ME, OTHER), (ME,)), {}, True),
            (Role(ME, 0, 0, (ME, OTHER), (ME, OTHER)), {}, False),
            (Role(OTHER, 0, 0, (ME, OTHER), (ME,)), {}, False),
            (Role(ME, 1, 0, (ME, OTHER), (ME,)), {}, False),
            (Role(ME, 0, 0, (ME, OTHER), (ME,)), {"min_insync_replicas": 2}, False),
            (Role(ME, 0, 0, (ME, OTHER), (ME,)), {"flush_messages": 1}, False),
            (Role(ME, 0, 0, (ME, OTHER), (ME,)), {"flush_messages": 1000}, False),
            (Role(ME, 0, 0, (ME,), (ME,)), {"message_timestamp_type": "LogAppendTime"}, False),
            (Role(ME, 0, 0, (ME,), (ME,)), {"max_message_bytes": len(BATCH)}, True),
            (Role(ME, 0, 0, (ME,), (ME,)), {"max_message_bytes": len(BATCH) - 1}, False),
        ],
    )
    def test_only_who_need_not_wait_appends_what_is_committed_at_once(self, role, config, appended):
        async def work():
            kit = Kit(**config)
            partition = kit.partition()
            led = LedPartition(partition, kit.parts)
            give_role(partition, role)
            for count in (1, 2):
                end_offset = count if appended else None
                assert led.append_committed(BATCH[CHECKED_POSITION:], 1) == end_offset
            assert partition.high_watermark == partition.log.log_end_offset == 2 * appended
            assert kit.traffic.of(TOPIC).messages_in == 2 * appended
            assert kit.traffic.of(TOPIC).bytes_in == 2 * appended * len(BATCH)

        run(work)

    def test_another_role_or_config_counts_from_the_next_batch_on(self):
        async def work():
            kit = Kit()
            partition = kit.partition()
            led = LedPartition(partition, kit.parts)
            append = partial(led.append_committed, BATCH[CHECKED_POSITION:], 1)
            assert append() == 1
            give_role(partition, Role(ME, 0, 1, (ME, OTHER), (ME, OTHER)))
            assert append() is None
            give_role(partition, Role(ME, 0, 2, (ME, OTHER), (ME,)))
            assert append() == 2
            config = partition.log.config
            partition.log.update_config(replace(config, flush_messages=1))
            assert append() is None
            partition.log.update_config(config)
            assert append() == 3

        run(work)

    def test_a_disk_that_fails_is_told_of_and_nothing_is_appended_at_once(self):
        async def work():
            kit = Kit()
            partition = kit.partition()
            led = LedPartition(partition, kit.parts)
            kit.disk.sim().faults.fail(Operation.APPEND, "/data")
            assert led.append_committed(BATCH[CHECKED_POSITION:], 1) is None
            assert len(kit.failures) == 1
            assert partition.log.log_end_offset == partition.high_watermark == 0
            partition.log.offline = True
            assert led.append_committed(BATCH[CHECKED_POSITION:], 1) is None

        run(work)

    def test_a_batch_larger_than_the_topic_takes_is_refused(self):
        async def work():
            kit = Kit(max_message_bytes=200)
            kit.partition()
            assert kit.put(b"a", b"1" * 200) == ("failed", "UNKNOWN_SERVER_ERROR")
            assert kit.put(b"a", b"1") == ("put", b"1")

        run(work)

    def test_a_topic_that_keeps_the_leaders_time_gets_it(self):
        async def work():
            kit = Kit(message_timestamp_type="LogAppendTime")
            partition = kit.partition()
            kit.put(b"a", b"1")
            data = await LedPartition(partition, kit.parts).read(0, 1000)
            assert parse_header(data).append_time

        run(work)

    def test_with_flush_messages_a_reply_waits_for_the_disk(self):
        async def work():
            kit = Kit(flush_messages=1)
            partition = kit.partition()
            kit.executor.open.clear()
            answer = kit.put(b"a", b"1")
            await asyncio.sleep(0)
            assert not answer.done()
            assert partition.log.recovery_point == 0
            kit.executor.open.set()
            assert await answer == ("put", b"1")
            assert partition.log.recovery_point == 1

        run(work)

    def test_a_failed_sync_ends_the_shard_instead_of_acknowledging(self):
        async def work():
            kit = Kit(flush_messages=1)
            kit.partition()
            kit.disk.sim().faults.fail(Operation.SYNC, "/data")
            assert await kit.put(b"a", b"1") == ("failed", "NOT_COORDINATOR")

        run(work)


class TestWaitingForFollowers:
    """A coordinator waits for the high watermark in the queue of its partition."""

    BOTH = Role(ME, 0, 1, (ME, OTHER), (ME, OTHER))

    def test_a_reply_waits_for_the_in_sync_followers(self):
        async def work():
            kit = Kit()
            partition = kit.partition(replicas=(ME, OTHER))
            give_role(partition, self.BOTH)
            first, read = kit.put(b"a", b"1"), kit.get(b"a")
            second = kit.put(b"b", b"2")
            assert partition.log_end_offset == 2
            assert not first.done()
            partition.update_follower(OTHER, 1, 0, 0.0)
            assert (first.result(), read.result()) == (("put", b"1"), ("got", b"1"))
            assert not second.done()
            partition.update_follower(OTHER, 2, 0, 0.0)
            assert second.result() == ("put", b"2")

        run(work)

    def test_who_waits_is_told_when_another_broker_leads(self):
        async def work():
            kit = Kit()
            give_role(kit.partition(replicas=(ME, OTHER)), self.BOTH)
            answer = kit.put(b"a", b"1")
            kit.partition(leader=OTHER, epoch=1, partition_epoch=2, replicas=(OTHER, ME))
            assert answer.result() == ("failed", "NOT_COORDINATOR")
            assert kit.shards[0].has_resigned

        run(work)

    def test_too_small_an_isr_is_told_and_what_follows_the_commit_still_comes(self):
        async def work():
            kit = Kit(min_insync_replicas=2)
            partition = kit.partition(replicas=(ME, OTHER))
            give_role(partition, self.BOTH)
            follows = []
            answer = kit.put(b"a", b"1", then=lambda now: follows.append("then") or NOTHING)
            give_role(partition, replace(self.BOTH, partition_epoch=2, isr=(ME,)))
            assert answer.result() == ("failed", "COORDINATOR_NOT_AVAILABLE")
            assert follows == []
            give_role(partition, replace(self.BOTH, partition_epoch=3))
            partition.update_follower(OTHER, 1, 0, 0.0)
            assert follows == ["then"]

        run(work)

    def test_a_shard_that_is_thrown_away_waits_for_nothing(self):
        async def work():
            kit = Kit()
            partition = kit.partition(replicas=(ME, OTHER))
            give_role(partition, self.BOTH)
            follows = []
            answer = kit.put(b"a", b"1", then=lambda now: follows.append("then") or NOTHING)
            kit.groups.resign(0)
            assert answer.result() == ("failed", "NOT_COORDINATOR")
            partition.update_follower(OTHER, 1, 0, 0.0)
            assert follows == []

        run(work)


def test_keys_are_spread_over_the_partitions_there_are_also_where_none_is_led():
    kit, listeners = Kit(), []
    kit.coordinators.follow(SimpleNamespace(image=Image(), subscribe=listeners.append))
    assert kit.groups.partition_count == 50
    listeners[0]([], Image(**{TOPIC: 0}))
    assert kit.groups.partition_count == 50
    listeners[0]([], Image(**{TOPIC: 3}))
    assert kit.groups.partition_count == 3
    listeners[0]([], Image(**{TOPIC: 4}))
    assert kit.groups.partition_count == 3, "keys do not move when a topic grows"
    made_again = Image(**{TOPIC: 5})
    made_again.topic_id = TopicId(bytes([8] * 16))
    listeners[0]([], made_again)
    assert kit.groups.partition_count == 5


def test_a_broker_that_starts_spreads_keys_as_the_others_do():
    kit = Kit()
    started = SimpleNamespace(image=Image(**{TOPIC: 7}), subscribe=lambda _: None)
    kit.coordinators.follow(started)
    assert kit.groups.partition_count == 7
