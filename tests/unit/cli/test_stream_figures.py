"""Progress and Ctrl-C."""

from __future__ import annotations

import io
import signal

import pytest

from moldau.cli.frame.texts import size_text
from moldau.cli.stream.lines import Interrupts
from moldau.cli.stream.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now_s = 0.0

    def monotonic(self):
        return self.now_s

    def wall_ms(self):
        return 0


def test_progress_is_shown_on_a_terminal_a_few_times_a_second():
    terminal, clock = Terminal(), Clock()
    progress = Progress("sent", stream=terminal, clock=clock)
    clock.now_s = 1.0
    for _ in range(100):
        progress.add(10, 1_000)
    assert terminal.getvalue().count("\r") == 1
    clock.now_s = 2.0
    progress.end()
    assert terminal.getvalue().endswith("1,000 records sent, 100.0 kB, 500/s, 50.0 kB/s\n")


@pytest.mark.parametrize(("total", "part"), [(None, ""), (4, " (75 %)"), (2, " (100 %)")])
def test_progress_has_a_percentage_where_the_end_is_known(total, part):
    progress = Progress("sent", stream=Terminal(), clock=Clock(), total=total)
    progress.add(3, 30)
    assert progress.text().startswith(f"3 records sent{part}, 30 B")


def test_progress_is_silent_in_a_pipe_and_where_it_is_not_wanted():
    for stream, wanted in ((io.StringIO(), True), (Terminal(), False)):
        progress = Progress("sent", stream=stream, clock=Clock(), is_wanted=wanted)
        progress.add(1, 1)
        progress.clear()
        progress.end()
        assert stream.getvalue() == ""
        assert progress.count == 1


def test_sizes_are_written_for_people():
    written = [size_text(size) for size in (0, 999, 1_000, 2_500_000, 3e9, 4e12)]
    assert written == ["0 B", "999 B", "1.0 kB", "2.5 MB", "3.0 GB", "4000.0 GB"]


def test_ctrl_c_is_kept_until_the_program_waits():
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.came
        with pytest.raises(KeyboardInterrupt):
            interrupts.waiting(lambda: b"never read")


def test_ctrl_c_ends_a_wait_and_the_second_ends_everything():
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            interrupts.waiting(lambda: signal.raise_signal(signal.SIGINT))
        assert interrupts.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_ctrl_c_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
