"""What a follower asks its leader for, and what the leader's answers mean."""

from __future__ import annotations

import pytest

from kits.log_kit import make_batch
from moldau.base.errors import CorruptRecords
from moldau.base.ids import PartitionKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import DivergingEpoch, FetchablePartitionResponse
from moldau.replication.fetching import answers, plan
from moldau.replication.fetching.answers import (
    LeaderOffsets,
    Meaning,
    RestartAt,
    TruncateTo,
    meaning_of,
    out_of_range,
    pieces,
)
from moldau.replication.fetching.fetchers import fetcher_number
from moldau.replication.fetching.plan import FetchLimits, FetchPlan, ReplicaPosition, fetch_request

ID = bytes(range(16))
A, B, C = (ID, 0), (ID, 1), (ID, 2)


def at(offset, key=A, *, epoch=0, last_epoch=0, start=0):
    return ReplicaPosition(PartitionKey("t", key[1]), epoch, offset, last_epoch, start)


def begun(*keys):
    """A plan whose session has begun."""
    fetches = FetchPlan()
    for key in keys:
        fetches.add(key, at(0, key))
    fetches.next_request(0.0)
    assert fetches.answered(ErrorCode.NONE, 7)
    return fetches


# Requests


def test_the_first_request_names_everything_and_later_ones_what_has_moved():
    fetches = FetchPlan()
    for key in (A, B):
        fetches.add(key, at(0, key))
    first = fetches.next_request(0.0)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert first.send == {A: at(0, A), B: at(0, B)}
    assert fetches.answered(ErrorCode.NONE, 7)
    fetches.move(B, at(5, B))
    second = fetches.next_request(0.0)
    assert (second.session_id, second.session_epoch) == (7, 1)
    assert (second.send, second.forget) == ({B: at(5, B)}, [])
    assert fetches.answered(ErrorCode.NONE, 7)
    third = fetches.next_request(0.0)
    assert (third.session_epoch, third.send, third.forget) == (2, {}, [])


def test_a_position_that_came_back_to_where_it_was_is_not_named():
    fetches = begun(A)
    fetches.move(A, at(5))
    fetches.move(A, at(0))
    assert fetches.next_request(0.0).send == {}


def test_a_partition_that_is_added_again_is_named_again_and_earlier_answers_are_not_its_own():
    fetches = begun(A, B)
    fetches.remove(A)
    fetches.add(A, at(0))
    assert fetches.asked(A) is None
    planned = fetches.next_request(0.0)
    assert (planned.send, planned.forget) == ({A: at(0)}, [])
    assert fetches.asked(A) == at(0)


def test_a_partition_that_is_added_again_and_then_removed_is_forgotten():
    fetches = begun(A, B)
    fetches.remove(A)
    fetches.add(A, at(0))
    fetches.remove(A)
    planned = fetches.next_request(0.0)
    assert (planned.send, planned.forget) == ({}, [A])


@pytest.mark.parametrize(
    "moved",
    [at(1), at(0, epoch=1), at(0, last_epoch=1), at(0, start=1)],
    ids=["offset", "leader epoch", "last epoch", "log start"],
)
def test_everything_of_a_position_is_told(moved):
    fetches = begun(A)
    fetches.move(A, moved)
    request = fetch_request(fetches.next_request(0.0), FetchLimits(500, 1, 10, 5), 2, 9)
    ((one,),) = [topic.partitions for topic in request.topics]
    assert (one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch) == moved[1:4]
    assert (one.log_start_offset, one.partition_max_bytes) == (moved.log_start_offset, 5)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 9)


def test_what_is_removed_is_forgotten_once():
    fetches = begun(A, B)
    fetches.remove(A)
    fetches.remove(A)
    request = fetch_request(fetches.next_request(0.0), FetchLimits(500, 1, 10, 5), 2, 9)
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(ID, [0])]
    fetches.answered(ErrorCode.NONE, 7)
    assert fetches.next_request(0.0).forget == []


def test_without_partitions_nothing_is_asked_for():
    fetches = begun(A)
    fetches.remove(A)
    assert fetches.next_request(0.0) is None
    assert len(fetches) == 0


@pytest.mark.patches
def test_many_partitions_are_named_in_several_requests_that_do_not_wait(monkeypatch):
    monkeypatch.setattr(plan, "PARTITIONS_PER_REQUEST", 2)
    fetches = FetchPlan()
    for key in (A, B, C):
        fetches.add(key, at(0, key))
    first = fetches.next_request(0.0)
    assert (list(first.send), first.is_complete) == ([A, B], False)
    assert fetch_request(first, FetchLimits(500, 1, 10, 5), 2, 9).max_wait_ms == 0
    fetches.answered(ErrorCode.NONE, 7)
    second = fetches.next_request(0.0)
    assert (list(second.send), second.is_complete) == ([C], True)
    assert fetch_request(second, FetchLimits(500, 1, 10, 5), 2, 9).max_wait_ms == 500


