"""Committed offsets, those that wait for a transaction, and what requests about them come to."""

from __future__ import annotations

from functools import partial

import pytest

from kits.call_counting import count_calls
from kits.group_shard_kit import (
    DAY_MS,
    TOPIC_ID,
    ServedShard,
    commit_request,
    errors,
    transactional_request,
)
from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.coordination.groups import offsets
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    FORM_BEFORE_2_1,
    CommittedOffset,
    OffsetKey,
    decode_offset,
    offset_record,
)
from moldau.coordination.groups.shard import ShardSettings
from moldau.coordination.outcome import ProducerIdentity, StateRecord, UnknownRecord
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetFetchRequestTopics,
)

NOTHING = (-1, ErrorCode.NONE)
UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
KEY = OffsetKey("g", "orders", 0)


def value(offset, topic_id=ZERO_TOPIC_ID):
    return offset_record(CURRENT_FORM, KEY, CommittedOffset(offset, topic_id=topic_id)).value


def last_value(served):
    return decode_offset(served.log[-1][0].value)


@pytest.fixture
def store():
    return OffsetStore()


@pytest.fixture
def served():
    return ServedShard()


class TestStore:
    def kept(self, store):
        found = store.value("g", "orders", 0)
        return None if found is None else decode_offset(found).offset

    def test_the_last_commit_counts(self, store):
        store.replay(KEY, value(1), None)
        store.replay(KEY, value(2), None)
        assert self.kept(store) == 2

    def test_a_tombstone_leaves_nothing_behind(self, store):
        store.replay(KEY, value(1), None)
        store.replay(KEY, value(2), 7)
        store.replay(KEY, None, None)
        assert not store.holds("g")
        assert not store.has_topic("orders")
        store.end_transaction(7, committed=True)
        assert self.kept(store) is None

    def test_a_tombstone_for_nothing_does_no_harm(self, store):
        store.replay(KEY, None, None)
        store.replay(OffsetKey("g", "orders", 1), value(1), None)
        store.replay(KEY, None, None)
        assert store.holds("g")

    def test_a_version_nobody_knows_is_not_taken(self, store):
        with pytest.raises(UnknownRecord):
            store.replay(KEY, b"\0\x05" + bytes(30), None)
        assert not store.holds("g")

    def test_an_offset_in_a_transaction_waits_for_its_end(self, store):
        store.replay(KEY, value(1), None)
        store.replay(KEY, value(2), 7)
        assert (self.kept(store), store.is_unstable("g", "orders", 0)) == (1, True)
        store.end_transaction(7, committed=True)
        assert (self.kept(store), store.is_unstable("g", "orders", 0)) == (2, False)

    def test_an_aborted_transaction_changes_nothing(self, store):
        store.replay(KEY, value(1), None)
        store.replay(KEY, value(2), 7)
        store.end_transaction(7, committed=False)
        assert (self.kept(store), store.is_unstable("g", "orders", 0)) == (1, False)

    def test_a_plain_commit_that_stands_later_wins(self, store):
        store.replay(KEY, value(2), 7)
        store.replay(KEY, value(3), None)
        assert store.is_unstable("g", "orders", 0)
        store.end_transaction(7, committed=True)
        assert self.kept(store) == 3

    def test_a_commit_in_the_transaction_after_a_plain_one_wins(self, store):
        store.replay(KEY, value(2), 7)
        store.replay(KEY, value(3), None)
        store.replay(KEY, value(4), 7)
        store.end_transaction(7, committed=True)
        assert self.kept(store) == 4

    def test_of_two_transactions_the_commit_that_stands_later_wins_whichever_ends_last(self, store):
        store.replay(KEY, value(1), 7)
        store.replay(KEY, value(2), 8)
        store.end_transaction(8, committed=True)
        assert store.is_unstable("g", "orders", 0)
        store.end_transaction(7, committed=True)
        assert self.kept(store) == 2

    def test_a_transaction_that_commits_again_stands_behind_the_other(self, store):
        store.replay(KEY, value(1), 7)
        store.replay(KEY, value(2), 8)
        store.replay(KEY, value(3), 7)
        store.end_transaction(7, committed=True)
        store.end_transaction(8, committed=True)
        assert self.kept(store) == 3

    def test_an_aborted_transaction_does_not_supersede(self, store):
        store.replay(KEY, value(1), 7)
        store.replay(KEY, value(2), 8)
        store.end_transaction(8, committed=False)
        store.end_transaction(7, committed=True)
        assert self.kept(store) == 1

    def test_the_end_of_an_unknown_transaction_does_no_harm(self, store):
        store.end_transaction(7, committed=True)
        assert not store.holds("g")

    def test_all_partitions_of_a_group_are_named_once(self, store):
        store.replay(KEY, value(1), None)
        store.replay(KEY, value(2), 7)
        store.replay(OffsetKey("g", "orders", 1), value(1), 7)
        store.replay(OffsetKey("other", "orders", 2), value(1), None)
        named = [(key.topic, key.partition) for key in store.keys("g")]
        assert named == [("orders", 0), ("orders", 1)]

    def test_the_offsets_of_a_topic_are_found_in_all_groups(self, store):
        store.replay(KEY, value(1, TOPIC_ID), None)
        store.replay(OffsetKey("old", "orders", 0), value(1), None)
        store.replay(OffsetKey("renewed", "orders", 0), value(1, b"r" * 16), None)
        store.replay(OffsetKey("open", "orders", 3), value(1, TOPIC_ID), 7)
        store.replay(OffsetKey("g", "payments", 0), value(1, TOPIC_ID), None)
        keys = [*store.keys_of_topic("orders", TOPIC_ID)]
        assert len(keys) == 4
        found = {(key.group, key.partition) for key in keys if key is not None}
        assert found == {("g", 0), ("old", 0), ("open", 3)}

    def test_no_producer_is_looked_at_to_tell_what_is_unstable(self):
        counts = []
        for producer_count in (2, 200):
            store = OffsetStore()
            for number in range(producer_count):
                store.replay(OffsetKey("g", "orders", number), value(1), number)
            assert store.is_unstable("g", "orders", 1)
            counts.append(count_calls(partial(store.is_unstable, "g", "orders", 1)))
            missing = OffsetKey("g", "orders", producer_count)
            counts.append(count_calls(partial(store.replay, missing, None, None)))
        assert counts[:2] == counts[2:]

    @pytest.mark.parametrize("committed", [True, False])
    def test_the_end_of_a_transaction_takes_no_step_for_each_offset(self, committed):
        few, many = (calls_at_the_end(count, committed=committed) for count in (10, 1000))
        assert few == many


