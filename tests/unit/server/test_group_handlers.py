"""Requests about groups and their offsets: errors in the right places, names and ids of topics."""

from __future__ import annotations

import asyncio

import pytest

from kits.group_handler_kit import ELSEWHERE, LOADING, Broker, list_groups
from kits.group_shard_kit import (
    commit_request,
    errors,
    join_request,
    transactional_request,
)
from kits.request_kit import context
from moldau.base.ids import ZERO_TOPIC_ID, PartitionKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.security.operations import AclOperation, AclResourceType, bit_field

STRANGE_ID = bytes(range(16))


@pytest.fixture
def broker():
    return Broker()


class TestMembers:
    def test_nobody_joins_a_group_without_a_name(self, broker):
        join = broker.groups.join(join_request(group="", member_id="m"), context(3))
        assert (join.error_code, join.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")
        for answer in (
            broker.groups.sync(SyncGroupRequest("", 1, "m"), context(3)),
            broker.groups.heartbeat(HeartbeatRequest("", 1, "m"), context(3)),
            broker.groups.leave(LeaveGroupRequest("", "m"), context(2)),
        ):
            assert answer.error_code == ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize("refusal", [LOADING, ELSEWHERE])
    def test_a_coordinator_that_cannot_answer_is_told_of(self, broker, refusal):
        broker.runtime.refusal = refusal
        for answer in (
            broker.groups.join(join_request(), context(3)),
            broker.groups.sync(SyncGroupRequest("g", 1, "m"), context(3)),
            broker.groups.leave(
                LeaveGroupRequest("g", members=[LeaveGroupMember("m")]), context(3)
            ),
        ):
            assert answer.error_code == refusal

    def test_a_heartbeat_to_a_coordinator_that_loads_is_fine(self, broker):
        for refusal, told in ((LOADING, ErrorCode.NONE), (ELSEWHERE, ELSEWHERE)):
            broker.runtime.refusal = refusal
            answer = broker.groups.heartbeat(HeartbeatRequest("g", 1, "m"), context(3))
            assert answer.error_code == told

    def test_a_member_is_known_by_its_client_and_address(self, broker):
        async def join():
            waiting = broker.groups.join(join_request(), context(3))
            assert isinstance(waiting, asyncio.Future)

        asyncio.run(join())
        answer = broker.groups.describe_groups(DescribeGroupsRequest(["g"]), context(5))
        (member,) = answer.groups[0].members
        assert (member.client_id, member.client_host) == ("client", "/10.1.2.3")


class TestTools:
    def test_several_groups_are_described_each_for_itself(self, broker):
        broker.served.commit(commit_request())
        request = DescribeGroupsRequest(["g", "nobody"])
        groups = broker.groups.describe_groups(request, context(6)).groups
        assert [(one.group_id, one.error_code) for one in groups] == [
            ("g", 0),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    def test_operations_are_told_to_who_asks(self, broker):
        broker.served.commit(commit_request())
        request = DescribeGroupsRequest(["g", "nobody"], include_authorized_operations=True)
        known, unknown = broker.groups.describe_groups(request, context(6)).groups
        operations = bit_field(
            [
                AclOperation.READ,
                AclOperation.DELETE,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            ]
        )
        assert known.authorized_operations == operations
        assert unknown.authorized_operations == -(2**31)

    def test_a_described_group_has_the_coordinators_error(self, broker):
        broker.runtime.refusal = LOADING
        (group,) = broker.groups.describe_groups(DescribeGroupsRequest(["g"]), context(5)).groups
        assert (group.group_id, group.error_code, group.group_state) == ("g", LOADING, "")

    def test_groups_are_listed(self, broker):
        broker.served.commit(commit_request())
        listed = list_groups(broker, ["Empty"], ["classic"])
        assert [group.group_id for group in listed.groups] == ["g"]
        none = list_groups(broker, ["Stable"])
        assert (none.groups, none.error_code) == ([], 0)

    def test_a_list_is_not_complete_while_a_shard_loads(self, broker):
        broker.runtime.refusal = LOADING
        assert list_groups(broker).error_code == LOADING
        broker.runtime.refusal = ELSEWHERE
        assert list_groups(broker).error_code == 0

    def test_groups_are_deleted_each_once(self, broker):
        broker.served.commit(commit_request())
        request = DeleteGroupsRequest(["g", "nobody", "g"])
        results = broker.groups.delete_groups(request, context(2)).results
        assert [(one.group_id, one.error_code) for one in results] == [
            ("g", 0),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    def test_a_deletion_has_the_coordinators_error(self, broker):
        broker.runtime.refusal = ELSEWHERE
        (result,) = broker.groups.delete_groups(DeleteGroupsRequest(["g"]), context(2)).results
        assert (result.group_id, result.error_code) == ("g", ELSEWHERE)

    @pytest.mark.parametrize("deletes", [False, True])
    def test_each_group_needs_its_permission(self, broker, deletes):
        broker.served.commit(commit_request())
        broker.served.commit(commit_request(group="h"))
        operation = AclOperation.DELETE if deletes else AclOperation.DESCRIBE
        authorizer = NotTheGroup("g", operation)
        asked = context(2, authorizer=authorizer)
        if deletes:
            told = broker.groups.delete_groups(DeleteGroupsRequest(["g", "h"]), asked).results
        else:
            told = broker.groups.describe_groups(DescribeGroupsRequest(["g", "h"]), asked).groups
        assert [(one.group_id, one.error_code) for one in told] == [
            ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("h", ErrorCode.NONE),
        ]
        assert [group.group_id for group in list_groups(broker).groups] == ["g", "h"][: 2 - deletes]


class NotTheGroup:
    """Denies one operation on one group."""

    def __init__(self, group, operation):
        self.denied = (operation, (AclResourceType.GROUP, group))

    def allows(self, session, operation, resource):
        return (operation, resource) != self.denied


class TestCommit:
    def topics(self, *wanted):
        """Make topics of (name, id, partitions)."""
        return [
            OffsetCommitRequestTopic(
                name, topic_id, [OffsetCommitRequestPartition(index, 5) for index in partitions]
            )
            for name, topic_id, partitions in wanted
        ]

    def told(self, response):
        return {
            (topic.name, topic.topic_id, one.partition_index): one.error_code
            for topic in response.topics
            for one in topic.partitions
        }

    def test_what_does_not_exist_is_refused_and_the_rest_is_kept(self, broker):
        request = commit_request()
        request.topics = self.topics(
            ("orders", ZERO_TOPIC_ID, [0, 2, -1]), ("nothing", ZERO_TOPIC_ID, [0])
        )
        response = broker.offsets.commit(request, context(9))
        assert [topic.name for topic in response.topics] == ["orders", "nothing"]
        assert {key[::2]: code for key, code in self.told(response).items()} == {
            ("orders", 0): 0,
            ("orders", 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert broker.served.offset() == (5, 0)

    def test_nothing_of_it_exists(self, broker):
        broker.runtime.refusal = LOADING
        request = commit_request()
        request.topics = self.topics(("nothing", ZERO_TOPIC_ID, [0]))
        response = broker.offsets.commit(request, context(9))
        assert errors(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    def test_one_of_two_topics_exists(self, broker):
        request = commit_request()
        request.topics = self.topics(
            ("orders", ZERO_TOPIC_ID, [1]), ("nothing", ZERO_TOPIC_ID, [0])
        )
        response = broker.offsets.commit(request, context(9))
        assert [topic.name for topic in response.topics] == ["nothing", "orders"]
        assert errors(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]

    def test_no_partition_of_it_exists(self, broker):
        request = commit_request()
        request.topics = self.topics(("orders", ZERO_TOPIC_ID, [2]))
        response = broker.offsets.commit(request, context(9))
        assert errors(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert broker.served.states() == {}

    def test_topics_by_id(self, broker):
        request = commit_request()
        request.topics = self.topics(("", broker.topic_id(), [0, 9]), ("", STRANGE_ID, [1]))
        response = broker.offsets.commit(request, context(10))
        assert len(response.topics) == 2
        assert self.told(response) == {
            ("", STRANGE_ID, 1): ErrorCode.UNKNOWN_TOPIC_ID,
            ("orders", broker.topic_id(), 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", broker.topic_id(), 0): 0,
        }
        assert broker.served.offset("orders") == (5, 0)

    def test_the_coordinators_error_stands_at_every_partition(self, broker):
        broker.runtime.refusal = LOADING
        request = commit_request()
        request.topics = self.topics(("orders", ZERO_TOPIC_ID, [0, 1, 2]))
        response = broker.offsets.commit(request, context(9))
        assert sorted(errors(response)) == [3, LOADING, LOADING]

    def test_a_group_without_a_name_has_offsets(self, broker):
        assert errors(broker.offsets.commit(commit_request(8, group=""), context(9))) == [0]
        assert broker.served.offset(group="") == (8, 0)


class TestTransactionalCommit:
    def test_the_transaction_is_verified_first(self, broker):
        response = broker.offsets.commit_in_transaction(transactional_request(6), context(3))
        assert errors(response) == [0]
        partition = PartitionKey("__consumer_offsets", 3)
        assert broker.verifier.asked == [("transaction", (7, 0), partition, False)]

    def test_newer_clients_leave_it_to_the_broker_to_add_the_partition(self, broker):
        for version in (4, 5):
            broker.offsets.commit_in_transaction(transactional_request(6), context(version))
        assert [add for *_, add in broker.verifier.asked] == [False, True]

    @pytest.mark.parametrize(
        ("version", "verdict", "told"),
        [
            (3, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
            (3, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
            (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
            (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
            (4, ErrorCode.NETWORK_EXCEPTION, LOADING),
            (4, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (4, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
            (2, LOADING, LOADING),
            (1, LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (1, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ],
    )
    def test_what_is_not_verified_is_not_kept(self, broker, version, verdict, told):
        broker.verifier.answer = verdict
        request = transactional_request(6)
        response = broker.offsets.commit_in_transaction(request, context(version))
        assert errors(response) == [told]
        assert broker.served.log == []

    def test_it_may_take_a_while_to_verify(self, broker):
        async def commit():
            broker.verifier.answer = asyncio.get_running_loop().create_future()
            request = transactional_request(6)
            waiting = broker.offsets.commit_in_transaction(request, context(3))
            assert broker.served.log == []
            broker.verifier.answer.set_result(ErrorCode.NONE)
            return await waiting

        assert errors(asyncio.run(commit())) == [0]
        assert broker.served.offset(require_stable=True)[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT

    def test_a_transaction_that_may_have_ended_meanwhile_is_asked_about_again(self, broker):
        """The marker's transaction and the verdict's may be one: the next would get the offsets."""

        async def commit():
            broker.verifier.answer = asyncio.get_running_loop().create_future()
            waiting = broker.offsets.commit_in_transaction(transactional_request(6), context(3))
            broker.markers += 1
            broker.verifier.answer.set_result(ErrorCode.NONE)
            return await waiting

        assert errors(asyncio.run(commit())) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        assert broker.served.log == []

    def test_what_does_not_exist_is_refused_before(self, broker):
        request = transactional_request(6, topic="nothing")
        response = broker.offsets.commit_in_transaction(request, context(3))
        assert errors(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert broker.verifier.asked == []

    def test_topics_by_id(self, broker):
        request = transactional_request(6)
        request.topics[0].name, request.topics[0].topic_id = "", STRANGE_ID
        response = broker.offsets.commit_in_transaction(request, context(6))
        assert errors(response) == [ErrorCode.UNKNOWN_TOPIC_ID]

    def test_a_group_without_a_name_is_refused(self, broker):
        request = transactional_request(6, group="")
        response = broker.offsets.commit_in_transaction(request, context(3))
        assert errors(response) == [ErrorCode.INVALID_GROUP_ID]
        assert broker.verifier.asked == []


class TestFetch:
    def fetch(self, broker, version, *groups, require_stable=False):
        request = OffsetFetchRequest(groups=list(groups), require_stable=require_stable)
        return broker.fetch(request, context(version)).groups

    def test_one_group_before_version_8(self, broker):
        broker.served.commit(commit_request(4, metadata="note"))
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])
        (topic,) = broker.fetch(request, context(7)).topics
        assert topic.name == "orders"
        assert [(one.committed_offset, one.metadata) for one in topic.partitions] == [
            (4, "note"),
            (-1, ""),
        ]

    def test_all_topics_of_one_group(self, broker):
        broker.served.commit(commit_request(4))
        (topic,) = broker.fetch(OffsetFetchRequest("g", None), context(2)).topics
        assert (topic.name, topic.partitions[0].committed_offset) == ("orders", 4)

    @pytest.mark.parametrize("version", [0, 1])
    def test_the_first_versions_have_no_place_for_an_error_but_the_partitions(
        self, broker, version
    ):
        broker.runtime.refusal = LOADING
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])
        answer = broker.fetch(request, context(version))
        assert errors(answer) == [LOADING, LOADING]

    def test_versions_2_to_7_have_one_for_the_group(self, broker):
        broker.runtime.refusal = LOADING
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0])])
        answer = broker.fetch(request, context(2))
        assert (answer.error_code, answer.topics) == (LOADING, [])

    def test_several_groups_have_their_own_errors(self, broker):
        broker.served.commit(commit_request(4))
        wanted = (OffsetFetchRequestGroup("g", topics=None), OffsetFetchRequestGroup("nobody"))
        known, unknown = self.fetch(broker, 8, *wanted)
        assert known.topics[0].partitions[0].committed_offset == 4
        assert (unknown.topics, unknown.error_code) == ([], 0)
        broker.runtime.refusal = ELSEWHERE
        assert [one.error_code for one in self.fetch(broker, 8, *wanted)] == [ELSEWHERE, ELSEWHERE]

    def test_members_and_epochs_do_not_matter_to_a_classic_group(self, broker):
        broker.served.commit(commit_request(4))
        (group,) = self.fetch(broker, 9, OffsetFetchRequestGroup("g", "m", 7, None))
        assert (group.error_code, group.topics[0].name) == (0, "orders")

    def test_stable_offsets_are_asked_for(self, broker):
        broker.served.commit(commit_request(4))
        broker.served.commit_in_transaction(transactional_request(5))
        wanted = OffsetFetchRequestGroup("g", topics=None)
        (group,) = self.fetch(broker, 8, wanted, require_stable=True)
        assert errors(group) == [ErrorCode.UNSTABLE_OFFSET_COMMIT]

    def test_topics_by_id(self, broker):
        broker.served.commit(commit_request(4, topic_id=broker.topic_id()))
        wanted = [
            OffsetFetchRequestTopics("", STRANGE_ID, [0]),
            OffsetFetchRequestTopics("", broker.topic_id(), [0]),
        ]
        (group,) = self.fetch(broker, 10, OffsetFetchRequestGroup("g", topics=wanted))
        known, unknown = group.topics
        assert (known.topic_id, known.partitions[0].committed_offset) == (broker.topic_id(), 4)
        assert unknown.topic_id == STRANGE_ID
        assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_all_topics_by_id_but_those_that_are_gone(self, broker):
        broker.served.commit(commit_request(4))
        broker.served.commit(commit_request(4, topic="payments"))
        broker.remove("payments")
        (group,) = self.fetch(broker, 10, OffsetFetchRequestGroup("g", topics=None))
        assert [topic.topic_id for topic in group.topics] == [broker.topic_id()]

    def test_an_error_of_the_group_in_version_10(self, broker):
        broker.runtime.refusal = LOADING
        wanted = [OffsetFetchRequestTopics("", STRANGE_ID, [0])]
        (group,) = self.fetch(broker, 10, OffsetFetchRequestGroup("g", topics=wanted))
        assert (group.error_code, group.topics) == (LOADING, [])


class TestDelete:
    def delete(self, broker, group="g", topic="orders"):
        wanted = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]
        request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, wanted)])
        return broker.offsets.delete(request, context(0))

    def test_what_does_not_exist_stands_before_what_was_deleted(self, broker):
        broker.served.commit(commit_request(4))
        (topic,) = self.delete(broker).topics
        assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
            (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (0, 0),
        ]
        assert broker.served.offset() == (-1, 0)

    def test_a_topic_that_does_not_exist(self, broker):
        broker.served.commit(commit_request(4))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert errors(self.delete(broker, topic="nothing")) == [unknown, unknown]

    @pytest.mark.parametrize(
        ("group", "refusal", "told"),
        [
            ("", None, ErrorCode.INVALID_GROUP_ID),
            ("nobody", None, ErrorCode.GROUP_ID_NOT_FOUND),
            ("g", LOADING, LOADING),
        ],
    )
    def test_an_error_of_the_group_stands_alone(self, broker, group, refusal, told):
        broker.runtime.refusal = refusal
        response = self.delete(broker, group)
        assert (response.error_code, response.topics) == (told, [])
