"""What was handed out since a mark: how far it came, whether it still counts, and the way back."""

from __future__ import annotations

import pytest

from kits.consumer_kit import batch
from kits.leaks import run_without_leaks
from kits.scripted_log import TOPIC, ScriptedLog
from moldau.client.consumer_settings import ConsumerSettings, ResetPolicy
from moldau.client.consuming.coordination import GroupMetadata
from moldau.client.consuming.core import ConsumerCore
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.consuming.positions import EARLIEST, LATEST
from moldau.client.consuming.user_calls import CallsOnLoop
from moldau.client.errors import CommitFailed, InvalidState
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings

PARTITION = TopicPartition(TOPIC, 0)
WAIT_MS = 10_000
LOG = batch(0, [b"a", b"b", b"c", b"d"], epoch=0)


class Group:
    """A group that assigns what the test says, and of which the consumer is a member or not."""

    def __init__(self, host):
        self.host = host
        self.member = GroupMetadata("g", 5, "me")

    async def start(self):
        pass

    async def close(self, deadline, *, leave=True):
        pass

    def subscribe(self, subscription):
        self.host.cluster.watch_topics([TOPIC])
        self.host.cluster.request_refresh()
        self.assign(PARTITION)

    def assign(self, *partitions):
        self.host.positions.assign(partitions)
        self.host.assignment_changed()

    def asked(self):
        pass

    def answered(self):
        pass

    async def committed(self, partitions, deadline):
        return {}

    def metadata(self):
        return self.member


def with_core(scenario, *, subscribed=True, enable_auto_commit=False):
    """Run a scenario with a core that has one partition of four records."""

    async def main():
        async with ScriptedLog(LOG) as broker:
            connection = ConnectionSettings(bootstrap_servers=broker.address)
            own = ConsumerSettings(
                auto_offset_reset=ResetPolicy.parse("earliest"),
                fetch_max_wait_ms=10,
                enable_auto_commit=enable_auto_commit,
            )
            cluster = Cluster(connection, system_ports(connection))
            core = ConsumerCore(cluster, own, DecodingRules(), CallsOnLoop(), Group)
            try:
                await core.start()
                if subscribed:
                    core.subscribe(None)
                else:
                    core.assign([PARTITION])
                await scenario(core, core.coordination)
            finally:
                await core.close(1000)

    run_without_leaks(main())


def values(records):
    return [record.value for record in records]


def test_the_account_says_how_far_the_consumer_came_and_as_whom():
    async def scenario(core, group):
        await core.poll(WAIT_MS, 1)
        mark = core.mark()
        await core.poll(WAIT_MS, 1)
        await core.poll(WAIT_MS, 1)
        assert await mark.consumed() == ({PARTITION: OffsetAndMetadata(3, "", 0)}, group.member)
        assert (await core.mark().consumed()).offsets == {}

    with_core(scenario)


def test_a_rewound_consumer_goes_on_where_it_stood_at_the_mark():
    async def scenario(core, _):
        await core.poll(WAIT_MS, 1)
        mark = core.mark()
        await core.poll(WAIT_MS, 1)
        core.seek(PARTITION, 3)
        await core.poll(WAIT_MS, 1)
        mark.rewind()
        assert values(await core.poll(WAIT_MS)) == [b"b", b"c", b"d"]

    with_core(scenario)


def test_a_partition_whose_position_was_not_known_goes_back_to_its_first_record():
    async def scenario(core, _):
        mark = core.mark()
        await core.poll(WAIT_MS, 2)
        mark.rewind()
        assert values(await core.poll(WAIT_MS)) == [b"a", b"b", b"c", b"d"]

    with_core(scenario)


def test_a_loop_begun_before_the_mark_counts_from_where_it_was():
    async def scenario(core, _):
        walk = await core.walk()
        next(walk.rest)
        mark = core.mark()
        next(walk.rest)
        assert (await mark.consumed()).offsets[PARTITION].offset == 2
        mark = core.mark()
        next(walk.rest)
        mark.rewind()
        assert list(walk.rest) == []
        assert values((await core.walk()).rest) == [b"c", b"d"]

    with_core(scenario)


def test_a_position_that_is_being_looked_up_is_waited_for():
    async def scenario(core, _):
        mark = core.mark()
        await core.poll(WAIT_MS, 1)
        core.reset([PARTITION], LATEST)
        assert (await mark.consumed()).offsets[PARTITION].offset == 4
        mark = core.mark()
        core.reset([PARTITION], EARLIEST)
        mark.rewind()
        assert await core.position(PARTITION, WAIT_MS) == 4

    with_core(scenario)


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("is_walk", [True, False])
def test_what_was_taken_away_after_it_was_handed_out_is_not_committed(comes_back, is_walk):
    async def scenario(core, group):
        mark = core.mark()
        if is_walk:
            next((await core.walk()).rest)
        else:
            await core.poll(WAIT_MS, 2)
        group.assign()
        if comes_back:
            group.assign(PARTITION)
            await core.position(PARTITION, WAIT_MS)
        with pytest.raises(CommitFailed, match=f"{TOPIC}-0"):
            await mark.consumed()
        mark.rewind()
        assert core.positions.partitions == ({PARTITION} if comes_back else set())

    with_core(scenario)


def test_what_was_taken_away_untouched_does_not_matter():
    async def scenario(core, group):
        await core.poll(WAIT_MS, 2)
        mark = core.mark()
        group.assign()
        assert (await mark.consumed()).offsets == {}

    with_core(scenario)


def test_who_was_shut_out_commits_nothing_before_it_has_dropped_its_partitions():
    async def scenario(core, group):
        mark = core.mark()
        await core.poll(WAIT_MS, 2)
        group.member = GroupMetadata("g")
        with pytest.raises(CommitFailed):
            await mark.consumed()

    with_core(scenario)


def test_who_assigns_by_hand_is_no_member_and_commits():
    async def scenario(core, group):
        group.member = GroupMetadata("g")
        mark = core.mark()
        await core.poll(WAIT_MS, 2)
        assert (await mark.consumed()).offsets[PARTITION].offset == 2

    with_core(scenario, subscribed=False)


def test_there_is_one_account_at_a_time():
    async def scenario(core, _):
        mark = core.mark()
        with pytest.raises(InvalidState, match="already open"):
            core.mark()
        mark.rewind()
        del mark
        core.mark()
        core.mark()  # nobody kept the one before

    with_core(scenario)


def test_a_consumer_that_commits_automatically_keeps_no_account():
    async def scenario(core, _):
        with pytest.raises(InvalidState, match="enable_auto_commit=False"):
            core.mark()

    with_core(scenario, enable_auto_commit=True)


def test_a_closed_consumer_is_rewound_in_silence():
    async def scenario(core, _):
        mark = core.mark()
        await core.poll(WAIT_MS, 1)
        await core.close(1000)
        mark.rewind()

    with_core(scenario)
