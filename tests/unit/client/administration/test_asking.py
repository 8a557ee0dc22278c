"""Whom the admin asks, what it asks again, and what it makes of brokers that fail or lie."""

from __future__ import annotations

import asyncio

import pytest

from kits.admin_kit import AdminBroker, admin_of, hang_up, in_turn
from kits.leaks import run_without_leaks
from kits.scripted_broker import FIND_COORDINATOR, HOST, silence
from moldau.client.admin import ConfigResource, NewTopic, OffsetSpec
from moldau.client.errors import (
    BrokerError,
    ClientClosed,
    ClientError,
    ConnectionLost,
    CorruptAnswer,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    InvalidArgument,
    NotController,
    PolicyViolation,
    RequestTimedOut,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from moldau.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from moldau.protocol.messages.data import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)
from moldau.protocol.messages.metadata import (
    Coordinator,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    FindCoordinatorResponse,
    TopicPartitionsCursor,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from moldau.protocol.messages.topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsResponse,
)

LIST_OFFSETS, DESCRIBE_GROUPS, LIST_GROUPS, CREATE_TOPICS, DELETE_TOPICS = 2, 15, 16, 19, 20
OFFSET_COMMIT, OFFSET_FETCH = 8, 9
DELETE_GROUPS, DESCRIBE_CONSUMER_GROUPS, DESCRIBE_PAGES = 42, 69, 75

NOT_LEADER, NOT_COORDINATOR, ALREADY_EXISTS, NOT_CONTROLLER, POLICY = 6, 16, 36, 41, 44


def created(**codes):
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name, error_code=code) for name, code in codes.items()]
    )


async def pair():
    """Return two brokers that know each other."""
    first, second = AdminBroker(1), AdminBroker(2)
    await first.__aenter__()
    await second.__aenter__()
    first.peers = second.peers = [first, second]
    return first, second


# Trying again


def test_only_what_may_pass_is_asked_for_again():
    answers = in_turn(created(a=0, b=NOT_CONTROLLER, c=POLICY), created(b=0))

    async def scenario():
        async with AdminBroker(answers={CREATE_TOPICS: answers}) as broker:
            broker.topics = {"a": [(1, 0)], "b": [(1, 0)]}
            async with admin_of([broker]) as admin:
                results = await admin.create_topics([NewTopic(name, 1, 1) for name in "abc"])
            assert set(results.ok) == {"a", "b"}
            assert isinstance(results.errors["c"], PolicyViolation)
            asked = broker.requests(CREATE_TOPICS)
            assert [[one.name for one in each.topics] for each in asked] == [["a", "b", "c"], ["b"]]

    run_without_leaks(scenario())


def test_at_the_deadline_an_item_fails_with_what_stood_in_its_way():
    async def scenario():
        async with AdminBroker(
            answers={CREATE_TOPICS: in_turn(created(a=NOT_CONTROLLER))}
        ) as broker:
            async with admin_of([broker]) as admin:
                with pytest.raises(ClientError) as failed:
                    await admin.create_topic("a", 1, 1, timeout_ms=60)
            # Time may run out between two attempts, or during one.
            assert NotController in {type(failed.value), type(failed.value.__cause__)}
            assert len(broker.requests(CREATE_TOPICS)) > 1

    run_without_leaks(scenario())


def test_silence_ends_with_the_deadline():
    async def scenario():
        async with (
            AdminBroker(answers={CREATE_TOPICS: silence}) as broker,
            admin_of([broker]) as admin,
        ):
            results = await admin.create_topics([NewTopic("a", 1, 1)], timeout_ms=60)
            assert isinstance(results.errors["a"], RequestTimedOut)

    run_without_leaks(scenario())


def test_a_topic_created_by_an_attempt_whose_answer_was_lost_is_told_so():
    answers = in_turn(hang_up, created(a=ALREADY_EXISTS))

    async def scenario():
        async with (
            AdminBroker(answers={CREATE_TOPICS: answers}) as broker,
            admin_of([broker]) as admin,
        ):
            with pytest.raises(TopicAlreadyExists, match="an attempt before this one"):
                await admin.create_topic("a", 1, 1)

    run_without_leaks(scenario())


def test_what_was_deleted_by_an_attempt_whose_answer_was_lost_is_deleted():
    topics = in_turn(
        hang_up, DeleteTopicsResponse(responses=[DeletableTopicResult("a", error_code=3)])
    )
    groups = in_turn(hang_up, DeleteGroupsResponse(results=[DeletableGroupResult("g", 69)]))

    async def scenario():
        async with (
            AdminBroker(answers={DELETE_TOPICS: topics, DELETE_GROUPS: groups}) as broker,
            admin_of([broker]) as admin,
        ):
            await admin.delete_topic("a")
            with pytest.raises(UnknownTopicOrPartition, match="there is no topic a"):
                await admin.delete_topic("a")
            await admin.delete_group("g")
            with pytest.raises(GroupIdNotFound):
                await admin.delete_group("g")

    run_without_leaks(scenario())


