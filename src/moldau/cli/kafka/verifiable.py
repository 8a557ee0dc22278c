"""What the verifiable producer and consumer share: events as lines of JSON, and how they end.

Other programs start these commands, read every line, and stop them by a signal. So a line is
written at once and whole, whichever thread it comes from; a signal ends the work in good order, and
the exit status names it; and a broker that is not there yet is waited for.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from moldau.cli.frame import client
from moldau.cli.kafka.running import Finished, parse

if TYPE_CHECKING:
    from moldau.cli.kafka.console import Console
    from moldau.cli.kafka.options import OptionParser, Options

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
SIGNALLED: Final = 128
"""The exit status of a process that a signal ended is this and the signal's number."""
AT_ONCE: Final = {"bootstrap.timeout.ms": "0"}
"""A client that waits for brokers by itself does not hear signals: `start` does the waiting."""
NAP_S: Final = 0.1
"""How long a signal may wait to be noticed, and a broker to be tried again."""


def parse_or_help(
    parser: OptionParser, arguments: Sequence[str], about: str, console: Console
) -> Options:
    """Read a command line; without any word the help is all that was asked for."""
    if not arguments:
        console.say(f"{about}\n{parser.usage()}".rstrip("\n"))
        raise Finished(0)
    return parse(parser, arguments, about, console)


class Events:
    """What happens, a line of JSON each."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self.is_read = True
        """Whether somebody still reads the lines."""

    def tell(self, name: str, **fields: Any) -> None:
        """Write that something happened."""
        event = {"timestamp": int(time.time() * 1000), "name": name, **fields}
        line = json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        with self._lock:
            try:
                self._console.say(line)
                self._console.stdout.flush()
            except BrokenPipeError:
                self.is_read = False


class Stop:
    """Notes, while it is entered, that the process was told to end; a second time it does at once.

    Handlers belong to the main thread; entered in another one it notes nothing.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def came(self) -> bool:
        """Whether it is time to end."""
        return self._signal is not None

    @property
    def status(self) -> int:
        """The exit status that tells why the process ended."""
        return 0 if self._signal is None else SIGNALLED + self._signal

    def nap(self, seconds: float = NAP_S) -> None:
        """Sleep so long, unless it is time to end."""
        end = time.monotonic() + seconds
        while not self.came and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, NAP_S))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._handle) for one in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.came:
            raise KeyboardInterrupt
        self._signal = number


class Startable(Protocol):
    """A client that finds its cluster when it is started."""

    def start(self) -> None:
        """Find the cluster, or raise NoBrokerReachable."""


def start(startable: Startable, stop: Stop) -> None:
    """Start a client as soon as a broker answers, or not at all if it is time to end before."""
    while not stop.came:
        try:
            startable.start()
        except client.NoBrokerReachable:
            stop.nap()
        else:
            return
