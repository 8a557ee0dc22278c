"""The recording of the README: what draws it works, and what is there is whole and small."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools.recording.film import HOLD_S, LINE, Label, film
from tools.recording.recorder import Frame, Recorder
from tools.recording.session import orders_program
from tools.recording.terminal import Run, Terminal

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SVG = "{http://www.w3.org/2000/svg}"
SIZE_MAX = 500_000


def row(text):
    return (Run(0, text, "default", is_bold=False),)


def test_a_row_moves_when_it_changes_and_stands_still_when_it_does_not():
    frames = [
        Frame(0.0, (row("one"), row("same"))),
        Frame(1.0, (row("two"), row("same"))),
        Frame(6.0, (row("<&>"), row("same"))),
    ]
    drawn = film(frames, [Label(1, "below")], 20, "a title")
    root = ET.fromstring(drawn)
    strips = [(strip.get("id"), strip.get("transform")) for strip in root.iter(f"{SVG}g")]
    assert strips == [("r0", f"translate(0 {-2 * LINE})"), ("r1", None)]
    assert f"10.000%{{transform:translateY({-LINE}px)}}" in drawn
    assert f"animation:r0 {6 + HOLD_S:.2f}s" in drawn
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts == ["a title", "one", "two", "<&>", "below", "same"]


def test_a_terminal_knows_what_is_where_in_which_colour(tmp_path):
    terminal = Terminal(2, 40)
    recorder = Recorder([terminal])
    said = r"printf 'plain  two words\n\033[1;36mbold\033[0m'"
    terminal.start(["sh", "-c", said], tmp_path, os.environ)
    recorder.wait(lambda: terminal.descriptor is None, 20)
    terminal.end()
    assert terminal.text() == "plain  two words\nbold"
    assert terminal.rows() == (
        (Run(0, "plain", "default", is_bold=False), Run(7, "two words", "default", is_bold=False)),
        (Run(0, "bold", "cyan", is_bold=True),),
    )
    assert recorder.frames[-1].rows == terminal.rows()


def test_the_session_runs_the_program_of_the_start_page():
    assert 'producer.send("orders"' in orders_program()


@pytest.mark.parametrize("name", sorted(path.name for path in IMAGES.glob("*.svg")))
def test_a_picture_is_whole_and_small_and_fetches_nothing(name):
    text = (IMAGES / name).read_text()
    assert ET.fromstring(text).find(f"{SVG}title") is not None
    assert len(text) < SIZE_MAX
    assert "href" not in text
    assert "<script" not in text


def test_the_recording_ends_with_all_records():
    (last,) = ET.fromstring((IMAGES / "cluster.svg").read_text()).findall(".//*[@id='r13']")
    assert last[-1].text.startswith("1000 orders acknowledged, longest wait ")