def test_a_created_topic_is_waited_for_until_brokers_tell_of_it():
    async def scenario():
        async with AdminBroker(answers={CREATE_TOPICS: in_turn(created(a=0))}) as broker:
            looks = []

            def metadata(asked):
                looks.append(asked)
                if len(looks) == 4:
                    broker.topics = {"a": [(1, 0), (-1, 0)]}
                if len(looks) == 6:
                    broker.topics = {"a": [(1, 0), (1, 0)]}
                broker.say_metadata(asked)

            broker.on("metadata", metadata)
            async with admin_of([broker]) as admin:
                await admin.create_topic("a", 2, 1)
                assert len(looks) >= 6

    run_without_leaks(scenario())


# Whom to ask


def offset_of(asked, offset, code=0):
    asked.answer(
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        ListOffsetsPartitionResponse(one.partition_index, code, [], -1, offset, 0)
                        for one in topic.partitions
                    ],
                )
                for topic in asked.request.topics
            ]
        )
    )


def test_partitions_are_asked_for_at_their_leaders_and_followed_when_these_move():
    async def scenario():
        first, second = await pair()

        def moved(asked):
            first.topics = second.topics = {"t": [(2, 2), (2, 1)]}
            offset_of(asked, -1, NOT_LEADER)

        first.serve(LIST_OFFSETS, moved)
        second.serve(LIST_OFFSETS, lambda asked: offset_of(asked, 20))
        first.topics = second.topics = {"t": [(1, 1), (2, 1)]}
        async with admin_of([first, second]) as admin:
            found = await admin.list_offsets(
                {("t", 0): OffsetSpec.LATEST, ("t", 1): OffsetSpec.LATEST}
            )
        assert {partition: one.offset for partition, one in found.ok.items()} == {
            ("t", 0): 20,
            ("t", 1): 20,
        }
        assert len(first.requests(LIST_OFFSETS)) == 1
        assert len(second.requests(LIST_OFFSETS)) == 2
        await first.stop()
        await second.stop()

    run_without_leaks(scenario())


def test_a_partition_that_is_not_there_fails_at_once_and_alone():
    async def scenario():
        broker = AdminBroker(answers={LIST_OFFSETS: lambda asked: offset_of(asked, 3)})
        broker.topics = {"t": [(1, 0)]}
        async with broker, admin_of([broker], default_api_timeout_ms=3_600_000) as admin:
            found = await admin.list_offsets(dict.fromkeys([("t", 0), ("t", 1), ("u", 0)], 0))
            assert found.ok["t", 0].offset == 3
            assert {type(error) for error in found.errors.values()} == {UnknownTopicOrPartition}
            assert set(found.errors) == {("t", 1), ("u", 0)}

    run_without_leaks(scenario())


def described(asked, code=0, state="Empty"):
    asked.answer(
        DescribeGroupsResponse(
            groups=[
                DescribedGroup(code, None, group, state, "consumer")
                for group in asked.request.groups
            ]
        )
    )


def test_groups_are_asked_for_at_their_coordinators_and_followed_when_these_move():
    async def scenario():
        first, second = await pair()
        at = {"a": first, "b": second}

        def coordinator(asked):
            (key,) = asked.request.coordinator_keys
            told = Coordinator(key, at[key].broker_id, HOST, at[key].port)
            asked.answer(FindCoordinatorResponse(coordinators=[told]))

        def moved(asked):
            at["a"] = second
            described(asked, NOT_COORDINATOR)

        for broker in (first, second):
            broker.on("find_coordinator", coordinator)
        first.serve(DESCRIBE_GROUPS, moved)
        second.serve(DESCRIBE_GROUPS, described)
        async with admin_of([first, second]) as admin:
            found = await admin.describe_groups(["a", "b"])
        assert {name: group.coordinator for name, group in found.ok.items()} == {"a": 2, "b": 2}
        assert len(first.requests(DESCRIBE_GROUPS)) == 1
        await first.stop()
        await second.stop()

    run_without_leaks(scenario())


def test_a_partition_without_a_leader_is_waited_for_and_a_forbidden_topic_is_not():
    async def scenario():
        broker = AdminBroker(answers={LIST_OFFSETS: lambda asked: offset_of(asked, 3)})
        looks = []

        def metadata(asked):
            looks.append(asked)
            broker.topics = {"t": [(1 if len(looks) > 3 else -1, 0)]}
            answer = broker.metadata(asked.request)
            for topic in answer.topics:
                if topic.name == "secret":
                    topic.error_code = 29
            asked.answer(answer)

        broker.on("metadata", metadata)
        async with broker, admin_of([broker]) as admin:
            found = await admin.list_offsets(dict.fromkeys([("t", 0), ("secret", 0)], 0))
            assert found.ok["t", 0].offset == 3
            assert isinstance(found.errors["secret", 0], TopicAuthorizationFailed)
            assert len(looks) >= 4

    run_without_leaks(scenario())


