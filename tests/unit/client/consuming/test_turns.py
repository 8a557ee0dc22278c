"""The consumer and its group: nothing moves under the user's hands, and no one waits in vain."""

from __future__ import annotations

import asyncio

import pytest

from kits.consumer_kit import batch
from kits.leaks import run_without_leaks
from kits.scripted_log import TOPIC, ScriptedLog
from moldau.client.consumer_settings import ConsumerSettings, ResetPolicy
from moldau.client.consuming.core import ConsumerCore
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.consuming.user_calls import CallsOnLoop
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings

PARTITION = TopicPartition(TOPIC, 0)
WAIT_MS = 10_000


class QuietGroup:
    """A group that does nothing by itself; the test acts for it."""

    def __init__(self, host):
        self.host = host
        self.calls = []
        self.offsets = {}

    async def start(self):
        self.calls.append("start")

    async def close(self, deadline, *, leave=True):
        self.calls.append(("close", self.host.processed()))

    def given_up(self, offsets):
        self.calls.append(("given up", offsets))

    def asked(self):
        self.calls.append("asked")

    def answered(self):
        self.calls.append("answered")

    async def committed(self, partitions, deadline):
        return {one: self.offsets[one] for one in partitions if one in self.offsets}


def with_core(scenario, *batches, **settings):
    """Run a scenario with a core that has a quiet group and one assigned partition."""

    async def main():
        async with ScriptedLog(*batches) as broker:
            connection = ConnectionSettings(bootstrap_servers=broker.address)
            policy = ResetPolicy.parse("earliest")
            own = ConsumerSettings(auto_offset_reset=policy, fetch_max_wait_ms=10, **settings)
            cluster = Cluster(connection, system_ports(connection))
            core = ConsumerCore(cluster, own, DecodingRules(), CallsOnLoop(), QuietGroup)
            try:
                await core.start()
                await scenario(core, core.coordination)
            finally:
                await core.close(1000)

    run_without_leaks(main())


def values(records):
    return [record.value for record in records]


ABC = batch(0, [b"a", b"b", b"c"], epoch=0)


def offsets_of(told):
    return told[PARTITION].offset


def test_a_rebalance_waits_until_the_user_holds_nothing():
    async def scenario(core, _):
        core.assign([PARTITION])
        assert values(await core.poll(WAIT_MS, 1)) == [b"a"]
        order = []

        async def rebalance():
            async with core.turn():
                order.append("turn")
                core.positions.assign([])
                core.assignment_changed()

        task = asyncio.create_task(rebalance())
        for _ in range(20):
            await asyncio.sleep(0)
        assert order == []
        assert await core.poll(50) == []
        assert order == ["turn"]
        await task
        assert core.positions.partitions == frozenset()

    with_core(scenario, ABC)


def test_no_record_is_handed_out_during_a_turn():
    async def scenario(core, _):
        core.assign([PARTITION])
        await core.position(PARTITION, WAIT_MS)
        async with core.turn():
            assert await core.poll(100) == []
        assert values(await core.poll(WAIT_MS)) == [b"a", b"b", b"c"]

    with_core(scenario, ABC)


def test_a_turn_ends_a_walk_that_the_user_has_left():
    async def scenario(core, _):
        core.assign([PARTITION])
        walk = await core.walk()
        assert next(walk.rest).value == b"a"
        waiting = asyncio.create_task(core.walk())
        async with core.turn():
            assert list(walk.rest) == []
            assert offsets_of(core.consumed()) == 1
        assert values([*(await waiting).rest]) == [b"b", b"c"]

    with_core(scenario, ABC)


def test_a_turn_that_is_given_up_lets_the_user_go_on():
    async def scenario(core, _):
        core.assign([PARTITION])
        assert len(await core.poll(WAIT_MS, 1)) == 1
        turn = asyncio.create_task(core.turn().__aenter__())
        await asyncio.sleep(0)
        turn.cancel()
        await asyncio.wait([turn])
        assert values(await core.poll(WAIT_MS)) == [b"b", b"c"]

    with_core(scenario, ABC)


