"""Batches: when they close, where records go, what is held."""

from __future__ import annotations

import pytest

from kits.producer_kit import LEADER, accumulator, batch, put
from moldau.client.errors import RecordTooLarge
from moldau.records.compression import Codec


def test_a_batch_closes_when_the_next_record_does_not_fit():
    gathered = accumulator()
    first, index = put(gathered, b"x" * 50)
    assert (put(gathered, b"x" * 50), index) == ((first, 1), 0)
    second, index = put(gathered, b"x" * 50)
    assert (second is first, index) == (False, 0)
    (queue,) = gathered.ready
    assert list(queue.waiting) == [first]
    assert first.size <= 200


def test_a_record_larger_than_a_batch_gets_one_of_its_own():
    gathered = accumulator()
    large, _ = put(gathered, b"x" * 500)
    assert put(gathered, b"y") != (large, 1)
    assert large.count == 1


def test_a_batch_closes_when_it_has_lingered():
    gathered = accumulator()
    put(gathered, b"x", now=10.0)
    assert gathered.linger_end() == 15.0
    gathered.close_lingering(14.9)
    assert not gathered.ready
    gathered.close_lingering(15.0)
    assert len(gathered.ready) == 1
    assert gathered.linger_end() is None


def test_flushing_closes_every_batch():
    gathered = accumulator(3)
    for partition in range(3):
        put(gathered, b"x", partition)
    gathered.close_all(0.0)
    assert {queue.partition for queue in gathered.ready} == {0, 1, 2}


def test_no_batch_opens_without_room_and_room_comes_back():
    gathered = accumulator(buffer_memory=400)
    first, _ = put(gathered, b"x" * 100)
    second, _ = put(gathered, b"x" * 100)
    assert put(gathered, b"x" * 100) is None
    gathered.release(first)
    assert put(gathered, b"x" * 100) is not None
    assert second.count == 1


def test_a_closed_batch_counts_with_what_it_holds():
    gathered = accumulator()
    opened, _ = put(gathered, b"x")
    assert gathered.used == 200
    gathered.close_all(0.0)
    assert gathered.used == opened.size


def test_a_batch_filled_elsewhere_is_ready_behind_the_records_of_its_partition():
    gathered = accumulator()
    opened, _ = put(gathered, b"x")
    filled = batch(b"y", b"z")
    topic = gathered.topics["t"]
    gathered.add_batch(topic, topic.queues[0], filled, 1.0)
    (queue,) = gathered.ready
    assert list(queue.waiting) == [opened, filled]
    assert gathered.used == opened.size + filled.size
    assert gathered.linger_end() is None
    assert gathered.unsettled() == [(queue, opened), (queue, filled)]


@pytest.mark.parametrize("limit", ["max_request_size", "buffer_memory"])
def test_a_record_that_can_never_be_sent_is_refused_naming_the_setting(limit):
    gathered = accumulator(**{limit: 300})
    with pytest.raises(RecordTooLarge, match=limit):
        gathered.checked_size(None, b"x" * 300, ())


def test_records_without_a_key_stay_until_a_batch_is_full_then_spread():
    gathered = accumulator(4, buffer_memory=100_000)
    partitions = [put(gathered, b"x" * 90)[0].batch_result.partition for _ in range(200)]
    assert set(partitions) == {0, 1, 2, 3}


def test_batches_that_lingered_count_together_before_the_partition_changes():
    gathered = accumulator(50, batch_size=1000)
    seen = []
    for turn in range(5):
        seen.append(put(gathered, b"x" * 50, now=turn * 10.0)[0].batch_result.partition)
        gathered.close_lingering(turn * 10.0 + 5.0)
    assert len(set(seen)) == 1


def test_records_without_a_key_avoid_partitions_without_a_leader_and_slow_ones():
    gathered = accumulator(4, buffer_memory=1_000_000)
    topic = gathered.update_topic("t", bytes(16), [-1, LEADER, -1, LEADER])
    assert {queue.partition for queue in topic.available} == {1, 3}
    for _ in range(30):
        put(gathered, b"x" * 150, 1)
    chosen = [put(gathered, b"x" * 150)[0].batch_result.partition for _ in range(20)]
    assert set(chosen) <= {1, 3}
    assert chosen.count(3) > chosen.count(1)


def test_new_partitions_are_used_and_old_ones_keep_their_batches():
    gathered = accumulator(1)
    put(gathered, b"x", 0)
    topic = gathered.update_topic("t", bytes(16), [2, 2])
    assert topic.queues[0].open is not None
    assert [queue.leader for queue in topic.queues] == [2, 2]


def test_what_is_too_old_is_given_back_oldest_first():
    gathered = accumulator(2)
    first, _ = put(gathered, b"x", 0, now=0.0)
    second, _ = put(gathered, b"x", 1, now=1.0)
    assert gathered.expired(99.9) == []
    assert [batch for _, batch in gathered.expired(101.0)] == [first, second]


def test_well_compressed_topics_get_larger_batches_within_bounds():
    gathered = accumulator(codec=Codec.ZSTD)
    topic = gathered.topics["t"]
    for _ in range(100):
        topic.observe_ratio(1000, 250, 200)
    assert 600 < topic.limit <= 800
    for _ in range(200):
        topic.observe_ratio(1000, 1, 200)
    assert topic.limit == 1600


def test_a_topic_whose_batches_are_refused_gets_smaller_ones_for_good():
    topic = accumulator().topics["t"]
    topic.shrink(200)
    assert topic.limit == 100
    topic.observe_ratio(1000, 100, 200)
    assert topic.limit == 100


def test_a_record_that_cannot_be_written_leaves_no_empty_batch():
    gathered = accumulator()
    topic = gathered.topics["t"]
    with pytest.raises(TypeError):
        gathered.add(topic, None, 0, None, b"v", (("name", "text"),), 100, 0.0)
    assert topic.sticky.open is None
    assert (gathered.used, gathered.unsettled(), gathered.linger_end()) == (0, [], None)


def test_a_settled_batch_keeps_no_records_while_it_waits_behind_one_that_is_not():
    gathered = accumulator(2)
    put(gathered, b"stuck", 0)
    written, _ = put(gathered, b"x" * 100, 1)
    written.batch_result.settle(None, 0)
    gathered.release(written)
    assert gathered.expiry() is not None
    assert written.sealed() == b""


def test_settled_batches_are_forgotten_also_behind_one_that_is_not():
    gathered = accumulator(2)
    stuck, _ = put(gathered, b"stuck", 0)
    for _ in range(5000):
        written, _ = put(gathered, b"x" * 150, 1)
        gathered.topics["t"].queues[1].given_up(written)
        written.batch_result.settle(None, 0)
        gathered.release(written)
    assert [batch for _, batch in gathered.unsettled()] == [stuck]
    assert len(gathered._aging) < 2000


def test_while_half_the_buffer_is_free_there_is_room_for_any_record():
    gathered = accumulator(buffer_memory=600)
    put(gathered, b"x")
    assert put(gathered, b"x" * 500) is not None
    assert not gathered.has_room(1)
