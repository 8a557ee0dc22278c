"""The offset of a stream as Spark keeps it: one text for one offset, and nothing lost in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.errors import UserError
from moldau.client.records import TopicPartition
from moldau.spark.source.offsets import StreamOffset

topics = st.text(st.sampled_from("abc.-_9"), min_size=1, max_size=5)
partitions = st.builds(TopicPartition, topics, st.integers(0, 20))
positions = st.dictionaries(partitions, st.integers(0, 2**62), max_size=8)


@st.composite
def stream_offsets(draw):
    found = draw(positions)
    ids = {one.topic: draw(st.sampled_from(["", "ab" * 16, "cd" * 16])) for one in found}
    return StreamOffset(
        found,
        {topic: id_ for topic, id_ in ids.items() if id_},
        draw(st.booleans()),
        draw(st.none() | positions),
    )


@given(stream_offsets())
def test_an_offset_comes_back_as_it_was(offset):
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@given(positions, st.randoms(use_true_random=False))
def test_the_same_offset_is_the_same_text_in_whatever_order_it_was_found(found, random):
    shuffled = list(found.items())
    random.shuffle(shuffled)

    one, other = (json.dumps(StreamOffset(dict(each), {}).to_json()) for each in (found, shuffled))

    assert one == other


def test_partitions_stand_in_the_order_of_their_numbers():
    offset = StreamOffset({TopicPartition("t", number): 0 for number in (10, 2, 1)}, {"t": "ab"})

    assert json.dumps(offset.to_json()) == (
        '{"moldau": 1, "topics": {"t": {"id": "ab", "offsets": {"1": 0, "2": 0, "10": 0}}}}'
    )


def test_the_plain_form_of_sparks_own_connector_is_understood():
    offset = StreamOffset.from_json({"t": {"1": 40, "0": 23}, "moldau": {"0": 1}})

    assert offset == StreamOffset({("t", 0): 23, ("t", 1): 40, ("moldau", 0): 1}, {})


@pytest.mark.parametrize("told", [{"t": 5}, {"t": {"x": 1}}, [], {"moldau": 1}, None])
def test_what_is_no_offset_is_refused(told):
    with pytest.raises(UserError, match="an offset that is none"):
        StreamOffset.from_json(told)


def test_an_offset_of_a_later_version_is_refused():
    with pytest.raises(UserError, match="version 2"):
        StreamOffset.from_json({"moldau": 2, "topics": {}})


def test_the_first_batch_begins_where_its_end_says_and_not_where_it_is_looked_up_now():
    began = {TopicPartition("t", 0): 50}
    end = StreamOffset({TopicPartition("t", 0): 55}, {"t": "ab"}, began=began)
    looked_up = StreamOffset({TopicPartition("t", 0): 60}, {"t": "ab"}, initial=True)

    assert looked_up.beginning(end) == StreamOffset(began, {"t": "ab"})


def test_a_later_batch_begins_where_the_one_before_it_ended():
    before = StreamOffset({TopicPartition("t", 0): 55}, {}, began={TopicPartition("t", 0): 50})
    end = StreamOffset({TopicPartition("t", 0): 70}, {})

    assert before.beginning(end) is before
