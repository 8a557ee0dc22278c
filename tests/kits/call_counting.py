"""Count the calls that a piece of work makes: whether it takes a step for each element."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def count_calls(work: Callable[[], object]) -> int:
    """Do some work; return how many functions it called, those of Python's own included.

    Compiled modules show none of theirs. Callbacks of the garbage collector are not counted.
    """
    calls: list[str] = []
    before = sys.getprofile()
    was_collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(lambda _frame, event, _arg: calls.append(event))
    try:
        work()
    finally:
        sys.setprofile(before)
        if was_collecting:
            gc.enable()
    return len(calls)
