"""Lines to send: from a stream or from arguments, until Ctrl-C.

Lines come many at a time: to read one on its own would cost more than to send it. The first Ctrl-C
raises only where the program waits for input, so that no record is torn; elsewhere it is noted, and
found when the next input is wanted. The second ends everything.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, BinaryIO, Final, Self, TextIO, TypeVar, cast

from moldau.base.errors import UserError
from moldau.cli.stream.progress import ERASE

T = TypeVar("T")

CHUNK_SIZE: Final = 1 << 16
"""What a pipe of Linux holds."""

LINE_SIZE_MAX: Final = 1 << 30
"""No broker takes a record of a gigabyte; a stream without line ends must not fill the memory."""


def read_chunk(stream: BinaryIO) -> bytes:
    """Return what is there, waiting for something; nothing at the end."""
    return cast("bytes", stream.read1(CHUNK_SIZE))  # type: ignore[attr-defined]


def line_lists(read: Callable[[], bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their ends as soon as they are whole, as many as there are.

    What stands behind the last line end is a line too, unless it is empty.
    """
    begun: list[bytes] = []
    size = 0
    while chunk := read():
        head, found, rest = chunk.partition(b"\n")
        begun.append(head)
        size += len(head)
        if size > LINE_SIZE_MAX:
            raise UserError(f"a line is longer than {LINE_SIZE_MAX} bytes")
        if found:
            lines = rest.split(b"\n")
            lines.insert(0, b"".join(begun))
            begun = [lines.pop()]
            size = len(begun[0])
            yield lines
    if last := b"".join(begun):
        yield [last]


def interruptible(interrupts: Interrupts, read: Callable[[], bytes]) -> Callable[[], bytes]:
    """Make reading end at Ctrl-C as it does at the end of the stream."""

    def reading() -> bytes:
        try:
            return interrupts.waiting(read)
        except KeyboardInterrupt:
            return b""

    return reading


def numbered(lists: Iterable[list[bytes]], screen: TextIO) -> Iterator[list[bytes]]:
    """Show, before each line is typed, which one it is: the number that errors name it by."""
    number = 1
    waiting = iter(lists)
    while True:
        screen.write(f"{number:,}> ")
        screen.flush()
        lines = next(waiting, None)
        if lines is None:
            screen.write(ERASE)  # nothing was typed there
            screen.flush()
            return
        number += len(lines)
        yield lines


def given_lines(values: Iterable[str]) -> Iterator[list[bytes]]:
    """Take what was given as arguments for lines."""
    yield [value.encode(errors="surrogateescape") for value in values]


class Interrupts:
    """Handles SIGINT while it is entered."""

    def __init__(self) -> None:
        self.came = False
        self._is_waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.came or self._is_waiting:
            self.came = True
            raise KeyboardInterrupt
        self.came = True

    def waiting(self, wait: Callable[[], T]) -> T:
        """Call what waits for input; KeyboardInterrupt if Ctrl-C came, now or before."""
        self._is_waiting = True
        try:
            if self.came:
                raise KeyboardInterrupt
            return wait()
        finally:
            self._is_waiting = False
