"""Groups of our own consumers on virtual time: minutes of waiting, cuts, kills and restarts."""

from __future__ import annotations

import asyncio

import pytest

from kits.consumer_group_kit import Stage, places, play
from moldau.client.errors import CommitFailed, FencedInstanceId, UnsupportedVersion
from moldau.client.records import OffsetAndMetadata, TopicPartition

pytestmark = pytest.mark.parametrize("seed", range(2))

ALL = places("t", *range(6))
STRATEGIES = ("range", "cooperative-sticky")
GROUP_VERSIONS_OF_1_1 = {8: 3, 9: 3, 10: 1, 11: 2, 12: 1, 13: 1, 14: 1}
"""The newest version of each API of groups that Kafka 1.1 speaks."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_come_go_die_and_come_back(seed, strategy):
    async def story(stage: Stage):
        await stage.create("t", 6)
        wishes = {"partition_assignment_strategy": strategy}
        readers = [await stage.reader(f"r{n}", "t", **wishes) for n in range(2)]
        await stage.shared(readers, ALL)
        readers += [await stage.reader(f"r{n}", "t", **wishes) for n in range(2, 10)]
        await stage.shared(readers, ALL)
        for number in range(6):
            await stage.send("t", number, 20)
        for gone in readers[1:4]:
            await gone.leave()
        await stage.shared([readers[0], *readers[4:]], ALL)
        readers[5].kill()
        await stage.shared([readers[0], readers[4], *readers[6:]], ALL)
        back = await stage.reader("r5-again", "t", **wishes)
        await stage.shared([readers[0], readers[4], *readers[6:], back], ALL)
        for number in range(6):
            await stage.send("t", number, 20)
        await stage.all_read(*readers, back)
        assert not any(one.errors or one.commit_errors for one in readers)

    play(seed, story)


def test_a_member_that_leaves_says_so(seed):
    """Nobody has to wait for its session to end."""

    async def story(stage: Stage):
        await stage.create("t", 6)
        one, two = [
            await stage.reader(name, "t", session_timeout_ms=45_000) for name in ("one", "two")
        ]
        await stage.shared([one, two], ALL)
        began = stage.now
        await two.leave()
        await stage.until(lambda: one.owned == ALL, "one has everything")
        assert stage.now - began < 10

    play(seed, story)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_works_with_the_versions_of_an_old_broker(seed, strategy):
    async def story(stage: Stage):
        await stage.create("t", 6)
        old = {"version_ceilings": GROUP_VERSIONS_OF_1_1, "partition_assignment_strategy": strategy}
        new = {"partition_assignment_strategy": strategy}
        readers = [await stage.reader(f"old{n}", "t", **old) for n in range(2)]
        readers.append(await stage.reader("new", "t", **new))
        await stage.shared(readers, ALL)
        for number in range(6):
            await stage.send("t", number, 5)
        await stage.all_read(*readers)
        await readers[0].leave()
        await stage.shared(readers[1:], ALL)
        found = await readers[1].inside(readers[1].consumer.committed(ALL))
        assert {at: kept.offset for at, kept in found.items()} == dict.fromkeys(ALL, 5)
        assert not any(one.errors or one.commit_errors for one in readers)

    play(seed, story)


def test_a_static_member_says_that_an_old_broker_knows_none(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        wishes = {"version_ceilings": GROUP_VERSIONS_OF_1_1, "group_instance_id": "one"}
        reader = await stage.reader("reader", "t", **wishes)
        await stage.until(lambda: reader.errors, "it says so")
        assert isinstance(reader.errors[0], UnsupportedVersion)

    play(seed, story)


def test_a_slow_user_keeps_its_place_and_what_it_holds(seed):
    """Nothing is taken from it while it works, and its heartbeats do not need it."""

    async def story(stage: Stage):
        await stage.create("t", 6)
        slow = await stage.reader("slow", "t")
        slow.pause_s = 100.0
        await stage.shared([slow], ALL)
        await stage.send("t", 0)
        await stage.until(lambda: slow.read[TopicPartition("t", 0)], "it works")
        began = stage.now
        other = await stage.reader("other", "t")
        await asyncio.sleep(60)
        assert slow.owned == ALL
        assert not other.owned
        slow.pause_s = 0.0
        await stage.shared([slow, other], ALL)
        (at,) = [at for at, what, _ in slow.story if what == "revoked"]
        assert at - began > 90
        assert not slow.told("lost")
        assert not slow.commit_errors

    play(seed, story)


def test_a_user_who_sleeps_too_long_loses_its_partitions_and_comes_back(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        slow, other = [await stage.reader(name, "t") for name in ("slow", "other")]
        await stage.shared([slow, other], ALL)
        mine = min(slow.owned)
        slow.pause_s = 400.0
        await stage.send(*mine)
        await stage.until(lambda: slow.read[mine], "it works")
        await asyncio.sleep(320)
        assert other.owned == ALL
        assert slow.told("lost")
        assert not slow.consumer.assignment()
        slow.pause_s = 0.0
        await stage.shared([slow, other], ALL)
        assert [type(error) for error in slow.commit_errors] == [CommitFailed]
        assert other.read[mine] == [0]

    play(seed, story)


def test_a_user_who_is_asleep_when_the_group_rebalances_hears_at_once_that_it_is_out(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        slow = await stage.reader("slow", "t")
        slow.pause_s = 400.0
        await stage.shared([slow], ALL)
        await stage.send("t", 0)
        await stage.until(lambda: slow.read[TopicPartition("t", 0)], "it works")
        began = stage.now
        other = await stage.reader("other", "t")
        await asyncio.sleep(320)
        assert other.owned == ALL
        ((at, what, _),) = slow.story[1:]
        assert what == "lost"
        assert at - began < 310

    play(seed, story)


def test_a_member_that_is_cut_off_is_replaced_and_told_when_it_is_back(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        one, two = [await stage.reader(name, "t") for name in ("one", "two")]
        await stage.shared([one, two], ALL)
        one.cut()
        await stage.until(lambda: two.owned == ALL, "two has everything")
        stage.network.heal()
        await stage.shared([one, two], ALL)
        assert one.told("lost")

    play(seed, story)


def test_cooperative_members_go_on_reading_and_committing_while_another_is_waited_for(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        wishes = {"partition_assignment_strategy": "cooperative-sticky"}
        quick, slow = [await stage.reader(name, "t", **wishes) for name in ("quick", "slow")]
        await stage.shared([quick, slow], ALL)
        slow.pause_s = 60.0
        theirs, mine = min(slow.owned), min(quick.owned)
        await stage.send(*theirs)
        await stage.until(lambda: slow.read[theirs], "it works")
        third = await stage.reader("third", "t", **wishes)
        await asyncio.sleep(10)
        began = stage.now
        for count in range(1, 6):
            await stage.send(*mine)
            await stage.until(lambda n=count: len(quick.read[mine]) == n, "quick reads on")
            found = {}
            while not found or found[mine].offset < count:
                found = await quick.inside(third.consumer.committed([mine]))
        assert stage.now - began < 10
        await stage.shared([quick, slow, third], ALL)
        given_up = frozenset().union(*(some for _, some in quick.told("revoked")))
        assert not any(some & quick.owned - given_up for _, some in quick.told("assigned")[2:])
        assert not quick.told("lost")
        assert not quick.commit_errors

    play(seed, story)


def test_a_rebalance_that_changes_nothing_for_a_busy_user_does_not_wait_for_it(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        await stage.create("u", 1)
        wishes = {"partition_assignment_strategy": "cooperative-sticky"}
        slow = await stage.reader("slow", "t", **wishes)
        await stage.shared([slow], ALL)
        slow.pause_s = 100.0
        await stage.send("t", 0)
        await stage.until(lambda: slow.read, "it works")
        began = stage.now
        other = await stage.reader("other", "u", **wishes)
        await stage.until(lambda: other.owned == places("u", 0), "other reads")
        other.consumer.enforce_rebalance()
        third = await stage.reader("third", "u", **wishes)
        await stage.until(lambda: third.told("assigned"), "third is in")
        assert stage.now - began < 50
        assert len(slow.story) == 1

    play(seed, story)


def test_a_commit_that_a_new_generation_overtook_is_made_again_by_who_kept_the_partitions(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        wishes = {"partition_assignment_strategy": "cooperative-sticky", "commits": False}
        one, two = [await stage.reader(name, "t", **wishes) for name in ("one", "two")]
        await stage.shared([one, two], ALL)
        two.pause_s = 30.0
        await stage.send(*min(two.owned))
        await stage.until(lambda: two.read, "it works")
        three = await stage.reader("three", "t", **wishes)
        await asyncio.sleep(10)  # now two has something to give up, and the others wait for it
        before = one.consumer.group_metadata().generation_id
        stage.network.clog("broker", "one")
        await stage.until(
            lambda: three.consumer.group_metadata().generation_id > before, "the group went on"
        )
        mine = min(one.owned)
        work = one.consumer.commit({mine: OffsetAndMetadata(7)})
        committing = stage.world.loop.create_task(work, context=one.context)
        await asyncio.sleep(1)
        stage.network.heal()
        await committing
        assert one.consumer.group_metadata().generation_id > before
        assert (await three.inside(three.consumer.committed([mine])))[mine].offset == 7

    play(seed, story)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_is_lost_and_offsets_never_go_back_when_the_broker_dies(seed, strategy):
    async def story(stage: Stage):
        await stage.create("t", 6)
        wishes = {"partition_assignment_strategy": strategy}
        readers = [await stage.reader(f"r{n}", "t", **wishes) for n in range(3)]
        await stage.shared(readers, ALL)
        for life in range(3):
            for number in range(6):
                await stage.send("t", number, 10)
            if life == 1:
                await stage.broker.stop()
                await asyncio.sleep(20)
            else:
                stage.broker.kill()
            await stage.broker.start()
        await stage.all_read(*readers)
        await stage.shared(readers, ALL)
        await asyncio.sleep(5)
        found = await readers[0].inside(readers[0].consumer.committed(ALL))
        assert {at: kept.offset for at, kept in found.items()} == dict.fromkeys(ALL, 30)

    play(seed, story)


def test_a_static_member_comes_back_without_a_rebalance(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        one, two = [await stage.reader(n, "t", group_instance_id=n) for n in ("one", "two")]
        await stage.shared([one, two], ALL)
        heard, owned = len(one.story), set(two.owned)
        await two.leave()
        again = await stage.reader("two-again", "t", group_instance_id="two")
        await stage.until(lambda: again.owned == owned, "it has what it had")
        assert len(one.story) == heard

    play(seed, story)


def test_a_second_member_of_one_name_fences_the_first(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        first = await stage.reader("first", "t", group_instance_id="only")
        await stage.shared([first], ALL)
        second = await stage.reader("second", "t", group_instance_id="only")
        await stage.shared([second], ALL)
        await stage.until(lambda: len(first.errors) > 1, "it says so at every call")
        assert {type(error) for error in first.errors} == {FencedInstanceId}
        assert first.told("lost")

    play(seed, story)


def test_a_pattern_takes_in_topics_that_come_later(seed):
    async def story(stage: Stage):
        await stage.create("log-a", 2)
        await stage.create("other", 2)
        wishes = {"pattern": "log-.*", "metadata_max_age_ms": 1000}
        readers = [await stage.reader(name, **wishes) for name in ("one", "two")]
        await stage.shared(readers, places("log-a", 0, 1))
        await stage.create("log-b", 2)
        await stage.shared(readers, places("log-a", 0, 1) | places("log-b", 0, 1))

    play(seed, story)


def test_the_leader_has_new_partitions_of_others_topics_assigned(seed):
    async def story(stage: Stage):
        await stage.create("t", 2)
        await stage.create("u", 2)
        leader = await stage.reader("leader", "t", metadata_max_age_ms=1000)
        await stage.shared([leader], places("t", 0, 1))
        other = await stage.reader("other", "u")
        await stage.until(lambda: other.owned == places("u", 0, 1), "other reads its own")
        await stage.grow("u", 4)
        await stage.until(lambda: other.owned == places("u", *range(4)), "other has all of it")

    play(seed, story)


def test_a_commit_in_the_background_is_not_lost_by_closing(seed):
    at = TopicPartition("t", 0)

    async def story(stage: Stage):
        await stage.create("t", 1)
        reader = await stage.reader("reader", "t")
        await stage.shared([reader], {at})
        heard = []
        await reader.stop()

        async def commit_and_close():
            offsets = {at: OffsetAndMetadata(5)}
            reader.consumer.commit_async(offsets, callback=lambda *told: heard.append(told))
            await reader.consumer.close()

        await reader.inside(commit_and_close())
        assert heard == [({at: OffsetAndMetadata(5)}, None)]
        other = await stage.reader("other", "t")
        assert (await other.inside(other.consumer.committed([at])))[at].offset == 5

    play(seed, story)


def test_automatic_commits_cover_what_is_done_with_and_nothing_else(seed):
    at = TopicPartition("t", 0)

    async def story(stage: Stage):
        await stage.create("t", 1)
        await stage.send("t", 0, 10)
        wishes = {"enable_auto_commit": True, "commits": False, "max_poll_records": 4}
        reader = await stage.reader("reader", "t", **wishes)
        reader.pause_s = 20.0
        await stage.until(lambda: len(reader.read[at]) == 8, "it works on the second poll")
        await asyncio.sleep(10)
        other = await stage.reader("asks", "elsewhere", group_id="readers-b")
        asking = await stage.reader("as-reader", "elsewhere", group_id="readers")
        for consumer in (reader.consumer, asking.consumer):
            found = await asking.inside(consumer.committed([at]))
            assert found[at].offset == 4
        assert await other.inside(other.consumer.committed([at])) == {}
        reader.pause_s = 0.0
        await stage.until(lambda: len(reader.read[at]) == 10, "it reads on")
        await reader.leave()
        assert (await asking.inside(asking.consumer.committed([at])))[at].offset == 10

    play(seed, story)


def test_commits_take_effect_in_order_however_many_there_are(seed):
    at = TopicPartition("t", 0)

    async def story(stage: Stage):
        await stage.create("t", 1)
        reader = await stage.reader("reader", "t")
        await stage.shared([reader], {at})
        heard = []

        async def commit_many():
            consumer = reader.consumer
            for offset in range(1, 1001):
                consumer.commit_async({at: OffsetAndMetadata(offset)}, callback=note(offset))
            assert len(reader.left_behind()) < 20, "one request under way and one behind it"
            await consumer.commit({at: OffsetAndMetadata(2000)})
            return await consumer.committed([at])

        def note(offset):
            return lambda offsets, error: heard.append((offset, offsets[at].offset, error))

        found = await reader.inside(commit_many())
        assert found[at].offset == 2000
        assert heard == [(n, n, None) for n in range(1, 1001)]

    play(seed, story)


def test_a_listeners_error_is_raised_to_the_user_and_the_group_goes_on(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        reader = await stage.reader("reader", "t")

        def fail(partitions):
            raise LookupError("of the user's own")

        reader.on_partitions_assigned = fail
        await stage.until(lambda: reader.errors, "it is raised")
        assert isinstance(reader.errors[0], LookupError)
        assert reader.consumer.assignment() == ALL

    play(seed, story)


@pytest.mark.parametrize("method", ["unsubscribe", "close"])
def test_a_listener_may_leave_the_group(seed, method):
    async def story(stage: Stage):
        await stage.create("t", 6)
        reader, other = [await stage.reader(name, "t") for name in ("reader", "other")]
        await stage.shared([reader, other], ALL)

        async def leave(partitions):
            await getattr(reader.consumer, method)()

        await reader.stop()
        reader.on_partitions_assigned = leave
        reader.task = stage.world.loop.create_task(reader._live(), context=reader.context)
        other.consumer.enforce_rebalance()
        await stage.until(lambda: other.owned == ALL, "other has everything")
        await reader.stop()
        if method == "close":
            assert not reader.left_behind()
        else:
            await reader.inside(reader.consumer.close())

    play(seed, story)


def test_closing_ends_in_time_when_the_broker_is_gone(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        reader = await stage.reader("reader", "t", enable_auto_commit=True)
        await stage.shared([reader], ALL)
        await stage.send("t", 0, 5)
        await stage.until(lambda: reader.read[TopicPartition("t", 0)], "it reads")
        await reader.stop()
        stage.broker.kill()
        began = stage.now
        await reader.inside(reader.consumer.close(timeout=3))
        assert stage.now - began < 4
        assert not reader.left_behind()
        await stage.broker.start()

    play(seed, story)


def test_unsubscribing_lets_go_of_everything_and_subscribing_again_takes_it_back(seed):
    async def story(stage: Stage):
        await stage.create("t", 6)
        reader, other = [await stage.reader(name, "t") for name in ("reader", "other")]
        await stage.shared([reader, other], ALL)
        await reader.stop()
        await reader.inside(reader.consumer.unsubscribe())
        assert not reader.owned
        await stage.until(lambda: other.owned == ALL, "other has everything")

        async def again():
            reader.consumer.subscribe(["t"], listener=reader)

        await reader.inside(again())
        reader.task = stage.world.loop.create_task(reader._live(), context=reader.context)
        await stage.shared([reader, other], ALL)

    play(seed, story)
