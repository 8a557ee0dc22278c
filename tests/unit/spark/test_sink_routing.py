"""Rows go where Kafka's own producer would send them."""

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

from moldau.base.errors import UserError
from moldau.engine.murmur2 import partition_for_key
from moldau.spark.sink.columns import Strings
from moldau.spark.sink.routing import STICKY_SIZE, Destination, Router, topics_of


class Topics:
    """Topics that may have grown by the time somebody looks again."""

    def __init__(self, **counts):
        self.counts = counts
        self.later = {}
        self.led = {}

    def partition_count(self, topic):
        return self.counts[topic]

    def available_partitions(self, topic):
        return self.led.get(topic, range(self.counts[topic]))

    def look_again(self, topic):
        self.counts[topic] = self.later.get(topic, self.counts[topic])
        return self.counts[topic]


def routed(topics, names, which, keys=None, given=None, size=100, *, router=None, hashes=True):
    router = router or Router(topics, random.Random(1), hashes_keys=hashes)
    count = len(which)
    column = None if given is None else pa.array(given, pa.int32())
    strings = None if keys is None else Strings.of(pa.array(keys, pa.binary()))
    sizes = np.full(count, size, np.int64)
    ways = router.routed(names, np.array(which, np.int64), column, strings, sizes)
    return [router.destination(way) for way in ways.tolist()]


def test_a_key_decides_as_it_does_for_the_client():
    keys = [b"key-%d" % number for number in range(50)]
    found = routed(Topics(t=7), ["t"], [0] * 50, keys)
    assert found == [Destination("t", partition_for_key(key, 7)) for key in keys]


def test_a_given_partition_comes_before_the_key():
    keys = [b"a", b"b", None, b"d"]
    found = routed(Topics(t=5), ["t"], [0] * 4, keys, [4, None, 2, 0])
    by_key = partition_for_key(b"b", 5)
    assert found == [Destination("t", one) for one in (4, by_key, 2, 0)]


def test_rows_of_several_topics_are_told_apart():
    keys = [b"x"] * 4
    found = routed(Topics(a=3, b=11), ["a", "b"], [0, 1, 1, 0], keys)
    a, b = (Destination(name, partition_for_key(b"x", n)) for name, n in (("a", 3), ("b", 11)))
    assert found == [a, b, b, a]


def test_rows_without_a_key_stay_together_for_a_batch_and_then_move_on():
    count = 4 * STICKY_SIZE // 100
    found = [one.partition for one in routed(Topics(t=4), ["t"], [0] * count)]
    changes = sum(1 for one, other in itertools.pairwise(found) if one != other)
    assert changes == 3
    shares = [found.count(partition) for partition in range(4)]
    assert max(shares) - min(shares) <= 1


def test_the_turn_goes_on_from_one_round_to_the_next():
    topics = Topics(t=3)
    router = Router(topics, random.Random(1))
    whole = routed(topics, ["t"], [0] * 900, router=router)
    other = Router(topics, random.Random(1))
    parts = [routed(topics, ["t"], [0] * 300, router=other) for _ in range(3)]
    assert whole == [one for part in parts for one in part]


def test_partitions_without_a_leader_get_no_rows_without_a_key():
    topics = Topics(t=3)
    topics.led["t"] = [1]
    found = routed(topics, ["t"], [0] * 500)
    assert set(found) == {Destination("t", 1)}


def test_keys_have_no_say_where_the_user_says_so():
    found = routed(Topics(t=50), ["t"], [0] * 20, [b"%d" % n for n in range(20)], hashes=False)
    assert len(set(found)) == 1


@pytest.mark.parametrize("partition", [-1, -5, 3, 2**31 - 1])
def test_a_partition_that_the_topic_lacks_is_refused(partition):
    with pytest.raises(UserError, match=rf"asks for partition {partition} of topic t, which has 3"):
        routed(Topics(t=3), ["t"], [0, 0], None, [0, partition])


def test_a_partition_that_was_added_since_is_found():
    topics = Topics(t=3)
    topics.later["t"] = 5
    router = Router(topics, random.Random(1))
    before = routed(topics, ["t"], [0], None, [2], router=router)
    after = routed(topics, ["t"], [0, 0], None, [4, 1], router=router)
    assert before == [Destination("t", 2)]
    assert after == [Destination("t", 4), Destination("t", 1)]


def test_a_fixed_topic_is_every_rows():
    names, which = topics_of(None, "all", 3)
    assert (names, which.tolist()) == (["all"], [0, 0, 0])


def test_the_column_names_each_rows_topic():
    names, which = topics_of(pa.array(["b", "a", "b"]), None, 3)
    assert [names[number] for number in which.tolist()] == ["b", "a", "b"]


@pytest.mark.parametrize(("column", "said"), [([None, "a"], "has no topic"), ([""], "is empty")])
def test_a_row_without_a_topic_is_refused(column, said):
    with pytest.raises(UserError, match=said):
        topics_of(pa.array(column, pa.string()), None, len(column))
