"""Telling whether code runs in the middle of other code: in a signal handler.

Python calls a handler between two steps of whatever the main thread does, with the frame that it
interrupts. So the records which that frame works on may not be done with, whoever asks.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType


def in_signal_handler() -> bool:
    """Tell whether a signal handler is under way in this thread.

    Nothing says so outright; but a handler is given the very frame that called it, which nobody
    else is.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to look
    while frame is not None:
        caller = frame.f_back
        if caller is not None and any(given is caller for given in _arguments(frame)):
            return True
        frame = caller
    return False


def _arguments(frame: FrameType) -> list[object]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    takes_rest = bool(code.co_flags & inspect.CO_VARARGS)
    names = code.co_varnames[: count + takes_rest]
    if not names:
        return []
    values = frame.f_locals
    given = [values.get(name) for name in names]
    if takes_rest:
        given += values.get(names[-1]) or ()
    return given