def test_a_group_is_described_as_the_kind_it_is():
    def consumer_groups(asked):
        codes = {"new": 0, "old": 69, "secret": 30}
        asked.answer(
            ConsumerGroupDescribeResponse(
                groups=[
                    DescribedConsumerGroup(codes[one], None, one, "Stable", 1, 1, "uniform")
                    for one in asked.request.group_ids
                ]
            )
        )

    async def scenario():
        answers = {DESCRIBE_GROUPS: described, DESCRIBE_CONSUMER_GROUPS: consumer_groups}
        async with AdminBroker(answers=answers) as broker, admin_of([broker]) as admin:
            found = await admin.describe_groups(["new", "old", "secret"])
            assert {name: one.type for name, one in found.ok.items()} == {
                "new": "consumer",
                "old": "classic",
            }
            assert isinstance(found.errors["secret"], GroupAuthorizationFailed)
            assert [one.groups for one in broker.requests(DESCRIBE_GROUPS)] == [["old"]]

    run_without_leaks(scenario())


def test_a_group_that_may_not_be_looked_for_fails_alone():
    async def scenario():
        async with AdminBroker(answers={DESCRIBE_GROUPS: described}) as broker:

            def coordinator(asked):
                (key,) = asked.request.coordinator_keys
                code = 30 if key == "secret" else 0
                told = Coordinator(key, 1, HOST, broker.port, code)
                asked.answer(FindCoordinatorResponse(coordinators=[told]))

            broker.on("find_coordinator", coordinator)
            broker.serve(
                OFFSET_FETCH, in_turn(OffsetFetchResponse(groups=[OffsetFetchResponseGroup("g")]))
            )
            async with admin_of([broker]) as admin:
                for found in (
                    await admin.describe_groups(["g", "secret"]),
                    await admin.list_offsets_of_groups(["g", "secret"]),
                ):
                    assert set(found.ok) == {"g"}
                    assert isinstance(found.errors["secret"], GroupAuthorizationFailed)

    run_without_leaks(scenario())


def test_offsets_are_committed_again_where_the_coordinator_has_moved():
    def committed(code):
        partitions = [OffsetCommitResponsePartition(0, code)]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=partitions)])

    async def scenario():
        answers = in_turn(committed(NOT_COORDINATOR), committed(0))
        async with (
            AdminBroker(answers={OFFSET_COMMIT: answers}) as broker,
            admin_of([broker]) as admin,
        ):
            assert (await admin.alter_group_offsets("g", {("t", 0): 5})).ok == {("t", 0): None}
            with pytest.raises(InvalidArgument, match="an offset is an int"):
                await admin.alter_group_offsets("g", {("t", 0): "6"})
            assert len(broker.requests(FIND_COORDINATOR)) == 2

    run_without_leaks(scenario())


def test_a_list_is_asked_of_every_broker_and_has_no_gaps():
    def listing(*names, code=0):
        groups = [ListedGroup(name, "consumer", "Stable", "Classic") for name in names]
        return ListGroupsResponse(error_code=code, groups=groups)

    async def scenario():
        first, second = await pair()
        first.serve(LIST_GROUPS, in_turn(listing("a", "c")))
        second.serve(LIST_GROUPS, in_turn(listing(code=14), listing("b", "c")))
        async with admin_of([first, second]) as admin:
            assert [one.group_id for one in await admin.list_groups()] == ["a", "b", "c"]
            assert len(first.requests(LIST_GROUPS)) == 1
            second.serve(LIST_GROUPS, in_turn(listing(code=30)))
            with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
                await admin.list_groups()
        await first.stop()
        await second.stop()

    run_without_leaks(scenario())


def test_a_broker_that_does_not_exist_is_not_waited_for():
    async def scenario():
        async with (
            AdminBroker() as broker,
            admin_of([broker], default_api_timeout_ms=3_600_000) as admin,
        ):
            resource = ConfigResource.broker(9)
            found = await admin.describe_configs([resource])
            with pytest.raises(BrokerError, match="no broker 9; those there are: 1"):
                found[resource]
            assert "BROKER_NOT_AVAILABLE" in str((await admin.describe_log_dirs([9])).errors[9])

    run_without_leaks(scenario())


# Old brokers and lying ones


