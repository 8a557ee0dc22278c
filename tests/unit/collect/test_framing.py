"""Lines and records of several lines; what is too long; how little is kept."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.collect.framing import TAIL_SIZE, Beginnings, Framing, Piece, Splitter

PYTHON = b"""2026-11-15 12:00:00,123 ERROR shop: no plums
Traceback (most recent call last):
  File "shop.py", line 3, in <module>
    sell()
shop.NoPlums: none left

2026-11-15 12:00:01,001 INFO shop: open
WARNING:root:rain
"""
JAVA = b"""[2026-11-15 12:00:00,123] ERROR no plums (shop)
java.lang.IllegalStateException: none left
\tat shop.Shop.sell(Shop.java:3)
Caused by: java.io.IOException: wet
\t... 3 more
12:00:01.001 [main] INFO shop - open
Nov 15, 2026 12:00:02 PM shop.Shop open
INFO: rain
"""


def values(framing, data, chunk=7):
    splitter = Splitter(framing)
    found = []
    for start in range(0, len(data), chunk):
        splitter.push(data[start : start + chunk])
        while taken := splitter.take(100):
            found += taken
    return [piece.value for piece in found], [one.value for one in splitter.flush(partial=True)]


def test_a_line_is_a_record_and_an_unfinished_one_waits():
    taken, rest = values(Framing(100), b"one\ntwo\n\nthr")
    assert taken == [b"one", b"two", b""]
    assert rest == [b"thr"]


def test_bytes_go_through_as_they_are():
    taken, _ = values(Framing(100), b"\xff\xfe\x00a\r\n\xc3\n")
    assert taken == [b"\xff\xfe\x00a\r", b"\xc3"]


def test_a_traceback_of_python_belongs_to_its_line():
    taken, rest = values(Framing(1000, beginnings=Beginnings.preset("python")), PYTHON)
    first, second = PYTHON.split(b"2026-11-15 12:00:01")
    assert taken == [first[:-1], b"2026-11-15 12:00:01,001 INFO shop: open"]
    assert second
    assert rest == [b"WARNING:root:rain"]


def test_a_stack_trace_of_java_belongs_to_its_line():
    taken, rest = values(Framing(1000, beginnings=Beginnings.preset("java")), JAVA)
    lines = JAVA.splitlines()
    assert taken == [b"\n".join(lines[:5]), lines[5]]
    assert rest == [b"\n".join(lines[6:])]


def test_a_rule_may_say_which_lines_continue_a_record():
    rule = Beginnings.of(r"\s", if_matched=False)
    taken, rest = values(Framing(100, beginnings=rule), b"  a\n b\nc\n d\ne\n")
    assert taken == [b"  a\n b", b"c\n d"]
    assert rest == [b"e"]


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(UserError, match="not a pattern"):
        Beginnings.of("(")


def test_lines_that_nothing_came_after_are_flushed_without_the_unfinished_one():
    splitter = Splitter(Framing(100, beginnings=Beginnings.preset("python")))
    splitter.push(b"INFO a\n  b\n  c")
    assert splitter.take(10) == []
    assert splitter.waits_for_lines
    assert splitter.flush(partial=False) == [Piece(b"INFO a\n  b", 0, 11)]
    assert not splitter.waits_for_lines
    assert splitter.position == 11
    splitter.push(b"\nINFO d\n")
    assert [piece.value for piece in splitter.take(10)] == [b"  c"]


@pytest.mark.parametrize("keeps_cut", [True, False])
def test_a_line_that_is_too_long_is_cut_or_left_out_and_the_next_is_whole(keeps_cut):
    splitter = Splitter(Framing(4, keeps_cut))
    splitter.push(b"123456789\nnext\n")
    value = b"1234" if keeps_cut else b""
    assert splitter.take(10) == [Piece(value, 0, 10, is_whole=False), Piece(b"next", 10, 5)]


def test_of_a_line_without_end_no_more_is_kept_than_a_record_may_have():
    splitter = Splitter(Framing(1_000))
    chunk = b"x" * 65_536
    for _ in range(1_600):  # a hundred megabytes
        splitter.push(chunk)
        assert splitter.take(10) == []
        assert len(splitter._buffer) + len(splitter._long or b"") <= 1_000
    splitter.push(b"\nok\n")
    cut, after = splitter.take(10)
    assert (cut.value, cut.size, cut.is_whole) == (b"x" * 1_000, 1_600 * 65_536 + 1, False)
    assert after == Piece(b"ok", cut.size, 3)


def test_of_a_record_of_many_lines_no_more_is_kept_than_it_may_have():
    splitter = Splitter(Framing(100, beginnings=Beginnings.of("b")))
    splitter.push(b"b\n")
    for _ in range(1_000):
        splitter.push(b"another line\n" * 100)
        assert splitter.take(1_000) == []
        assert sum(map(len, splitter._lines)) < 250
    splitter.push(b"b\n")
    (cut,) = splitter.take(10)
    assert (len(cut.value), cut.size, cut.is_whole) == (100, 2 + 100_000 * 13, False)


def test_an_unfinished_line_one_byte_too_long_is_cut_too():
    splitter = Splitter(Framing(4))
    splitter.push(b"12345")
    assert splitter.take(1) == []
    assert splitter.flush(partial=True) == [Piece(b"1234", 0, 5, is_whole=False)]


def test_the_tail_is_what_stands_before_the_position():
    data = b"".join(b"line %d\n" % number for number in range(200)) + b"rest"
    splitter = Splitter(Framing(100))
    splitter.push(data)
    while splitter.take(30):
        assert splitter.tail == data[: splitter.position][-TAIL_SIZE:]
    assert splitter.position == len(data) - 4
