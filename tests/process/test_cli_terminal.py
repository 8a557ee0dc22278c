"""The command line on a terminal: it draws, asks before it changes, and watches in place."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.topics import create_topic

MOLDAU = str(Path(sys.executable).with_name("moldau"))
CTRL_D = b"\x04"
CTRL_C = b"\x03"
PATIENCE_S = 60


class Screen(NamedTuple):
    """What a terminal showed, and how the command ended."""

    text: str
    status: int


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoldauNode]:
    with MoldauNode(tmp_path_factory.mktemp("terminal")) as running:
        create_topic(running.address, "orders", 3)
        yield running


def on_terminal(
    broker: MoldauNode,
    *arguments: str,
    answers: Sequence[tuple[bytes, bytes]] = (),
    environ: dict[str, str] | None = None,
    enough: int = 1,
) -> Screen:
    """Run a command on a terminal; an answer is typed once its question was shown often enough."""
    child, terminal = pty.fork()
    if child == 0:
        own = {"TERM": "xterm", "COLUMNS": "100", "MOLDAU_CONFIG": os.devnull, **(environ or {})}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        os.execve(MOLDAU, ["moldau", *arguments, "-b", broker.address], {**kept, **own})
    shown, left, deadline = b"", list(answers), time.monotonic() + PATIENCE_S
    insist = b""
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 0.5)[0]:
                # Python does not see a signal that comes right before it reads: type it again.
                os.write(terminal, insist)
                continue
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # the other side has been closed
                break
            if left and shown.count(left[0][0]) >= enough:
                answer = left.pop(0)[1]
                os.write(terminal, answer)
                insist = answer if answer == CTRL_C else b""
    finally:
        os.close(terminal)
        _, ended = os.waitpid(child, 0)
    return Screen(shown.decode(), os.waitstatus_to_exitcode(ended))


def test_tables_are_drawn_with_colours_unless_the_user_wants_none(broker: MoldauNode) -> None:
    drawn = on_terminal(broker, "cluster", "health")
    assert drawn.status == 0
    assert "\x1b[32myes" in drawn.text
    plain = on_terminal(broker, "cluster", "health", environ={"NO_COLOR": "1"})
    assert "yes" in plain.text
    assert "\x1b[32m" not in plain.text


def test_a_long_name_is_folded_and_never_cut(broker: MoldauNode) -> None:
    name = "n" * 150
    create_topic(broker.address, name)
    shown = on_terminal(broker, "topic", "list", environ={"COLUMNS": "60"})
    assert shown.text.count("n") == len(name)


def test_the_user_is_asked_and_no_means_no(broker: MoldauNode) -> None:
    create_topic(broker.address, "kept")
    question = b"delete topic kept with all records. Continue? [y/N]: "
    refused = on_terminal(broker, "topic", "delete", "kept", answers=[(question, b"n\n")])
    assert (refused.status, "moldau: nothing was changed" in refused.text) == (1, True)
    stopped = on_terminal(broker, "topic", "delete", "kept", answers=[(question, CTRL_C)])
    assert stopped.status == 130
    assert "kept" in on_terminal(broker, "topic", "list").text
    done = on_terminal(broker, "topic", "delete", "kept", answers=[(question, b"y\n")])
    assert (done.status, "deleted" in done.text) == (0, True)
    assert "kept" not in on_terminal(broker, "topic", "list").text


def test_lines_that_are_typed_are_counted(broker: MoldauNode) -> None:
    typed = [(b"1> ", b"one\n"), (b"2> ", b"two\n"), (b"3> ", CTRL_D)]
    shown = on_terminal(broker, "produce", "orders", answers=typed)
    assert shown.status == 0
    assert shown.text.split("\r\n") == [
        "Each line is a record for orders. Ctrl-D ends.",
        "1> one",
        "2> two",
        "3> \r\x1b[Kmoldau: records delivered: 2",
        "",
    ]


def test_progress_is_shown_of_a_file_and_not_of_what_is_given(
    broker: MoldauNode, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    shown = on_terminal(broker, "produce", "orders", "-i", str(tmp_path / "lines"))
    assert (shown.status, "2 records read" in shown.text) == (0, True)
    assert on_terminal(broker, "produce", "orders", "three") == Screen("", 0)


def test_a_watch_shows_the_list_again_in_place_until_ctrl_c(broker: MoldauNode) -> None:
    shown = on_terminal(
        broker, "topic", "list", "orders", "--watch", "0.1", enough=3, answers=[(b"orders", CTRL_C)]
    )
    assert shown.status == 130
    assert shown.text.count("\x1b[H") >= 3
    assert "\x1b[2J" not in shown.text


IGNORED_BY_NOHUP = pytest.mark.skipif(
    signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, reason="by nohup, which commands inherit"
)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=IGNORED_BY_NOHUP)]
)
def test_a_watch_ends_by_the_signals_that_end_a_process(broker: MoldauNode, number: int) -> None:
    command = [MOLDAU, "topic", "list", "orders", "--watch", "0.1", "-b", broker.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert "NAME" in watching.stdout.readline()
        watching.send_signal(number)
        assert watching.wait(PATIENCE_S) == -number
