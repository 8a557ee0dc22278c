"""Draws frames as an SVG that plays by itself: a strip of film for each row of the screen.

All contents that a row ever has stand in its strip one below the other, each once for every time
that it is shown, and CSS moves the strip by steps. So the file grows with what changes, not with
frames times rows. Where nothing is animated, the last frame is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tools.recording.recorder import Frame
from tools.recording.terminal import Row, Run

CELL: Final = 8.4
"""The width of a letter of 14 px in most fonts of fixed width; `textLength` corrects the others."""
FONTS: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
LINE: Final = 19
MARGIN: Final = 18
BAR: Final = 34
"""The bar of the window."""
HOLD_S: Final = 4.0
"""How long the last frame stays before the film begins again."""

BACKGROUND: Final = "#11151c"
COLORS: Final = {
    "default": "#d7dde6", "black": "#7d8896", "red": "#ff7b72", "green": "#7ee787",
    "brown": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#56d4dd",
    "white": "#ffffff",
}  # fmt: skip
"""Of the sixteen colours of a terminal, by pyte's names; bright ones look like the others."""


@dataclass(frozen=True, slots=True)
class Label:
    """A line above a terminal that says what runs in it."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Shot:
    """What a row shows, from some moment on."""

    at_s: float
    row: Row


def film(frames: Sequence[Frame], labels: Sequence[Label], columns: int, title: str) -> str:
    """Return the whole SVG; each label takes a line above the row that it names."""
    length_s = frames[-1].at_s + HOLD_S
    strips = [_shots(frames, number) for number in range(len(frames[0].rows))]
    width = round(columns * CELL + 2 * MARGIN)
    height = BAR + (len(strips) + len(labels)) * LINE + MARGIN
    parts = [
        _opening(width, height, title),
        _style(strips, length_s),
        _window(width, height, title),
    ]
    y = BAR
    headings = {label.row: label.text for label in labels}
    for number, shots in enumerate(strips):
        if number in headings:
            parts.append(_heading(headings[number], y, width))
            y += LINE
        parts.append(_strip(number, shots, y, width))
        y += LINE
    return "\n".join([*parts, "</svg>", ""])


def _shots(frames: Sequence[Frame], number: int) -> list[Shot]:
    """Return what a row shows over time, without its repetitions."""
    shots = [Shot(0.0, frames[0].rows[number])]
    for frame in frames[1:]:
        if frame.rows[number] != shots[-1].row:
            shots.append(Shot(frame.at_s, frame.rows[number]))
    return shots


def _opening(width: int, height: int, title: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    name = escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{name}">'
        f"<title>{name}</title>"
    )


def _style(strips: Sequence[Sequence[Shot]], length_s: float) -> str:
    rules = [
        f"text{{font:14px {FONTS}}}",
        ".b{font-weight:bold}",
        *(f".{name}{{fill:{color}}}" for name, color in COLORS.items()),
    ]
    for number, shots in enumerate(strips):
        if len(shots) > 1:
            steps = "".join(
                f"{shot.at_s / length_s:.3%}{{transform:translateY({-position * LINE}px)}}"
                for position, shot in enumerate(shots)
            )
            rules.append(f"@keyframes r{number}{{{steps}}}")
            rules.append(f"#r{number}{{animation:r{number} {length_s:.2f}s step-end infinite}}")
    rules.append("@media(prefers-reduced-motion:reduce){g{animation:none!important}}")
    return "<style>\n" + "\n".join(rules) + "\n</style>"


def _window(width: int, height: int, title: str) -> str:
    lights = "".join(
        f'<circle cx="{20 + 18 * number}" cy="{BAR // 2}" r="5.5" fill="{color}"/>'
        for number, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<rect width="{width}" height="{height}" rx="9" fill="{BACKGROUND}" stroke="#39424f"/>'
        f'{lights}<text class="black" x="{width / 2:.0f}" y="{BAR // 2 + 5}" '
        f'text-anchor="middle">{escape(title)}</text>'
    )


def _heading(text: str, y: int, width: int) -> str:
    return (
        f'<path d="M0 {y + 3}H{width}" stroke="#2a323d"/>'
        f'<text class="black" x="{MARGIN}" y="{y + LINE - 3}">{escape(text)}</text>'
    )


def _strip(number: int, shots: Sequence[Shot], y: int, width: int) -> str:
    """Draw all that a row shows; the inner svg is the window through which one shot is seen."""
    texts = "".join(
        _text(run, position * LINE) for position, shot in enumerate(shots) for run in shot.row
    )
    last = f' transform="translate(0 {-(len(shots) - 1) * LINE})"' if len(shots) > 1 else ""
    return f'<svg y="{y}" width="{width}" height="{LINE}"><g id="r{number}"{last}>{texts}</g></svg>'


def _text(run: Run, y: int) -> str:
    color = run.color.removeprefix("bright")
    names = f"{color if color in COLORS else 'default'}{' b' if run.is_bold else ''}"
    return (
        f'<text class="{names}" x="{MARGIN + run.column * CELL:.1f}" y="{y + LINE - 5}" '
        f'textLength="{len(run.text) * CELL:.1f}">{escape(run.text)}</text>'
    )
