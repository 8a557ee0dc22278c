"""The order of Java's hash maps, from its public rules worked out by hand."""

from __future__ import annotations

from kits.assignor_groups import partitions
from moldau.client.assignors.hash_order import (
    HashOrderedSet,
    partitions_in_hash_order,
    texts_in_hash_order,
)


def test_texts_stand_by_their_place_in_a_table_of_sixteen():
    """The hash of "t0" is 116 * 31 + 48 = 3644, its place 12; "t4" is the first of the next 16."""
    assert texts_in_hash_order(["t0", "t1", "t4", "t3"]) == ["t4", "t0", "t1", "t3"]


def test_the_table_doubles_when_it_is_three_quarters_full():
    """Of 16 places "Q" and "a" (81 and 97) have the same; of 32 "Q" stands behind a to l."""
    assert texts_in_hash_order(["Q", *"abcdefghijk"]) == ["Q", *"abcdefghijk"]
    assert texts_in_hash_order(["Q", *"abcdefghijkl"]) == [*"abcdefghijkl", "Q"]


def test_texts_beyond_the_first_plane_count_as_two_units():
    """U+1F600 is D83D DE00: 55357 * 31 + 56832 = 1772899, and 1772899 ^ 27 has place 8."""
    assert texts_in_hash_order(["j", "\N{GRINNING FACE}", "h"]) == ["\N{GRINNING FACE}", "h", "j"]


def test_partitions_stand_by_topic_and_number():
    """31 * (31 + p) + 3644 has place 13 for t0p0, 12 for t0p1, and t0p2 comes to 11."""
    assert partitions_in_hash_order(partitions("t0p0 t0p1 t0p2")) == partitions("t0p2 t0p1 t0p0")


def test_a_set_keeps_the_table_it_grew_to():
    """Of 32 places t0p1 has 28 and t0p17 12; of 16 both have 12, and who came first is first."""
    grown, small = HashOrderedSet(), HashOrderedSet()
    one, other = partitions("t0p1 t0p17")
    passing = partitions(" ".join(f"t0p{number}" for number in range(20, 31)))
    for each in (one, other, *passing):
        grown.add(each)
    for each in passing:
        grown.remove(each)
    small.add(one)
    small.add(other)
    assert (grown.first(), small.first()) == (other, one)
