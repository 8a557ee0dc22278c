"""`python -m tools.recording FILE.svg`: play the session, and write it as an SVG."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.recording.film import film
from tools.recording.session import COLUMNS, LABELS, TITLE, play


def main(path: str) -> None:
    """Record it."""
    frames = play()
    Path(path).write_text(film(frames, LABELS, COLUMNS, TITLE))
    sys.stdout.write(f"{path}: {len(frames)} frames, {frames[-1].at_s:.0f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
