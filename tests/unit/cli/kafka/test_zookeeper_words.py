"""A line of ZooKeeper's shell: its words, its options, and paths that cannot be."""

from __future__ import annotations

import pytest

from moldau.cli.kafka.zookeeper_words import WrongWords, check_path, parse_words, split_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("  ls   / ", ["ls", "/"]),
        ('create /a "two words"', ["create", "/a", "two words"]),
        ("create /a 'it \"is\"'", ["create", "/a", 'it "is"']),
        ('set /a {"version":1}', ["set", "/a", '{"version":1}']),
    ],
)
def test_a_line_is_taken_apart_at_blanks(line, words):
    assert split_line(line) == words


def test_options_stand_anywhere_alone_or_together():
    given = parse_words(["-e", "/a", "-s", "data"], "es", "")
    assert given.options.keys() == {"e", "s"}
    assert given.others == ["/a", "data"]
    assert parse_words(["-es", "/a"], "es", "").options.keys() == {"e", "s"}


def test_a_value_follows_some_options():
    given = parse_words(["/a", "-v", "-1"], "", "v")
    assert given.options == {"v": "-1"}
    with pytest.raises(WrongWords, match="Missing argument for option: v"):
        parse_words(["/a", "-v"], "", "v")


def test_data_may_begin_with_a_dash_behind_two_dashes():
    assert parse_words(["/a", "--", "-5"], "s", "").others == ["/a", "-5"]
    with pytest.raises(WrongWords, match="Unrecognized option: -5"):
        parse_words(["/a", "-5"], "s", "")


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c/..d", "/a/...", "/ü"])
def test_paths_of_nodes_are_taken(path):
    check_path(path)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "Path length must be > 0"),
        ("a", "Path must start with / character"),
        ("/a/", "Path must not end with / character"),
        ("/a//b", 'Invalid path string "/a//b" caused by empty node name specified @3'),
        ("/a/./b", 'Invalid path string "/a/./b" caused by relative paths not allowed @3'),
        ("/a/..", 'Invalid path string "/a/.." caused by relative paths not allowed @4'),
        ("/a\x07", 'Invalid path string "/a\x07" caused by invalid character @2'),
        ("/a\x00", 'Invalid path string "/a\x00" caused by null character not allowed @2'),
    ],
)
def test_others_are_refused_in_the_words_of_zookeeper(path, told):
    with pytest.raises(WrongWords) as refused:
        check_path(path)
    assert str(refused.value) == told