@pytest.mark.patches
def test_without_a_session_partitions_take_turns(monkeypatch):
    monkeypatch.setattr(plan, "PARTITIONS_PER_REQUEST", 2)
    fetches = FetchPlan()
    for key in (A, B, C):
        fetches.add(key, at(0, key))
    named = []
    for _ in range(3):
        named.append(list(fetches.next_request(0.0).send))
        assert fetches.answered(ErrorCode.NONE, 0)
    assert named == [[A, B], [C, A], [B, C]]


# Resting


def test_a_partition_that_rests_is_forgotten_until_it_is_due():
    fetches = begun(A, B)
    fetches.rest(A, 10.0)
    assert fetches.next_request(9.9).forget == [A]
    fetches.answered(ErrorCode.NONE, 7)
    assert fetches.next_due_s() == 10.0
    assert fetches.next_request(10.0).send == {A: at(0, A)}
    assert fetches.next_due_s() is None


def test_while_all_rest_nothing_is_asked_for():
    fetches = begun(A)
    fetches.rest(A, 10.0)
    assert fetches.next_request(5.0) is None
    assert fetches.next_request(10.0) is not None


def test_a_partition_that_is_added_again_does_not_rest():
    fetches = begun(A)
    fetches.rest(A, 10.0)
    fetches.add(A, at(0, epoch=1))
    assert fetches.next_due_s() is None
    assert fetches.next_request(0.0).send == {A: at(0, epoch=1)}


def test_the_later_of_two_rests_counts():
    fetches = begun(A)
    fetches.rest(A, 10.0)
    fetches.rest(A, 20.0)
    assert fetches.next_request(10.0) is None
    assert fetches.next_due_s() == 20.0


def test_what_is_not_followed_any_more_does_not_rest():
    fetches = begun(A)
    fetches.remove(A)
    fetches.rest(A, 10.0)
    assert fetches.next_due_s() is None


# Answers


def test_an_answer_belongs_to_the_position_that_was_asked_for():
    fetches = begun(A)
    assert fetches.asked(A) == at(0)
    assert fetches.asked(B) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda fetches: fetches.move(A, at(3)),
        lambda fetches: fetches.add(A, at(0, epoch=1)),
        lambda fetches: fetches.remove(A),
        lambda fetches: fetches.rest(A, 1.0),
        lambda fetches: fetches.lost(),
    ],
    ids=["moved", "another epoch", "removed", "rests", "session lost"],
)
def test_an_answer_to_what_is_not_asked_for_any_more_is_dropped(change):
    fetches = begun(A)
    change(fetches)
    assert fetches.asked(A) is None


@pytest.mark.parametrize(
    ("error", "session_id", "kept_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, 7),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 0, 7),
        (ErrorCode.NONE, 8, 7),
        (ErrorCode.NONE, 0, 7),
    ],
)
def test_a_session_that_is_another_than_ours_is_begun_again(error, session_id, kept_id):
    fetches = begun(A, B)
    fetches.next_request(0.0)
    assert not fetches.answered(error, session_id)
    assert fetches.failure_count == 1
    again = fetches.next_request(0.0)
    assert (again.session_id, again.session_epoch) == (kept_id, 0)
    assert set(again.send) == {A, B}
    assert fetches.answered(ErrorCode.NONE, 9)
    assert fetches.failure_count == 0
    assert fetches.next_request(0.0).session_id == 9


def test_epochs_of_a_session_begin_again_at_1():
    fetches = begun(A)
    fetches._session_epoch = plan.EPOCH_MAX
    fetches.next_request(0.0)
    fetches.answered(ErrorCode.NONE, 7)
    assert fetches.next_request(0.0).session_epoch == 1


@pytest.mark.parametrize(
    ("error", "diverging", "meaning"),
    [
        (ErrorCode.NONE, -1, Meaning.APPEND),
        (ErrorCode.NONE, 0, Meaning.TRUNCATE),
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1, Meaning.LOOK_UP),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, Meaning.FAIL),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, Meaning.REST),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, Meaning.REST),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, Meaning.REST),
        (ErrorCode.UNKNOWN_TOPIC_ID, -1, Meaning.REST),
        (ErrorCode.INCONSISTENT_TOPIC_ID, -1, Meaning.REST),
        (ErrorCode.KAFKA_STORAGE_ERROR, -1, Meaning.REST),
        (ErrorCode.CORRUPT_MESSAGE, -1, Meaning.REST),
        (ErrorCode.UNKNOWN_SERVER_ERROR, -1, Meaning.REST),
    ],
)
def test_what_an_answer_means(error, diverging, meaning):
    told = FetchablePartitionResponse(0, error, diverging_epoch=DivergingEpoch(diverging, 3))
    assert meaning_of(told) is meaning


