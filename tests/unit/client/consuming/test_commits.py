"""Commits: in order, as the member that asked, tried again where that may help, refused loudly."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.commits import Commits
from moldau.client.consuming.steps import NOBODY, MemberIdentity
from moldau.client.errors import (
    ClientClosed,
    CommitFailed,
    ConnectionLost,
    CorruptAnswer,
    FencedInstanceId,
    OffsetMetadataTooLarge,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.engine.cluster import Cluster
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings, IsolationLevel
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)
from moldau.sim.world import World

AT = TopicPartition("t", 0)
ME, LATER = MemberIdentity("me", 5), MemberIdentity("me", 6)


class Coordinator:
    """Answers as a test has written; keeps the offset it was told last."""

    def __init__(self):
        self.script = []
        """What the next requests get: a code, an exception, or None for their due."""
        self.asked = []
        self.heard_codes = []
        self.kept = {}
        self.delay_s = 0.01

    async def ask(self, request, deadline, **options):
        self.asked.append(request)
        outcome = self.script.pop(0) if self.script else None
        await asyncio.sleep(self.delay_s)
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(request, OffsetCommitRequest):
            return self._committed(request, outcome or ErrorCode.NONE)
        return self._fetched(request, outcome or ErrorCode.NONE)

    def _committed(self, request, code):
        for topic in request.topics:
            for one in topic.partitions:
                if code is ErrorCode.NONE:
                    self.kept[topic.name, one.partition_index] = one.committed_offset
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(one.partition_index, code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetched(self, request, code):
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(number, self.kept.get((topic.name, number), -1))
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.groups[0].topics
        ]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g", topics, code)])

    def heard(self, code):
        self.heard_codes.append(code)


class Member:
    """A membership in whatever state a test wants it."""

    def __init__(self):
        self.committer = ME
        self.is_bereft = False
        self.later = None
        """Who it is after the generation under way, if it keeps its partitions."""
        self.refusals = []

    async def still_owns(self, partitions, asked_as, deadline):
        await asyncio.sleep(1)
        if self.later is not None:
            self.committer = self.later
        return self.later not in {None, asked_as}

    def commit_refused(self, asked_as, code):
        self.refusals.append((asked_as, code))


class Bench:
    def __init__(self, world, **settings):
        ports = ClientPorts(None, world.clock, world.random("client"))
        self.cluster = Cluster(ConnectionSettings(), ports)
        self.coordinator, self.member = Coordinator(), Member()
        self.told = []
        self.commits = Commits(
            self.cluster,
            self.coordinator,
            "g",
            ConsumerSettings(group_id="g", **settings),
            self.member,
            self.told.append,
        )

    async def commit(self, offset=1, timeout_s=30):
        deadline = self.cluster.deadline(timeout_s * 1000)
        await self.commits.commit({AT: OffsetAndMetadata(offset)}, deadline)


def run(story, **settings):
    async def main():
        await story(Bench(world, **settings))

    with World(1) as world:
        world.run(main())


def test_a_commit_names_its_member_and_is_kept():
    async def story(bench):
        await bench.commit(7)
        (request,) = bench.coordinator.asked
        assert (request.member_id, request.generation_id_or_member_epoch) == ME
        assert bench.coordinator.kept == {AT: 7}
        assert bench.told == [{AT: OffsetAndMetadata(7)}]

    run(story)


@pytest.mark.parametrize(
    "passing",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ConnectionLost("gone"),
    ],
)
def test_what_passes_is_tried_again(passing):
    async def story(bench):
        bench.coordinator.script = [passing, passing]
        await bench.commit()
        assert bench.coordinator.kept == {AT: 1}

    run(story)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, OffsetMetadataTooLarge),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceId),
    ],
)
def test_what_does_not_pass_is_raised_at_once(code, error):
    async def story(bench):
        bench.coordinator.script = [code]
        with pytest.raises(error):
            await bench.commit()
        assert bench.member.refusals == [(ME, code)]

    run(story)


def test_trying_again_ends_at_the_deadline():
    async def story(bench):
        bench.coordinator.script = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        began = bench.cluster.ports.clock.monotonic()
        with pytest.raises(Exception, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await bench.commit(timeout_s=5)
        assert bench.cluster.ports.clock.monotonic() - began < 5.1

    run(story)


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])
def test_a_commit_overtaken_by_a_generation_that_kept_the_partitions_is_sent_again(code):
    async def story(bench):
        bench.coordinator.script = [code]
        bench.member.later = LATER
        await bench.commit(3)
        sent = [request.generation_id_or_member_epoch for request in bench.coordinator.asked]
        assert sent == [5, 6]
        assert bench.coordinator.kept == {AT: 3}

    run(story)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_commit_of_a_member_that_is_out_fails_and_says_what_to_do(code):
    async def story(bench):
        bench.coordinator.script = [code]
        with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
            await bench.commit()
        assert not bench.coordinator.kept

    run(story)


def test_a_consumer_without_a_subscription_hears_that_the_group_has_members():
    async def story(bench):
        bench.member.committer = NOBODY
        bench.coordinator.script = [ErrorCode.UNKNOWN_MEMBER_ID]
        with pytest.raises(CommitFailed, match="group of its own"):
            await bench.commit()

    run(story)


def test_a_static_name_is_sent_only_by_a_member():
    async def story(bench):
        await bench.commit()
        bench.member.committer = NOBODY
        await bench.commit()
        assert [one.group_instance_id for one in bench.coordinator.asked] == ["one", None]

    run(story, group_instance_id="one")


def test_who_is_no_member_does_not_even_ask():
    async def story(bench):
        bench.member.committer = None
        with pytest.raises(CommitFailed):
            await bench.commit()
        assert not bench.coordinator.asked

    run(story)


def test_committing_nothing_is_nothing_unless_what_was_held_is_lost():
    async def story(bench):
        await bench.commits.commit({}, bench.cluster.deadline(1000))
        bench.member.is_bereft, bench.member.committer = True, None
        with pytest.raises(CommitFailed):
            await bench.commits.commit({}, bench.cluster.deadline(1000))
        assert not bench.coordinator.asked

    run(story)


def test_a_commit_is_made_by_who_the_member_was_when_it_was_asked_for():
    async def story(bench):
        bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        bench.commits.commit_soon({AT: OffsetAndMetadata(2)}, None)
        bench.member.committer = MemberIdentity("me", 9)
        bench.commits.commit_soon({AT: OffsetAndMetadata(3)}, None)
        await bench.commits.flush()
        sent = [request.generation_id_or_member_epoch for request in bench.coordinator.asked]
        assert sent == [5, 9]
        assert bench.coordinator.kept == {AT: 3}

    run(story)


def test_commits_in_the_background_are_gathered_while_they_wait():
    async def story(bench):
        heard = []

        def note(number):
            async def on_end(error):
                heard.append((number, error))

            return on_end

        for number in range(1000):
            bench.commits.commit_soon({AT: OffsetAndMetadata(number)}, note(number))
            if number == 0:
                await asyncio.sleep(0.005)
        await bench.commits.flush()
        assert len(bench.coordinator.asked) == 2
        assert heard == [(number, None) for number in range(1000)]
        assert bench.coordinator.kept == {AT: 999}

    run(story)


def test_a_commit_that_is_waited_for_comes_behind_those_before_it():
    async def story(bench):
        bench.coordinator.script = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 5
        bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        await bench.commit(2)
        assert bench.coordinator.kept == {AT: 2}
        offsets = [one.topics[0].partitions[0].committed_offset for one in bench.coordinator.asked]
        assert offsets == sorted(offsets)

    run(story)


def test_who_gives_up_waiting_does_not_let_the_next_overtake():
    async def story(bench):
        bench.coordinator.delay_s = 10
        first = bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        second = asyncio.ensure_future(bench.commit(2))
        await asyncio.sleep(1)
        second.cancel()
        await bench.commit(3)
        await first
        offsets = [one.topics[0].partitions[0].committed_offset for one in bench.coordinator.asked]
        assert offsets == [1, 3]

    run(story)


def test_who_stops_waiting_for_an_outcome_stops_nothing():
    async def story(bench):
        bench.coordinator.delay_s = 10
        outcome = bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await outcome
        await bench.commits.commit_soon({AT: OffsetAndMetadata(2)}, None)
        assert bench.coordinator.kept == {AT: 2}
        assert len(bench.coordinator.asked) == 2

    run(story)


def test_waiting_for_ones_place_ends_at_the_deadline():
    async def story(bench):
        bench.coordinator.delay_s = 100
        bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        with pytest.raises(RequestTimedOut, match="earlier commits"):
            await bench.commit(2, timeout_s=5)
        await bench.commits.close()

    run(story)


def test_a_failure_in_the_background_is_told_and_never_lost_on_the_loop():
    async def story(bench):
        heard = []

        async def on_end(error):
            heard.append(type(error))

        bench.coordinator.script = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, on_end)
        await bench.commits.flush()
        bench.coordinator.script = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        with pytest.raises(OffsetMetadataTooLarge):
            await bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, None)
        assert heard == [OffsetMetadataTooLarge]

    run(story)


@pytest.mark.parametrize(("is_heard", "level"), [(True, logging.DEBUG), (False, logging.WARNING)])
def test_a_failure_in_the_background_that_nobody_hears_of_is_warned_of(is_heard, level, caplog):
    async def story(bench):
        async def on_end(error):
            pass

        bench.coordinator.script = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, on_end if is_heard else None)
        await bench.commits.flush()

    with caplog.at_level(logging.DEBUG, "moldau.client.consuming.commits"):
        run(story)
    assert [record.levelno for record in caplog.records] == [level]


def test_closing_gives_up_what_is_under_way_and_takes_no_more():
    async def story(bench):
        heard = []

        async def on_end(error):
            heard.append(error)

        bench.coordinator.delay_s = 100
        outcome = bench.commits.commit_soon({AT: OffsetAndMetadata(1)}, on_end)
        await asyncio.sleep(1)
        await bench.commits.close()
        with pytest.raises(asyncio.CancelledError):
            await outcome
        assert not heard
        with pytest.raises(ClientClosed):
            bench.commits.commit_soon({}, None)

    run(story)


def test_an_answer_that_leaves_a_partition_out_is_corrupt():
    async def story(bench):
        async def ask(*arguments, **options):
            return OffsetCommitResponse()

        bench.coordinator.ask = ask
        with pytest.raises(CorruptAnswer):
            await bench.commit()

    run(story)


def test_committed_offsets_are_asked_for_behind_the_commits_before():
    async def story(bench):
        bench.commits.commit_soon({AT: OffsetAndMetadata(4)}, None)
        found = await bench.commits.committed(
            frozenset({AT, TopicPartition("t", 1)}), bench.cluster.deadline(1000)
        )
        assert found == {AT: OffsetAndMetadata(4)}
        assert await bench.commits.committed(frozenset(), 0) == {}

    run(story)


@pytest.mark.parametrize("level", IsolationLevel)
def test_who_reads_committed_records_asks_for_stable_offsets_and_waits_for_them(level):
    async def story(bench):
        bench.coordinator.script = [ErrorCode.UNSTABLE_OFFSET_COMMIT]
        assert await bench.commits.committed(frozenset({AT}), bench.cluster.deadline(9000)) == {}
        is_stable = level is IsolationLevel.READ_COMMITTED
        assert [one.require_stable for one in bench.coordinator.asked] == [is_stable] * 2

    run(story, isolation_level=level)
