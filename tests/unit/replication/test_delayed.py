"""Operations wait for the high watermark, complete in order, and fail for the right reason."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kits import log_kit
from kits.log_kit import KEY, TOPIC_ID, make_batch
from kits.partition_kit import ME, OTHER, give_role
from moldau.base.errors import InvariantViolated
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.delayed import DelayedOperations
from moldau.replication.partition import ACKS_ALL, Partition, Role
from moldau.replication.partitions import Partitions
from moldau.storage.topic_config import LogConfig

NONE = ErrorCode.NONE
BOTH = Role(ME, 0, 0, (ME, OTHER), (ME, OTHER))
LONG_S = 1000.0


class Told(list):
    """What each operation was told, in order."""

    def of(self, name):
        return lambda code: self.append((name, code))


class TestQueue:
    def test_operations_complete_in_the_order_of_their_offsets(self):
        queue, told = DelayedOperations(), Told()
        for name, offset in (("b", 2), ("c", 3), ("retried a", 1), ("also b", 2)):
            queue.add(offset, told.of(name), None)
        queue.complete(0)
        assert told == []
        queue.complete(2)
        assert told == [("retried a", NONE), ("b", NONE), ("also b", NONE)]
        queue.complete(2)
        queue.complete(3)
        assert told[3:] == [("c", NONE)]
        assert len(queue) == 0

    def test_one_that_moves_the_high_watermark_does_not_overtake_the_others(self):
        queue, told = DelayedOperations(), Told()

        def first(code):
            told.append(("first", code))
            queue.add(3, told.of("new"), None)
            queue.complete(3)

        queue.add(1, first, None)
        queue.add(1, told.of("second"), None)
        queue.complete(1)
        assert [name for name, _ in told] == ["first", "second", "new"]

    def test_a_cancelled_one_is_told_nothing(self):
        queue, told = DelayedOperations(), Told()
        kept = [queue.add(1, told.of(name), None) for name in "abc"]
        kept[1].cancel()
        kept[1].cancel()
        queue.complete(1)
        kept[0].cancel()
        assert [name for name, _ in told] == ["a", "c"]

    def test_one_may_cancel_another_that_is_due_with_it(self):
        queue, told = DelayedOperations(), Told()
        later = []
        queue.add(1, lambda code: later[0].cancel(), None)
        later.append(queue.add(1, told.of("cancelled"), None))
        queue.complete(1)
        assert told == []

    def test_only_one_with_a_timeout_is_told_that_too_few_are_in_sync(self):
        async def work():
            queue, told = DelayedOperations(), Told()
            queue.add(1, told.of("client"), LONG_S)
            queue.add(1, told.of("work"), None)
            queue.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            assert told == [("client", ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]
            queue.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert told[1:] == [("work", ErrorCode.NOT_LEADER_OR_FOLLOWER)]

        asyncio.run(work())

    def test_time_runs_out_for_each_on_its_own(self):
        async def work():
            queue, told = DelayedOperations(), Told()
            over = asyncio.Event()
            queue.add(1, told.of("patient"), LONG_S)
            queue.add(2, lambda code: (told.append(("late", code)), over.set()), 0.0)
            await over.wait()
            assert told == [("late", ErrorCode.REQUEST_TIMED_OUT)]
            queue.complete(2)
            assert told[1:] == [("patient", NONE)]

        asyncio.run(work())


def opened(role=BOTH, **config) -> Partition:
    partition = Partition(KEY, TOPIC_ID, log_kit.Broker(config=LogConfig(**config)).log(), ME)
    give_role(partition, role)
    return partition


def produce(partition):
    batch = make_batch()
    return partition.append_as_leader(batch, parse_header(batch), ACKS_ALL)


class TestAtAPartition:
    def waiting(self, partition, told):
        """Two batches, each with a client that waits, and work that follows the second."""
        for name in ("first", "second"):
            end_offset = produce(partition).last_offset + 1
            assert partition.committed_offset < end_offset
            partition.delay(end_offset, told.of(name), LONG_S)
        partition.delay(2, told.of("work"))

    def run(self, change, **config):
        async def work():
            partition, told = opened(**config), Told()
            self.waiting(partition, told)
            change(partition)
            return told

        return asyncio.run(work())

    def test_the_fetch_of_a_follower_completes_what_it_has(self):
        assert self.run(lambda one: one.update_follower(OTHER, 1, 0, 0.0)) == [("first", NONE)]

    def test_the_last_follower_that_leaves_the_isr_completes_all(self):
        told = self.run(lambda one: give_role(one, Role(ME, 0, 1, (ME, OTHER), (ME,))))
        assert told == [("first", NONE), ("second", NONE), ("work", NONE)]

    def test_too_small_an_isr_fails_those_who_wait_for_an_answer(self):
        def shrink(partition):
            give_role(partition, Role(ME, 0, 1, (ME, OTHER), (ME,)))

        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        told = self.run(shrink, min_insync_replicas=2)
        assert told == [("first", code), ("second", code)]

        def shrink_and_grow(partition):
            shrink(partition)
            give_role(partition, replace(BOTH, partition_epoch=2))
            partition.update_follower(OTHER, 2, 0, 0.0)

        assert self.run(shrink_and_grow, min_insync_replicas=2)[2:] == [("work", NONE)]

    def test_a_config_that_asks_for_more_fails_them_too(self):
        async def work():
            partition, told = opened(Role(ME, 0, 0, (ME, OTHER, 3), (ME, OTHER))), Told()
            self.waiting(partition, told)
            partition.update_config(replace(partition.config, min_insync_replicas=3))
            return told

        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert asyncio.run(work()) == [("first", code), ("second", code)]

    @pytest.mark.parametrize("leader", [OTHER, -1])
    def test_a_lost_leadership_fails_all(self, leader):
        told = self.run(lambda one: give_role(one, Role(leader, 1, 1, (ME, OTHER), (OTHER,))))
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told == [("first", code), ("second", code), ("work", code)]

    def test_another_epoch_of_the_same_leader_changes_nothing(self):
        def go_on(partition):
            give_role(partition, replace(BOTH, leader_epoch=1, partition_epoch=1))
            partition.update_follower(OTHER, 2, 1, 0.0)

        assert self.run(go_on) == [("first", NONE), ("second", NONE), ("work", NONE)]

    def test_a_partition_that_goes_fails_all(self):
        def remove(partition):
            partitions = Partitions()
            partitions.add(partition)
            partitions.remove(partition.key)

        assert {code for _, code in self.run(remove)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def test_what_waits_for_a_sync_too_waits_for_both(self):
        def sync(partition):
            partition.sync_began()
            partition.update_follower(OTHER, 2, 0, 0.0)
            assert (partition.high_watermark, partition.committed_offset) == (2, 0)
            flush = partition.log.prepare_flush()
            flush.run()
            partition.log.flushed(flush)
            partition.sync_ended()
            assert partition.committed_offset == 2

        assert self.run(sync) == [("first", NONE), ("second", NONE), ("work", NONE)]

    def test_only_a_leader_is_waited_at_and_only_for_what_is_there(self):
        follower = opened(Role(OTHER, 0, 0, (ME, OTHER), (ME, OTHER)))
        with pytest.raises(InvariantViolated):
            follower.delay(0, Told().of("anybody"))
        with pytest.raises(InvariantViolated):
            opened().delay(1, Told().of("anybody"))

    def test_what_is_committed_is_not_waited_for(self):
        """Only a move of the high watermark completes operations, and it may never move again."""
        with pytest.raises(InvariantViolated, match="0 is committed already"):
            opened().delay(0, Told().of("anybody"))