@pytest.mark.parametrize(
    ("own_end", "leader", "decision"),
    [
        (10, LeaderOffsets(0, 5), TruncateTo(5)),
        (10, LeaderOffsets(20, 30), RestartAt(20)),
        (10, LeaderOffsets(10, 30), None),
        (10, LeaderOffsets(0, 10), None),
        (0, LeaderOffsets(1, 1), RestartAt(1)),
    ],
)
def test_how_a_follower_goes_on_whose_offset_is_out_of_range(own_end, leader, decision):
    assert out_of_range(own_end, leader) == decision


# Pieces


def test_few_records_are_one_piece_also_none():
    batch = memoryview(make_batch())
    assert list(pieces(batch)) == [batch]
    assert [bytes(piece) for piece in pieces(memoryview(b""))] == [b""]


@pytest.mark.parametrize(("count", "size"), [(5, 1), (300, 1), (20, 30_000), (3, 400_000)])
def test_many_records_are_divided_between_batches(count, size):
    batches = [make_batch([b"x" * size], base_offset=number) for number in range(count)]
    found = list(pieces(memoryview(b"".join(batches))))
    assert b"".join(found) == b"".join(batches)
    assert all(len(piece) <= max(answers.PIECE_BYTES, len(batches[0])) for piece in found)
    if sum(map(len, batches)) > answers.PIECE_BYTES // 8:
        assert all(len(piece) <= answers.PIECE_BATCHES * len(batches[0]) for piece in found)


def test_a_batch_that_is_cut_is_left_out():
    batches = [make_batch([b"x" * 50_000], base_offset=number) for number in range(4)]
    content = b"".join(batches)
    assert b"".join(pieces(memoryview(content)[:-1])) == b"".join(batches[:-1])


def test_garbage_ends_the_pieces():
    content = make_batch([b"x" * 200_000]) + b"\xff" * 1_000
    with pytest.raises(CorruptRecords):
        list(pieces(memoryview(content)))


# Which fetcher


@pytest.mark.parametrize(
    ("topic", "index", "count", "number"),
    [
        # abs(31 * topic.hashCode() + partition) % count, in 32 bits
        ("t", 0, 1, 0),
        ("t", 0, 7, 5),
        ("t", 1, 7, 6),
        ("orders", 3, 5, 1),
        ("", 0, 3, 0),
        ("", 4, 3, 1),
    ],
)
def test_a_partition_goes_to_the_fetcher_that_kafka_would_take(topic, index, count, number):
    assert fetcher_number(PartitionKey(topic, index), count) == number


def test_partitions_are_spread_over_fetchers():
    numbers = [fetcher_number(PartitionKey("orders", index), 4) for index in range(100)]
    assert {numbers.count(number) for number in range(4)} == {25}


# One partition that moves


def test_the_one_partition_that_moved_is_planned_as_by_the_next_request():
    fetches, other = begun(A, B), begun(A, B)
    for one in (fetches, other):
        one.move(B, at(5, B))
    planned = fetches.next_moved(0.0)
    assert planned == other.next_request(0.0)
    assert planned.names_one
    for one in (fetches, other):
        assert one.asked(B) == at(5, B)
        assert one.answered(ErrorCode.NONE, 7)
        assert one.next_request(0.0).send == {}


def nothing_moved(fetches):
    del fetches


def moved_back(fetches):
    fetches.move(A, at(0, A))


def two_moved(fetches):
    fetches.move(A, at(5, A))
    fetches.move(B, at(5, B))


def one_removed(fetches):
    fetches.remove(A)


def one_rests(fetches):
    fetches.rest(A, 1.0)


def one_is_due(fetches):
    fetches.rest(A, -1.0)
    fetches.next_request(-2.0)
    assert fetches.answered(ErrorCode.NONE, 7)
    fetches.move(B, at(5, B))


def session_lost(fetches):
    fetches.move(A, at(5, A))
    fetches.lost()


@pytest.mark.parametrize(
    "change",
    [nothing_moved, moved_back, two_moved, one_removed, one_rests, one_is_due, session_lost],
)
def test_any_other_request_is_not_that_of_one_partition_and_nothing_is_done(change):
    fetches, other = begun(A, B), begun(A, B)
    for one in (fetches, other):
        change(one)
    assert fetches.next_moved(0.0) is None
    planned = fetches.next_request(0.0)
    assert planned == other.next_request(0.0)
    if change is not one_is_due:
        assert not planned.names_one


def test_an_answer_belongs_to_the_session_that_is_gone_on_with():
    fetches = begun(A)
    assert fetches.is_session(7)
    assert not fetches.is_session(8)
    fetches.lost()
    assert not fetches.is_session(7)