def test_a_broker_that_is_too_old_is_named_with_the_version_it_has():
    async def scenario():
        async with AdminBroker() as broker:
            broker.serve(CREATE_TOPICS, silence, newest=2)
            async with admin_of([broker]) as admin:
                with pytest.raises(UnsupportedVersion, match=r"needs version 4.* up to 2"):
                    await admin.create_topic("a")
                with pytest.raises(UnsupportedVersion, match="does not serve ListTransactions"):
                    await admin.list_transactions()
                assert not broker.requests(CREATE_TOPICS)

    run_without_leaks(scenario())


def test_an_unknown_group_is_not_there_also_where_brokers_call_it_dead():
    async def scenario():
        async with AdminBroker() as broker:
            broker.serve(DESCRIBE_GROUPS, lambda asked: described(asked, state="Dead"), newest=5)
            async with admin_of([broker]) as admin:
                with pytest.raises(GroupIdNotFound, match="there is no group 'g'"):
                    await admin.describe_group("g")

    run_without_leaks(scenario())


def test_an_answer_that_leaves_an_item_out_or_adds_one_is_noticed():
    async def scenario():
        async with (
            AdminBroker(answers={CREATE_TOPICS: in_turn(created(a=0, z=0))}) as broker,
            admin_of([broker]) as admin,
        ):
            broker.topics = {"a": [(1, 0)]}
            results = await admin.create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)])
            assert set(results.ok) == {"a"}
            assert isinstance(results.errors["b"], CorruptAnswer)
            assert "z" not in results

    run_without_leaks(scenario())


def pages(*parts):
    """Say pages of one topic, each with these partitions and the next one to come."""
    return in_turn(
        *(
            DescribeTopicPartitionsResponse(
                topics=[
                    DescribeTopicPartitionsResponseTopic(
                        name="t",
                        partitions=[
                            DescribeTopicPartitionsResponsePartition(0, number, 1)
                            for number in numbers
                        ],
                    )
                ],
                next_cursor=None if next_one is None else TopicPartitionsCursor("t", next_one),
            )
            for numbers, next_one in parts
        )
    )


def test_a_topic_is_read_page_by_page():
    async def scenario():
        answers = pages(([0, 1], 2), ([2, 3], 4), ([4], None))
        async with (
            AdminBroker(answers={DESCRIBE_PAGES: answers}) as broker,
            admin_of([broker]) as admin,
        ):
            described = await admin.describe_topic("t")
            assert [one.partition for one in described.partitions] == [0, 1, 2, 3, 4]
            cursors = [one.cursor for one in broker.requests(DESCRIBE_PAGES)]
            assert cursors[0] is None
            assert [one.partition_index for one in cursors[1:]] == [2, 4]

    run_without_leaks(scenario())


def test_pages_that_lead_nowhere_end():
    async def scenario():
        answers = pages(([0], 1), ([1], 1), ([1], 0), ([0], 1))
        async with (
            AdminBroker(answers={DESCRIBE_PAGES: answers}) as broker,
            admin_of([broker]) as admin,
        ):
            with pytest.raises(CorruptAnswer, match="page"):
                await admin.describe_topic("t")

    run_without_leaks(scenario())


# Ending


def test_a_closed_admin_says_so_whatever_is_asked():
    async def scenario():
        async with AdminBroker(answers={CREATE_TOPICS: silence}) as broker:
            admin = admin_of([broker])
            await admin.start()
            call = asyncio.ensure_future(admin.create_topics([NewTopic("a", 1, 1)]))
            await broker.until_asked(CREATE_TOPICS, 1)
            await admin.close()
            with pytest.raises(ClientClosed):
                await call
            with pytest.raises(ClientClosed):
                await admin.list_topics()
            await admin.close()

    run_without_leaks(scenario())


def test_a_cancelled_call_leaves_nothing_behind():
    async def scenario():
        first, second = await pair()
        first.serve(LIST_GROUPS, silence)
        second.serve(LIST_GROUPS, silence)
        async with admin_of([first, second]) as admin:
            call = asyncio.ensure_future(admin.list_groups())
            await first.until_asked(LIST_GROUPS, 1)
            await second.until_asked(LIST_GROUPS, 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await first.stop()
        await second.stop()

    run_without_leaks(scenario())


def test_one_broker_that_is_gone_fails_its_own_items_only():
    async def scenario():
        first, second = await pair()
        first.serve(LIST_OFFSETS, lambda asked: offset_of(asked, 10))
        second.serve(LIST_OFFSETS, hang_up)
        first.topics = second.topics = {"t": [(1, 0), (2, 0)]}
        async with admin_of([first, second]) as admin:
            found = await admin.list_offsets(dict.fromkeys([("t", 0), ("t", 1)], 0), timeout_ms=300)
            assert set(found.ok) == {("t", 0)}
            assert isinstance(found.errors["t", 1], (ConnectionLost, RequestTimedOut))
        await first.stop()
        await second.stop()

    run_without_leaks(scenario())
