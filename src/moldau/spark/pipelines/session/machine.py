"""Spark's virtual machine: started so that what it says comes through us, and ended with us.

While it starts it says ten lines about itself, on the terminal where a view is to stay in place; if
it does not start it says a trace. So that is kept, and looked through for the reason. What it says
later is passed on. Where `spark-submit` has started it, none of this is ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from moldau.base.errors import UserError
from moldau.spark.pipelines.session.home import SUBMITTED

END_S: Final = 30.0
"""How long the machine may take to clear up; then it is killed."""
FAREWELL_S: Final = 1.0
"""How long somebody whom it has started may still hold its output."""
KEPT_LINES: Final = 100

_RAISED: Final = re.compile(r"(?:^|[ .])\w*(?:Exception|Error): (.+)")
_CALLED: Final = re.compile(r"\AAn error occurred while calling .*\n: ")
"""How an error begins that Java has raised for Python."""
_END_OF_QUERY: Final = 'Exception in thread "stream execution thread'
_OF_TRACE: Final = re.compile(r"\s+(?:at |\.\.\. \d+ |Suppressed: )|\s*Caused by: ")
"""How lines of a trace begin, after the first."""
_UNANSWERED: Final = re.compile(r"\AAn error occurred while calling \S+\Z")
"""The whole text of an error for which Java has given no reason."""


class MachineEnded(UserError):  # noqa: N818 - it names the event
    """The machine is not there any more, and nobody here has ended it."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's virtual machine has ended: it has crashed or was killed, for want of memory"
            " maybe; the next run goes on from where it was"
        )


class Said:
    """What the machine says."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._is_started = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def pass_on(self) -> None:
        """Pass on what comes from now on."""
        self._is_started = True
        self._kept.clear()

    def reason(self, error: Exception) -> str:
        """Return the line that says why it does not start."""
        self._listener.join(FAREWELL_S)
        return reason_in([*self._kept], str(error))

    def _listen(self) -> None:
        with os.fdopen(self._reading, encoding="utf-8", errors="replace") as lines:
            for line in without_ends_of_queries(lines):
                if self._is_started:
                    with suppress(OSError):  # a log on a disk that is full, for now
                        sys.stderr.write(line)
                else:
                    self._kept.append(line)


def without_ends_of_queries(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of Java's, but for the traces with which threads of queries end.

    One that is stopped in the middle of a batch may end with a thousand lines. What has ended a
    query is known to who runs it, who tells it in one.
    """
    is_end = False
    for line in lines:
        is_end = line.startswith(_END_OF_QUERY) or (is_end and bool(_OF_TRACE.match(line)))
        if not is_end:
            yield line


def reason_in(lines: list[str], error: str) -> str:
    """Return what was wrong: what an error of Java's says, in its output or raised for us."""
    raised = [found[1] for line in lines if (found := _RAISED.search(line)) is not None]
    if raised:
        return raised[0].strip()
    first = first_line(_CALLED.sub("", error, count=1))
    told = _RAISED.search(first)
    return first if told is None else told[1]


def first_line(text: str) -> str:
    """Return the first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def is_silence(error: BaseException) -> bool:
    """Tell whether an error says that the machine has not answered, and not what it answered.

    A broken pipe is our own output, which nobody reads any more: Py4J has an error for its own.
    """
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return not isinstance(error, BrokenPipeError)
    return isinstance(error, Py4JError) and _UNANSWERED.search(str(error)) is not None


@contextmanager
def telling_of_its_end() -> Iterator[None]:
    """Raise MachineEnded where the machine does not answer in this block.

    What is raised there speaks of a connection that was refused, as if a broker were meant.
    """
    try:
        yield
    except Exception as error:
        if is_silence(error):
            raise MachineEnded from error
        raise


@contextmanager
def machine(settings: Mapping[str, str]) -> Iterator[Said | None]:
    """Have a machine for the sessions of this block; UserError if it does not start.

    One that is there already is joined, and left running; what it says is not heard.
    """
    if SUBMITTED in os.environ or SparkContext._gateway is not None:  # noqa: SLF001
        yield None
        return
    said = Said()
    launch: Any = launch_gateway  # it has no types
    try:
        gateway = launch(SparkConf().setAll(list(settings.items())), {"stderr": said.writing})
    except Exception as error:
        os.close(said.writing)
        raise UserError(f"Spark does not start: {said.reason(error)}") from error
    os.close(said.writing)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - for the sessions to come
    try:
        yield said
    finally:
        _end(gateway)


def _end(gateway: Any) -> None:
    """End the machine, which else runs until this process ends."""
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - the next one starts anew
