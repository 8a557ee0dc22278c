"""The story: three brokers, a program that writes without a pause, and a broker that is killed.

The program is the one of `docs/start.md`, word for word.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.recording.film import Label
from tools.recording.recorder import Frame, Recorder
from tools.recording.terminal import Terminal

COLUMNS: Final = 78
SHELL_ROWS: Final = 13
WRITER_ROWS: Final = 2
WATCH_ROWS: Final = 8
TITLE: Final = "three brokers, one killed, no record lost"
PROMPT: Final = "$ "
WATCH: Final = "moldau topic describe orders --watch"
LABELS: Final = (
    Label(SHELL_ROWS, "python orders.py"),
    Label(SHELL_ROWS + WRITER_ROWS, WATCH),
)
UP: Final = "moldau cluster up --data ./cluster --brokers 3 --detach"
LIMIT_S: Final = 120.0

START_PAGE: Final = Path(__file__).parents[2] / "docs" / "start.md"
BIN: Final = Path(sys.executable).parent
"""Where the commands `moldau` and `python` are."""


def orders_program() -> str:
    """Return the program that writes, from the page that shows it."""
    found = re.search(r"`orders\.py`.*?```python\n(.*?)```", START_PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


class Session:
    """One run of the story in some folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PATH": f"{BIN}:{os.defpath}",
            "PS1": PROMPT,
            "TERM": "xterm-256color",
        }
        self._shell = Terminal(SHELL_ROWS, COLUMNS)
        self._writer = Terminal(WRITER_ROWS, COLUMNS)
        self._watch = Terminal(WATCH_ROWS, COLUMNS)
        self._recorder = Recorder([self._shell, self._writer, self._watch])

    def play(self) -> list[Frame]:
        """Play it, and return what was to be seen."""
        (self._folder / "orders.py").write_text(orders_program())
        with self._running():
            self._tell()
        return self._recorder.frames

    def _tell(self) -> None:
        recorder = self._recorder
        recorder.wait(self._is_at_prompt, LIMIT_S)
        self._enter(UP)
        if "BOOTSTRAP=" not in self._shell.text():
            raise RuntimeError(f"the cluster is not up:\n{self._shell.text()}")
        self._enter("moldau topic create orders -p 3")
        self._start(self._writer, "python orders.py")
        self._start(self._watch, WATCH)
        recorder.wait(lambda: self._watch.text().count("1,2,3") > 0, LIMIT_S)
        recorder.watch(3)
        self._enter("moldau cluster kill 2 --data ./cluster")
        recorder.watch(4)
        self._enter("moldau cluster start 2 --data ./cluster")
        recorder.wait(lambda: "1000 orders" in self._writer.text(), LIMIT_S)
        self._enter("moldau consume orders -e -n 1000 | sort -u | wc -l")
        recorder.watch(1)

    def _enter(self, line: str) -> None:
        """Type a command into the shell, and wait for its end."""
        self._recorder.type(self._shell, line)
        self._shell.write("\n")
        self._recorder.watch(0.3)
        self._recorder.wait(self._is_at_prompt, LIMIT_S)
        self._recorder.watch(0.7)

    def _is_at_prompt(self) -> bool:
        return self._shell.text().split("\n")[-1] == PROMPT.rstrip()

    def _start(self, terminal: Terminal, command: str) -> None:
        terminal.start(command.split(), self._folder, self._environment)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """A shell, and whatever is started later, until the end; then the brokers end, too."""
        self._start(self._shell, "bash --norc --noprofile")
        try:
            yield
        finally:
            for terminal in (self._watch, self._writer):
                terminal.end()
            frames = len(self._recorder.frames)
            self._shell.write("\x03moldau cluster down --data ./cluster\nexit\n")
            self._recorder.wait(lambda: self._shell.descriptor is None, LIMIT_S)
            del self._recorder.frames[frames:]
            self._shell.end()


def play() -> list[Frame]:
    """Play the story in a folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="moldau-recording-") as folder:
        return Session(Path(folder)).play()
