"""The shard of one partition: which group is asked, and where groups and offsets meet."""

from __future__ import annotations

import pytest

from kits.group_shard_kit import (
    DAY_MS,
    ServedShard,
    commit_request,
    errors,
    transactional_request,
)
from moldau.coordination.groups.records import GroupKey, decode_group, decode_key
from moldau.coordination.groups.shard import EXPIRY_TIMER
from moldau.coordination.groups.slices import LOOKS_PER_SLICE
from moldau.coordination.groups.turn import GroupTimer
from moldau.coordination.outcome import Caller, StateRecord, UnknownRecord
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import SyncGroupRequest
from moldau.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.protocol.wire import EncodeError

WEEK_S = 7 * DAY_MS / 1000
CHECK_S = 600
NOTHING = (-1, ErrorCode.NONE)


@pytest.fixture
def served():
    return ServedShard()


def tombstones(served):
    """The keys of what was deleted, in order."""
    return [decode_key(record.key) for record, _ in served.log if record.value is None]


def delete_offsets(served, topic="orders", group="g", partitions=(0,)):
    wanted = [OffsetDeleteRequestPartition(partition) for partition in partitions]
    request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, wanted)])
    return served.ask(lambda shard, t, now: shard.delete_offsets(request, t)).answer


class TestMembership:
    def test_a_member_joins_syncs_and_is_heard_of(self, served):
        member_id, generation = served.make_stable()
        assert served.heartbeat(member_id, generation) == ErrorCode.NONE
        assert served.states() == {"g": "Stable"}

    def test_a_group_that_cannot_be_written_is_not_kept(self, served):
        with pytest.raises(EncodeError):
            served.join(group="g" * 32_768)
        assert served.states() == {}

    def test_members_with_the_longest_names_get_their_assignment(self, served):
        joined = served.join(client_id="x" * 32_767)
        served.later(3)
        member_id, generation = joined.answer.member_id, joined.answer.generation_id
        synced = served.sync(member_id, generation, [(member_id, b"all")])
        assert synced.answer.assignment == b"all"
        assert served.restarted().heartbeat(member_id, generation) == ErrorCode.NONE

    def test_the_first_join_writes_the_group(self, served):
        served.join()
        ((record, producer),) = served.log
        assert (decode_key(record.key), producer) == (GroupKey("g"), None)
        assert decode_group(record.value).members == ()
        assert served.restarted().states() == {"g": "Empty"}

    def test_a_group_that_cannot_be_written_is_not_there(self, served):
        served.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        answer = served.join().answer
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert served.states() == {}
        served.refusal = None
        assert served.make_stable()

    def test_a_first_join_that_is_refused_leaves_no_group(self, served):
        joined = served.join(protocol_type="")
        assert joined.answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (served.states(), served.log) == ({}, [])

    def test_a_member_that_has_to_come_back_with_its_id_has_a_group(self, served):
        asked = served.join(version=4).answer
        assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = served.join(version=4, member_id=asked.member_id)
        served.later(3)
        assert joined.answer.generation_id == 1

    def test_a_session_timeout_outside_of_the_limits_is_refused(self, served):
        joined = served.join(session_timeout_ms=5_999)
        assert joined.answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert (served.states(), served.log) == ({}, [])

    def test_a_sync_that_does_not_say_its_protocol_is_refused(self, served):
        request = SyncGroupRequest("g", 1, "m", protocol_type="consumer", protocol_name=None)
        caller = Caller(5, "client", "/10.0.0.1")
        synced = served.ask(lambda shard, t, now: shard.sync(request, caller, t, now))
        assert synced.answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_who_is_in_a_group_that_is_not_there_is_unknown(self, served):
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert served.join(member_id="m").answer.error_code == unknown
        assert served.sync("m", 1).answer.error_code == unknown
        assert served.heartbeat("m", 1) == unknown
        assert [one.error_code for one in served.leave("m").members] == [unknown]
        assert (served.states(), served.log) == ({}, [])

    def test_timers_go_to_their_group(self, served):
        served.make_stable()
        served.later(11)
        assert served.states() == {"g": "Empty"}

    def test_a_timer_of_a_group_that_is_gone_does_nothing(self, served):
        key = GroupTimer("session", "gone", "m")
        served.carry_out(served.shard.timer_fired(key, served.now))
        assert served.log == []

    def test_a_restart_brings_members_back_with_a_session(self, served):
        member_id, generation = served.make_stable()
        served = served.restarted()
        assert served.heartbeat(member_id, generation) == ErrorCode.NONE
        served.later(11)
        assert served.states() == {"g": "Empty"}

    def test_nothing_happens_after_a_resignation(self, served):
        member_id, generation = served.make_stable()
        served.shard.resigned()
        assert served.heartbeat(member_id, generation) == ErrorCode.UNKNOWN_MEMBER_ID


