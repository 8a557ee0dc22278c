"""Patterns of paths: what they match, and where a walk does not go."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.cli.metadata.folder import LazyFolder
from moldau.cli.metadata.path_pattern import PARTS_MAX, PathPattern

ROOT = {
    "brokers": {"1": {"epoch": 5}},
    "topics": {
        "orders": {"id": "a", "partitions": {"0": {"leader": 1}, "10": {"leader": 2}}},
        "Orders": {"id": "b", "partitions": {}},
    },
}


def paths(pattern, root=ROOT):
    return [found.path for found in PathPattern(pattern).select(root)]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("leader", ["/topics/orders/partitions/0/leader", "/topics/orders/partitions/10/leader"]),
        ("orders", ["/topics/orders"]),
        ("[Oo]rders", ["/topics/orders", "/topics/Orders"]),
        ("ord*", ["/topics/orders"]),
        ("/topics/*", ["/topics/orders", "/topics/Orders"]),
        ("topics/*/id", ["/topics/orders/id", "/topics/Orders/id"]),
        ("/topics/*/partitions/?/leader", ["/topics/orders/partitions/0/leader"]),
        ("/brokers/**", ["/brokers", "/brokers/1", "/brokers/1/epoch"]),
        ("/**/epoch", ["/brokers/1/epoch"]),
        ("/**/**/1/**/**", ["/brokers/1", "/brokers/1/epoch"]),
        ("/", ["/"]),
        ("/topics/orders/partitions/0/leader/x", []),
        ("/t*/leader", []),
    ],
)
def test_a_pattern_finds_places(pattern, found):
    assert paths(pattern) == found


def test_two_stars_alone_find_everything_once():
    everything = paths("/**")
    assert everything[0] == "/"
    assert len(everything) == len(set(everything)) == 15


def test_a_name_may_match_in_several_ways_and_is_found_once():
    assert paths("/**/a/**/a", {"a": {"a": {"a": 1}}}) == ["/a/a", "/a/a/a"]


def test_folders_in_which_nothing_can_match_are_not_entered():
    def make(name):
        raise AssertionError(name)

    closed = LazyFolder({"x": "x"}, make)
    assert paths("/topics/*", {"brokers": {"1": closed}, "topics": {"a": 1}}) == ["/topics/a"]


def test_a_pattern_has_an_end():
    with pytest.raises(UserError, match="at most 64 names"):
        PathPattern("/a" * (PARTS_MAX + 1))


def test_a_place_is_found_before_those_behind_it_are_made():
    def make(number):
        assert number < 3, "nobody has asked for it yet"
        return {"leader": number}

    partitions = LazyFolder({str(number): number for number in range(100_000)}, make)
    found = PathPattern("leader").select({"partitions": partitions})
    assert [next(found).node for _ in range(3)] == [0, 1, 2]
