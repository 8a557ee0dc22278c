"""The process at the other end of a `worker`: takes calls from its standard input, runs them.

The standard input is a socket. Messages are a length and a pickle, in both directions; the next
call comes after the reply to the last one. The end of the socket is the end of the broker, and
ends this process at once, whatever it is doing.

It runs at lower priority and ignores the terminal's interrupt: the broker decides when it ends. A
call that takes more CPU time than it may is ended by the kernel together with this process, in
whatever library it is busy then. The broker reads that from the status.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from struct import Struct
from typing import Any, NamedTuple

from moldau.base.errors import MoldauError

LENGTH = Struct(">Q")
"""What stands before each message."""

NICENESS = 10
"""Cleaning a log may take longer; answering a client may not."""


class Call(NamedTuple):
    """What is to be done."""

    cpu_limit_s: float | None
    work: Callable[[], Any]


class Reply(NamedTuple):
    """What came of it."""

    result: Any = None
    error: Exception | None = None


def main() -> None:
    """Work until the broker ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    link = socket.socket(fileno=0)
    calls: SimpleQueue[bytearray] = SimpleQueue()
    # A thread reads, so that the end of the broker is seen while a call is running.
    threading.Thread(target=_read_calls, args=(link, calls), daemon=True).start()
    while True:
        reply = _answer(calls.get())
        link.sendall(LENGTH.pack(len(reply)))
        link.sendall(reply)


def _read_calls(link: socket.socket, calls: SimpleQueue[bytearray]) -> None:
    with contextlib.suppress(OSError, EOFError):
        while True:
            (size,) = LENGTH.unpack(_read(link, LENGTH.size))
            calls.put(_read(link, size))
    os._exit(0)


def _read(link: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = link.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data


def _answer(message: bytearray) -> bytes:
    """Run one call; whatever it raises is the caller's."""
    try:
        call: Call = pickle.loads(message)  # noqa: S301 - from the broker that started us
        signal.setitimer(signal.ITIMER_PROF, call.cpu_limit_s or 0)
        return pickle.dumps(Reply(call.work()))
    except Exception as error:  # noqa: BLE001 - it is sent on
        return _failure(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _failure(error: Exception) -> bytes:
    if not isinstance(error, MoldauError):
        # A bug: the broker's log shall say where.
        error.add_note(traceback.format_exc())
    try:
        return pickle.dumps(Reply(error=error))
    except Exception:  # noqa: BLE001 - whatever else an error carries
        return pickle.dumps(Reply(error=RuntimeError(repr(error))))