class TestWhoMayCommit:
    def test_a_member_of_the_present_generation_may(self, served):
        member_id, generation = served.make_stable()
        request = commit_request(3, member_id=member_id, generation_id_or_member_epoch=generation)
        assert errors(served.commit(request)) == [0]
        assert errors(served.commit_in_transaction(
            transactional_request(
                4, member_id=member_id, generation_id_or_member_epoch=generation
            )
        )) == [0]  # fmt: skip
        assert served.offset() == (3, 0)

    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"generation_id_or_member_epoch": 9}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"group_instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
            (
                {"member_id": "", "generation_id_or_member_epoch": -1},
                ErrorCode.UNKNOWN_MEMBER_ID,
            ),
        ],
    )
    def test_others_may_not_and_nothing_changes(self, served, changes, error):
        member_id, generation = served.make_stable()
        written = len(served.log)
        request = commit_request(
            3, **{"member_id": member_id, "generation_id_or_member_epoch": generation, **changes}
        )
        assert errors(served.commit(request)) == [error]
        assert (len(served.log), served.offset()) == (written, NOTHING)

    def test_a_stale_generation_is_fenced_in_a_transaction_too(self, served):
        member_id, generation = served.make_stable()
        request = transactional_request(
            member_id=member_id, generation_id_or_member_epoch=generation + 1
        )
        assert errors(served.commit_in_transaction(request)) == [ErrorCode.ILLEGAL_GENERATION]
        assert served.offset(require_stable=True) == NOTHING

    def test_a_transaction_of_an_old_client_names_no_member(self, served):
        served.make_stable()
        assert errors(served.commit_in_transaction(transactional_request(), version=0)) == [0]

    def test_who_is_no_member_makes_a_group_of_its_own(self, served):
        assert errors(served.commit(commit_request())) == [0]
        assert served.states() == {"g": "Empty"}
        assert served.describe().protocol_type == ""
        assert served.restarted().states() == {"g": "Empty"}

    def test_so_does_a_transaction(self, served):
        assert errors(served.commit_in_transaction(transactional_request())) == [0]
        assert served.states() == served.restarted().states() == {"g": "Empty"}

    @pytest.mark.parametrize(
        ("version", "error"),
        [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
    )
    def test_a_generation_of_a_group_that_is_not_there(self, served, version, error):
        request = commit_request(member_id="m", generation_id_or_member_epoch=1)
        assert errors(served.commit(request, version)) == [error]
        assert (served.log, served.states()) == ([], {})

    @pytest.mark.parametrize(
        ("version", "error"),
        [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)],
    )
    def test_the_same_in_a_transaction(self, served, version, error):
        request = transactional_request(member_id="m", generation_id_or_member_epoch=1)
        assert errors(served.commit_in_transaction(request, version)) == [error]
        assert (served.log, served.states()) == ([], {})

    def test_a_commit_is_a_sign_of_life(self, served):
        member_id, generation = served.make_stable()
        request = commit_request(member_id=member_id, generation_id_or_member_epoch=generation)
        for _ in range(5):
            served.later(6)
            assert errors(served.commit(request)) == [0]
        assert served.states() == {"g": "Stable"}