def test_committed_offsets_decide_where_to_begin():
    async def scenario(core, group):
        group.offsets = {PARTITION: OffsetAndMetadata(2, "", None)}
        core.assign([PARTITION])
        assert await core.position(PARTITION, WAIT_MS) == 2
        assert values(await core.poll(WAIT_MS)) == [b"c"]

    with_core(scenario, ABC)


def test_what_is_done_with_and_what_was_handed_out_are_told_apart():
    async def scenario(core, group):
        core.assign([PARTITION])
        walk = await core.walk()
        next(walk.rest)
        next(walk.rest)
        assert (offsets_of(core.processed()), offsets_of(core.consumed())) == (1, 2)
        assert core.consumed()[PARTITION].leader_epoch == 0
        assert group.calls[-2:] == ["asked", "answered"]

    with_core(scenario, ABC)


@pytest.mark.parametrize(("done", "offset"), [(True, 3), (False, 0)])
def test_closing_counts_what_is_held_only_if_the_user_is_done(done, offset):
    async def scenario(core, group):
        core.assign([PARTITION])
        assert len(await core.poll(WAIT_MS)) == 3
        await core.close(1000, done=done)
        (name, processed) = group.calls[-1]
        assert (name, offsets_of(processed)) == ("close", offset)

    with_core(scenario, ABC)


def test_what_the_group_fails_with_is_raised_once_before_any_record():
    async def scenario(core, _):
        core.assign([PARTITION])
        core.fail(RuntimeError("out of the group"))
        with pytest.raises(RuntimeError, match="out of the group"):
            await core.poll(WAIT_MS)
        assert len(await core.poll(WAIT_MS)) == 3

    with_core(scenario, ABC)


def test_a_revoked_partition_is_let_go_with_all_that_was_fetched_of_it():
    async def scenario(core, _):
        core.assign([PARTITION])
        assert values(await core.poll(WAIT_MS, 1)) == [b"a"]
        core.positions.assign([])
        core.assignment_changed()
        assert core.processed() == {}
        core.positions.assign([PARTITION])
        core.assignment_changed()
        assert values(await core.poll(WAIT_MS)) == [b"a", b"b", b"c"]

    with_core(scenario, ABC)


def test_callbacks_are_awaited_on_the_loop():
    async def scenario(core, _):
        heard = []

        async def slow():
            await asyncio.sleep(0)
            heard.append("slow")

        await core.call_user(slow)
        await core.call_user(lambda: heard.append("plain"))
        assert heard == ["slow", "plain"]

    with_core(scenario, ABC)


@pytest.mark.parametrize(("done", "offset"), [(True, 2), (False, 1)])
def test_what_is_assigned_away_by_hand_is_committed_as_far_as_the_user_came(done, offset):
    async def scenario(core, group):
        other = TopicPartition(TOPIC, 1)
        core.assign([PARTITION, other])
        walk = await core.walk()
        next(walk.rest)
        next(walk.rest)
        core.assign([other], done=done)
        ((_, given_up),) = [told for told in group.calls if told[0] == "given up"]
        assert {one: kept.offset for one, kept in given_up.items()} == {PARTITION: offset}

    with_core(scenario, ABC)


def test_what_stays_assigned_by_hand_is_not_given_up_and_all_is_by_unsubscribing():
    async def scenario(core, group):
        core.assign([PARTITION])
        await core.poll(WAIT_MS)
        core.assign([PARTITION, TopicPartition(TOPIC, 1)])
        assert not [told for told in group.calls if told[0] == "given up"]
        await core.unsubscribe()
        ((_, given_up),) = [told for told in group.calls if told[0] == "given up"]
        assert offsets_of(given_up) == 3

    with_core(scenario, ABC)
