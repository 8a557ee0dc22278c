"""What people write after a command: partitions, changes of configs, topics, files of offsets."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.cli.dev import new_topics
from moldau.cli.frame.arguments import config_texts, parse_changes
from moldau.cli.frame.selection import matching, parse_partitions
from moldau.cli.nouns.seeking import SeekTo, read_offsets
from moldau.cli.operations.positions import Position, PositionKind
from moldau.client.admin import Append, NewTopic, Subtract
from moldau.client.records import TopicPartition


def test_partitions_are_named_one_by_one_and_in_ranges():
    assert parse_partitions("orders") == ("orders", None)
    assert parse_partitions("orders:0,2-4") == ("orders", [0, 2, 3, 4])


@pytest.mark.parametrize("text", ["t:", "t:x", "t:1-", "t:1-x", "t:-1", "t:1,,2"])
def test_what_names_no_partition_is_refused(text):
    with pytest.raises(UserError, match="expected TOPIC"):
        parse_partitions(text)


@pytest.mark.parametrize("text", ["t:4-2", "t:0-99999999999"])
def test_a_range_that_cannot_be_meant_is_refused(text):
    with pytest.raises(UserError, match="is not a range of partitions"):
        parse_partitions(text)


def test_a_pattern_has_to_match_the_whole_name():
    assert matching(["a", "ab", "b"], ["a", "b.*"]) == ["a", "b"]


def test_changes_of_configs_are_set_added_taken_out_and_taken_back():
    changes = parse_changes(["a.b=1", "list+=x", "list-2-=y", "empty=", "e=a=b"], ["gone"])
    assert changes == {
        "a.b": "1",
        "list": Append("x"),
        "list-2": Subtract("y"),
        "empty": "",
        "e": "a=b",
        "gone": None,
    }
    assert config_texts(changes) == ("a.b=1, list+=x, list-2-=y, empty=, e=a=b, the default gone")


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["+=1"], ["a=1", "a=2"], [" =1"]])
def test_what_is_no_change_is_refused(texts):
    with pytest.raises(UserError):
        parse_changes(texts)


def test_topics_to_begin_with_are_read():
    assert new_topics("a:3, b,") == [NewTopic("a", 3), NewTopic("b", None)]
    assert new_topics("") == []


@pytest.mark.parametrize("text", ["a:", "a:x", "a:0", ":3", "a,a", "a:-1"])
def test_topics_that_cannot_be_are_refused(text):
    with pytest.raises(UserError, match="--topics"):
        new_topics(text)


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,7\n",
        "topic,partition,offset\nt,0,5\nt,1,7\n",
        "topic,partition,current,offset,outcome\nt,0,1,5,set\nt,1,,7,set\n",
        "\nt, 0, 5\n\nt,1,7",
    ],
)
def test_a_file_of_offsets_is_read_with_and_without_a_heading(tmp_path, text):
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert read_offsets(file) == {
        TopicPartition("t", 0): Position(PositionKind.OFFSET, 5),
        TopicPartition("t", 1): Position(PositionKind.OFFSET, 7),
    }


@pytest.mark.parametrize(
    "text", ["", "t,0\n", "t,0,x\n", "t,-1,5\n", ",0,5\n", "topic,partition,offset\n"]
)
def test_a_file_without_offsets_is_refused_by_its_name(tmp_path, text):
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    with pytest.raises(UserError, match=r"offsets\.csv"):
        read_offsets(file)


def test_exactly_one_place_has_to_be_named(tmp_path):
    for both in ((None, None), ("latest", tmp_path)):
        with pytest.raises(UserError, match="--to POSITION and --to-file FILE"):
            SeekTo.read(*both)
