"""A leader, two followers and clients that wait, in any order of events.

The model knows what each replica has. Whatever happens, the high watermark covers nothing that an
in-sync replica lacks, and whoever waits is told once: that its batch is committed only when it is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kits import log_kit
from kits.log_kit import KEY, TOPIC_ID, make_batch
from kits.partition_kit import ME, OTHER, give_role
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import ACKS_ALL, ACKS_LEADER, Partition, Role
from moldau.storage.topic_config import LogConfig

THIRD = 3
FOLLOWERS = (OTHER, THIRD)
REPLICAS = (ME, *FOLLOWERS)
LONG_S = 1000.0

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from([ACKS_ALL, ACKS_LEADER])),
        st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 12)),
        st.tuples(st.just("isr"), st.sets(st.sampled_from(FOLLOWERS))),
        st.tuples(st.just("epoch")),
        st.tuples(st.just("min"), st.integers(1, 3)),
        st.tuples(st.just("work")),
        st.tuples(st.just("resign")),
    ),
    max_size=40,
)


class Leader:
    """A partition, what its followers have, and what those who wait were told."""

    def __init__(self) -> None:
        log = log_kit.Broker(config=LogConfig()).log()
        self.partition = Partition(KEY, TOPIC_ID, log, ME)
        give_role(self.partition, Role(ME, 0, 0, REPLICAS, REPLICAS))
        self.ends = dict.fromkeys(FOLLOWERS, -1)
        self.waiting: dict[int, int] = {}
        self.told: list[tuple[int, int, ErrorCode]] = []
        self.high_watermark = 0

    def change(self, **fields) -> None:
        role = self.partition.role
        give_role(self.partition, replace(role, partition_epoch=role.partition_epoch + 1, **fields))

    def wait(self, offset: int, timeout_s: float | None) -> None:
        if self.partition.committed_offset >= offset:
            return
        number = len(self.waiting) + len(self.told)
        self.waiting[number] = offset

        def done(code: ErrorCode) -> None:
            del self.waiting[number]  # a second time it is not there
            self.told.append((number, offset, code))
            if code is ErrorCode.NONE:
                assert offset <= self.partition.high_watermark

        self.partition.delay(offset, done, timeout_s)

    def produce(self, acks: int) -> None:
        batch = make_batch()
        with suppress(ApiError):
            appended = self.partition.append_as_leader(batch, parse_header(batch), acks)
            if acks == ACKS_ALL:
                self.wait(appended.last_offset + 1, LONG_S)

    def fetch(self, follower: int, offset: int) -> None:
        with suppress(ApiError):
            epoch = self.partition.role.leader_epoch
            self.partition.update_follower(follower, offset, epoch, 0.0)
            self.ends[follower] = offset

    def isr(self, followers: set[int]) -> None:
        self.change(isr=(ME, *sorted(followers)))

    def epoch(self) -> None:
        self.change(leader_epoch=self.partition.role.leader_epoch + 1)
        self.ends = dict.fromkeys(FOLLOWERS, -1)

    def min(self, count: int) -> None:
        config = replace(self.partition.config, min_insync_replicas=count)
        self.partition.update_config(config)

    def work(self) -> None:
        self.wait(self.partition.log_end_offset, None)

    def resign(self) -> None:
        epoch = self.partition.role.leader_epoch + 1
        self.change(leader=OTHER, leader_epoch=epoch)
        assert not self.waiting
        self.change(leader=ME, leader_epoch=epoch + 1)
        self.ends = dict.fromkeys(FOLLOWERS, -1)

    def check(self) -> None:
        partition = self.partition
        isr, now = partition.role.isr, partition.high_watermark
        in_sync = [self.ends[one] for one in isr if one != ME]
        lowest = min([partition.log_end_offset, *in_sync])
        enough = len(isr) >= partition.config.min_insync_replicas
        assert self.high_watermark <= now <= partition.log_end_offset
        assert now == (max(self.high_watermark, lowest) if enough else self.high_watermark)
        assert all(offset > now for offset in self.waiting.values())
        self.high_watermark = now


@given(EVENTS)
def test_nothing_is_called_committed_that_an_in_sync_replica_lacks(events):
    async def work() -> None:
        leader = Leader()
        for name, *arguments in events:
            getattr(leader, name)(*arguments)
            leader.check()
        numbers = [number for number, _, code in leader.told if code is ErrorCode.NONE]
        assert numbers == sorted(numbers), "offsets ascend, and so do those who are told"
        leader.partition.retire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert not leader.waiting

    asyncio.run(work())