def calls_at_the_end(offset_count, *, committed):
    """Count what a store calls when a transaction with so many offsets ends."""
    store = OffsetStore()
    for offset, producer_id in ((1, None), (2, 7)):
        for partition in range(offset_count):
            store.replay(OffsetKey("g", "orders", partition), value(offset), producer_id)
    calls = count_calls(lambda: store.end_transaction(7, committed=committed))
    last = store.value("g", "orders", offset_count - 1)
    assert last == value(2 if committed else 1)
    return calls


class TestCommit:
    def test_what_is_kept_is_read_back(self, served):
        assert errors(served.commit(commit_request(41, metadata="note"))) == [0]
        (topic,) = served.fetch().topics
        (found,) = topic.partitions
        assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (
            41, 1, "note"
        )  # fmt: skip

    def test_no_metadata_is_kept_as_an_empty_text(self, served):
        served.commit(commit_request(41, metadata=None))
        assert last_value(served).metadata == ""

    def test_the_time_of_the_commit_is_the_brokers(self, served):
        served.commit(commit_request())
        assert last_value(served).commit_timestamp == served.now.wall_ms
        assert last_value(served).expire_timestamp == -1

    def test_version_1_names_the_time_of_each_offset(self, served):
        served.commit(commit_request(commit_timestamp=77), version=1)
        assert last_value(served).commit_timestamp == 77

    def test_versions_2_to_4_may_name_a_retention(self, served):
        served.commit(commit_request(retention_time_ms=DAY_MS), version=2)
        assert last_value(served).expire_timestamp == served.now.wall_ms + DAY_MS

    @pytest.mark.parametrize(
        ("retention_ms", "expires"),
        [(2**63 - 1, 2**63 - 1), (2**63 - 2, 2**63 - 1), (-(2**63), None), (0, 0), (-2, -2)],
    )
    def test_no_retention_is_too_large_or_too_small(self, served, retention_ms, expires):
        request = commit_request(retention_time_ms=retention_ms)
        assert errors(served.commit(request, version=2)) == [ErrorCode.NONE]
        wall_ms = served.now.wall_ms
        if expires is None or expires <= 0:
            expires = wall_ms + retention_ms
        assert last_value(served).expire_timestamp == expires
        assert served.offset() == (5, ErrorCode.NONE)

    def test_an_offset_that_is_kept_for_ever_does_not_expire(self, served):
        served.commit(commit_request(retention_time_ms=2**63 - 1), version=2)
        served.later(366 * DAY_MS / 1000)
        assert served.offset() == (5, ErrorCode.NONE)

    def test_the_topic_is_remembered_by_its_id(self, served):
        served.commit(commit_request())
        assert last_value(served).topic_id == TOPIC_ID

    def test_an_earlier_form_is_written_where_it_is_asked_for(self):
        served = ServedShard(ShardSettings(form=FORM_BEFORE_2_1))
        served.commit(commit_request())
        assert served.log[-1][0].value[:2] == b"\0\1"

    @pytest.mark.parametrize("metadata", ["x" * 4097, "\N{GRINNING FACE}" * 2049])
    def test_metadata_that_is_too_long_is_refused_and_the_rest_is_kept(self, served, metadata):
        request = commit_request(metadata=metadata)
        request.topics[0].partitions.append(OffsetCommitRequestPartition(1, 6, 1, -1, "x" * 4096))
        response = served.commit(request)
        assert errors(response) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
        assert (served.offset(), served.offset(partition=1)) == (NOTHING, (6, 0))

    def test_metadata_is_counted_as_java_counts(self, served):
        assert errors(served.commit(commit_request(metadata="\N{GRINNING FACE}" * 2048))) == [0]

    @pytest.mark.parametrize(
        ("refusal", "told"),
        [
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
            (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        ],
    )
    def test_a_commit_that_the_log_refuses_is_told_and_changes_nothing(self, served, refusal, told):
        served.commit(commit_request(1))
        served.refusal = refusal
        assert errors(served.commit(commit_request(2))) == [told]
        assert errors(served.commit_in_transaction(transactional_request(3))) == [told]
        assert served.offset() == (1, 0)
        assert served.offset(require_stable=True) == (1, 0)


class TestFetch:
    def test_a_group_or_partition_without_an_offset_has_none(self, served):
        assert served.offset(group="nobody") == NOTHING
        served.commit(commit_request())
        assert served.offset(partition=9) == NOTHING
        assert served.offset("payments") == NOTHING

    def test_all_offsets_of_a_group(self, served):
        for topic, partition, offset in (("orders", 0, 1), ("orders", 2, 3), ("payments", 0, 5)):
            served.commit(commit_request(offset, topic=topic, partition=partition))
        served.commit(commit_request(9, group="other"))
        answer = served.fetch()
        found = {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }
        assert found == {("orders", 0): 1, ("orders", 2): 3, ("payments", 0): 5}
        assert served.fetch("nobody").topics == []

    def test_an_offset_of_another_topic_with_this_name_is_not_told(self, served):
        served.commit(commit_request(4))
        for topic_id, offset in ((TOPIC_ID, 4), (b"n" * 16, -1), (ZERO_TOPIC_ID, 4)):
            wanted = [OffsetFetchRequestTopics("orders", topic_id, [0])]
            (topic,) = served.fetch(topics=wanted).topics
            assert topic.partitions[0].committed_offset == offset

    @pytest.mark.parametrize("producer", [None, ProducerIdentity(7, 0)])
    def test_a_damaged_offset_is_not_taken_and_the_one_before_it_stays(self, served, producer):
        served.commit(commit_request(4))
        key = served.log[-1][0].key
        with pytest.raises(ProtocolError):
            served.shard.replay(StateRecord(key, b"\0\4\0\0"), producer)
        assert served.offset(require_stable=True) == (4, ErrorCode.NONE)


class TestTransactionalCommit:
    def test_it_is_seen_once_the_transaction_is_committed(self, served):
        served.commit(commit_request(1))
        assert errors(served.commit_in_transaction(transactional_request(2))) == [0]
        assert served.offset() == (1, 0)
        assert served.offset(require_stable=True) == UNSTABLE
        served.end_transaction(7, committed=True)
        assert served.offset(require_stable=True) == (2, 0)

    def test_its_records_belong_to_the_producer(self, served):
        served.commit_in_transaction(transactional_request(producer_id=99))
        assert served.log[-1][1] == (99, 0)

    def test_other_partitions_stay_stable(self, served):
        served.commit(commit_request(1, partition=1))
        served.commit_in_transaction(transactional_request(2))
        assert served.offset(partition=1, require_stable=True) == (1, 0)

    def test_among_all_offsets_the_unstable_one_is_marked(self, served):
        served.commit(commit_request(1))
        served.commit_in_transaction(transactional_request(2))
        (topic,) = served.fetch(require_stable=True).topics
        assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT

    def test_an_abort_leaves_the_old_offset(self, served):
        served.commit(commit_request(1))
        served.commit_in_transaction(transactional_request(2))
        served.end_transaction(7, committed=False)
        assert served.offset(require_stable=True) == (1, 0)

    def test_metadata_that_is_too_long_is_refused(self, served):
        request = transactional_request(metadata="x" * 4097)
        answer = served.commit_in_transaction(request)
        assert errors(answer) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert served.log == []

    @pytest.mark.parametrize("limit", ["OFFSETS", "TOPICS"])
    def test_one_transaction_collects_a_bounded_number_of_offsets(self, served, monkeypatch, limit):
        monkeypatch.setattr(offsets, f"PENDING_{limit}_PER_PRODUCER", 2)

        def commit(topic, partition, producer_id=7):
            request = transactional_request(
                producer_id=producer_id, topic=topic, partition=partition
            )
            return errors(served.commit_in_transaction(request))

        assert commit("orders", 0) == commit("payments", 1) == [ErrorCode.NONE]
        written = list(served.log)
        assert commit("refunds", 2) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
        assert served.log == written
        assert commit("orders", 0) == [ErrorCode.NONE]
        assert commit("refunds", 2, producer_id=8) == [ErrorCode.NONE]
        served.end_transaction(7, committed=True)
        assert commit("refunds", 2) == [ErrorCode.NONE]

    def test_a_tombstone_makes_room_in_a_transaction(self, store, monkeypatch):
        monkeypatch.setattr(offsets, "PENDING_OFFSETS_PER_PRODUCER", 1)
        store.replay(KEY, value(1), 7)
        assert not store.has_room(7, "g", [("orders", [1])])
        store.replay(KEY, None, None)
        assert store.has_room(7, "g", [("orders", [1])])

    def test_it_waits_over_a_restart(self, served):
        served.commit(commit_request(1))
        served.commit_in_transaction(transactional_request(2))
        served = served.restarted()
        assert served.offset(require_stable=True) == UNSTABLE
        served.end_transaction(7, committed=True)
        assert served.restarted().offset(require_stable=True) == (2, 0)