class TestDeletingOffsets:
    def test_offsets_of_an_empty_group_go(self, served):
        served.commit(commit_request(1))
        served.commit(commit_request(2, partition=1))
        assert errors(delete_offsets(served)) == [0]
        assert (served.offset(), served.offset(partition=1)) == (NOTHING, (2, 0))
        assert served.restarted().offset() == NOTHING

    def test_what_is_not_there_is_deleted_without_a_record(self, served):
        served.commit(commit_request(1))
        assert errors(delete_offsets(served, partitions=(8, 9))) == [0, 0]
        assert tombstones(served) == []

    def test_an_offset_that_waits_for_its_transaction_goes_too(self, served):
        served.commit_in_transaction(transactional_request(2))
        delete_offsets(served)
        served.end_transaction(7, committed=True)
        assert served.offset(require_stable=True) == NOTHING

    def test_members_keep_the_offsets_of_what_they_read(self, served):
        served.commit(commit_request(1))
        served.commit(commit_request(2, topic="payments"))
        served.make_stable(topics=("orders",))
        assert errors(delete_offsets(served)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        assert errors(delete_offsets(served, "payments")) == [0]
        assert (served.offset(), served.offset("payments")) == ((1, 0), NOTHING)

    def test_what_others_than_consumers_read_is_not_known(self, served):
        served.commit(commit_request(1))
        served.join(protocol_type="connect")
        assert delete_offsets(served).error_code == ErrorCode.NON_EMPTY_GROUP
        assert served.offset() == (1, 0)

    def test_a_group_that_is_not_there(self, served):
        assert delete_offsets(served).error_code == ErrorCode.GROUP_ID_NOT_FOUND


class TestDeletedTopics:
    def test_their_offsets_go_in_all_groups(self, served):
        for group in ("g", "other"):
            served.commit(commit_request(1, group=group))
            served.commit(commit_request(1, group=group, topic="payments"))
        served.topic_deleted()
        for group in ("g", "other"):
            assert served.offset(group=group) == NOTHING
            assert served.offset("payments", group=group) == (1, 0)

    def test_those_of_a_new_topic_of_the_name_stay(self, served):
        served.commit(commit_request(1, topic_id=b"n" * 16))
        served.topic_deleted()
        assert served.offset() == (1, 0)

    def test_many_go_in_several_batches(self, served):
        for partition in range(LOOKS_PER_SLICE + 1):
            served.commit(commit_request(partition=partition))
        served.batches.clear()
        served.topic_deleted()
        assert [len(batch) for batch in served.batches] == [LOOKS_PER_SLICE, 1]
        assert served.fetch().topics == []


class TestAdministration:
    def test_groups_are_listed_by_state(self, served):
        served.commit(commit_request(group="simple"))
        served.make_stable()
        assert served.states() == {"simple": "Empty", "g": "Stable"}
        assert served.states(" EMPTY ") == {"simple": "Empty"}
        assert served.states("stable", "empty") == served.states()
        assert served.states("nowhere") == {}

    def test_groups_are_listed_by_type(self, served):
        served.make_stable()
        assert served.states(types=("Classic", "consumer")) == {"g": "Stable"}
        assert served.states(types=("consumer",)) == {}
        assert served.states(types=("nonsense",)) == {}

    def test_a_group_is_described(self, served):
        member_id, _ = served.make_stable()
        described = served.describe()
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        assert [member.member_id for member in described.members] == [member_id]
        assert described.members[0].client_host == "/10.0.0.1"

    def test_a_group_that_is_not_there_is_dead(self, served):
        assert (served.describe().group_state, served.describe().error_code) == ("Dead", 0)
        newest = served.describe(version=6)
        assert newest.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert newest.error_message

    def test_a_group_is_deleted_with_its_offsets(self, served):
        served.commit(commit_request(1))
        served.commit_in_transaction(transactional_request(2, partition=1))
        assert served.delete() == ErrorCode.NONE
        served.end_transaction(7, committed=True)
        for now_served in (served, served.restarted()):
            assert now_served.states() == {}
            assert now_served.fetch().topics == []

    def test_a_group_with_members_is_not_deleted(self, served):
        member_id, generation = served.make_stable()
        assert served.delete() == ErrorCode.NON_EMPTY_GROUP
        assert served.heartbeat(member_id, generation) == ErrorCode.NONE

    def test_a_group_that_is_not_there_is_not_deleted(self, served):
        assert served.delete() == ErrorCode.GROUP_ID_NOT_FOUND

    def test_many_offsets_are_deleted_in_several_batches(self, served):
        for partition in range(2 * LOOKS_PER_SLICE):
            served.commit(commit_request(partition=partition))
        served.batches.clear()
        assert served.delete() == ErrorCode.NONE
        sizes = [len(batch) for batch in served.batches]
        assert sizes == [LOOKS_PER_SLICE, LOOKS_PER_SLICE, 1]
        assert (served.states(), served.restarted().states()) == ({}, {})

    def test_long_names_make_small_batches(self, served):
        group = "g" * 32_000
        for partition in range(20):
            served.commit(commit_request(partition=partition, group=group))
        served.batches.clear()
        assert served.delete(group) == ErrorCode.NONE
        assert max(len(batch) for batch in served.batches) < 12

    def test_a_deletion_that_the_log_refuses_is_told(self, served):
        for partition in range(LOOKS_PER_SLICE + 1):
            served.commit(commit_request(partition=partition))
        served.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert served.delete() == ErrorCode.NOT_COORDINATOR
        assert served.states() == {"g": "Empty"}


class TestExpiry:
    def test_offsets_of_a_group_without_members_age_from_their_commits(self, served):
        served.commit(commit_request(1))
        served.later(WEEK_S / 2)
        served.commit(commit_request(2, partition=1))
        served.later(WEEK_S / 2 + CHECK_S)
        assert (served.offset(), served.offset(partition=1)) == (NOTHING, (2, 0))
        assert served.states() == {"g": "Empty"}

    def test_the_group_goes_with_its_last_offset(self, served):
        served.commit(commit_request(1))
        served.later(WEEK_S - 1)
        assert served.offset() == (1, 0)
        served.later(1 + CHECK_S)
        assert (served.states(), served.restarted().states()) == ({}, {})

    def test_offsets_of_members_that_left_age_from_then_on(self, served):
        member_id, generation = served.make_stable()
        request = commit_request(member_id=member_id, generation_id_or_member_epoch=generation)
        served.commit(request)
        for _ in range(3):
            served.timers = {EXPIRY_TIMER: served.timers[EXPIRY_TIMER]}  # it is heard of all along
            served.later(WEEK_S)
        assert served.offset() == (5, 0)
        served.leave(member_id)
        served.later(WEEK_S - CHECK_S)
        assert served.offset() == (5, 0)
        served.later(2 * CHECK_S)
        assert (served.offset(), served.states()) == (NOTHING, {})

    def test_members_keep_the_offsets_of_what_they_read_only(self, served):
        served.commit(commit_request(1))
        served.commit(commit_request(2, topic="payments"))
        served.make_stable(topics=("orders",))
        served.timers = {EXPIRY_TIMER: served.timers[EXPIRY_TIMER]}
        served.later(WEEK_S + CHECK_S)
        assert (served.offset(), served.offset("payments")) == ((1, 0), NOTHING)

    @pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
    def test_nothing_expires_while_a_group_rebalances(self, served, protocol_type):
        served.commit(commit_request(1))
        served.join(topics=("payments",), protocol_type=protocol_type)
        served.timers = {EXPIRY_TIMER: served.timers[EXPIRY_TIMER]}
        served.later(2 * WEEK_S)
        assert served.offset() == (1, 0)

    def test_a_retention_of_its_own_counts_alone(self, served):
        served.commit(commit_request(1, retention_time_ms=3_600_000), version=2)
        served.commit(commit_request(2, partition=1, retention_time_ms=30 * DAY_MS), version=2)
        served.later(3_600 + CHECK_S)
        assert (served.offset(), served.offset(partition=1)) == (NOTHING, (2, 0))
        served.later(WEEK_S + CHECK_S)
        assert served.offset(partition=1) == (2, 0)

    def test_what_a_transaction_may_still_change_stays(self, served):
        served.commit(commit_request(1))
        served.commit_in_transaction(transactional_request(2))
        served.later(2 * WEEK_S)
        assert (served.offset(), served.states()) == ((1, 0), {"g": "Empty"})
        served.end_transaction(7, committed=False)
        served.later(CHECK_S)
        assert (served.offset(), served.states()) == (NOTHING, {})

    def test_a_group_that_nobody_came_back_to_goes(self, served):
        served.join(version=4)
        served.later(CHECK_S)
        assert served.states() == {}
        assert tombstones(served) == [GroupKey("g")]

    def test_a_sweep_goes_in_slices(self, served):
        for partition in range(1_200):
            served.commit(commit_request(partition=partition))
        served.batches.clear()
        served.sleep(WEEK_S)
        served.later(0)
        assert [len(batch) for batch in served.batches] == [500, 500, 200, 1]
        assert served.states() == {}

    def test_what_is_committed_between_two_slices_stays_with_its_group(self, served):
        for partition in range(501):
            served.commit(commit_request(partition=partition))
        served.sleep(WEEK_S)
        served.carry_out(served.shard.timer_fired(EXPIRY_TIMER, served.now))
        served.commit(commit_request(9, partition=7))
        served.commit(commit_request(9, partition=500))
        served.later(1)
        assert (served.offset(partition=7), served.offset(partition=500)) == ((9, 0), (9, 0))
        assert served.offset(partition=8) == NOTHING
        assert served.states() == {"g": "Empty"}

    def test_what_is_deleted_between_two_slices_is_not_deleted_again(self, served):
        for partition in range(501):
            served.commit(commit_request(partition=partition))
        served.sleep(WEEK_S)
        served.carry_out(served.shard.timer_fired(EXPIRY_TIMER, served.now))
        delete_offsets(served, partitions=(500,))
        served.later(0)
        partitions = [key.partition for key in tombstones(served) if key != GroupKey("g")]
        assert sorted(partitions) == list(range(501))

    def test_a_sweep_that_the_log_refuses_is_tried_again(self, served):
        served.commit(commit_request(1))
        served.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        served.later(WEEK_S + CHECK_S)
        assert served.offset() == (1, 0)
        served.refusal = None
        served.later(CHECK_S)
        assert served.offset() == NOTHING


class TestLoading:
    def test_records_of_newer_groups_are_reported_and_change_nothing(self, served):
        with pytest.raises(UnknownRecord):
            served.shard.replay(StateRecord(b"\0\x03\0\1g", b"\0\0\0\0\0\1\0"), None)
        assert served.states() == {}

    def test_a_group_that_was_deleted_is_not_loaded(self, served):
        served.make_stable()
        served.later(11)
        served.delete()
        assert served.restarted().states() == {}

    def test_offsets_outlive_the_tombstone_of_their_group(self, served):
        served.commit(commit_request(1))
        tombstone = StateRecord(b"\0\2\0\1g", None)
        served = ServedShard(log=[*served.log, (tombstone, None)])
        assert (served.states(), served.offset()) == ({"g": "Empty"}, (1, 0))

    def test_the_first_sweep_comes_after_an_interval(self, served):
        assert served.timers[EXPIRY_TIMER] == served.now.monotonic + CHECK_S
