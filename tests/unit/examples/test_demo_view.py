"""The demonstration's page: it says what the snapshot says, within any terminal."""

from __future__ import annotations

import io

import pytest
from examples.demo.figures import Excerpt, PipelineFigures, Snapshot, TopicFigures
from examples.demo.view import Lines, drawn, opened
from rich.console import Console

ROWS = {"events": 21_000, "late": 198, "dead_letters": 20}


def snapshot(elapsed_s=43.0):
    activity = PipelineFigures("activity", "running", 12, 812, 1_794_798_534_678, 321, {}, ROWS)
    logs = PipelineFigures("logs", "waits", None, 0, None, 2000, {}, {"logs": 0})
    return Snapshot(
        elapsed_s,
        [TopicFigures("activity", 21_539, 498.2), TopicFigures("logs", 2000, 61.0)],
        [activity, logs],
        [
            Excerpt("Top pages until 03:26:10", ("page", "pv"), [("/page/1", "1,963")]),
            Excerpt("Found", ("time", "message"), [("03:26:01", "[red] is not a colour here")]),
            Excerpt("Stock now", ("product", "boxes"), [("plum", "12")]),
        ],
    )


def lines_of(shown, width):
    output = io.StringIO()
    Console(file=output, width=width).print(shown)
    return output.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_page_fits_the_terminal_and_leaves_nothing_out(width):
    page = lines_of(drawn(snapshot(), "until 2:00"), width)
    assert max(map(len, page)) <= width
    words = " ".join(page).split()
    for word in ("0:43", "21,539", "498", "321", "03:08:54", "dead_letters", "/page/1", "plum"):
        assert word in words


def test_excerpts_stand_beside_each_other_where_there_is_room():
    def height(width):
        return len(lines_of(drawn(snapshot(), ""), width))

    assert height(60) == height(200) + 3


def test_what_stands_in_a_table_is_not_taken_for_markup():
    assert any("[red] is not" in line for line in lines_of(drawn(snapshot(), ""), 100))


def test_without_a_terminal_a_line_comes_now_and_then_and_whenever_something_else_goes_on():
    output = io.StringIO()
    with opened(Console(file=output)) as view:
        assert isinstance(view, Lines)
        for second in range(25):
            view.show(snapshot(float(second)), "until 2:00")
        view.show(snapshot(25.0), "ends")
    assert [line.split(" | ")[0] for line in output.getvalue().splitlines()] == [
        "0:00 until 2:00",
        "0:10 until 2:00",
        "0:20 until 2:00",
        "0:25 ends",
    ]


def test_a_terminal_that_can_replace_nothing_gets_lines_too(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with opened(Console(file=io.StringIO(), force_terminal=True)) as view:
        assert isinstance(view, Lines)
