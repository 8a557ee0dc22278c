"""What a fork makes of the producers of threads: whole ones here, and copies that refuse there.

The engine's thread stays in the parent. The child's copy of a producer would take records that
nobody sends, and its lock may have been held by a thread that is no more. So a fork waits until
nobody is in the middle of anything, and the copy is told that it is one.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol

PATIENCE_S = 1.0
"""How long a fork waits for a producer's lock, which is held for microseconds. The one who never
lets go is a signal's handler that forks: the lock is its own thread's."""


class Forkable(Protocol):
    """What a fork must know how to treat."""

    def _hold_still(self, patience_s: float) -> bool:
        """Let nobody change anything until `_go_on`; False if that cannot be had."""
        ...

    def _go_on(self) -> None:
        """Let it be changed again."""
        ...

    def _become_copy(self) -> None:
        """Refuse everything from now on: this is the child's. Called before `_go_on`."""
        ...


_known: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_forking: Final = threading.Lock()
"""Held by who adds one, and from before a fork until after it."""
_still: Final[list[tuple[Forkable, bool]]] = []


def watch_forks(one: Forkable) -> None:
    """Have an object asked before every fork and told after it, for as long as it lives."""
    with _forking:
        _known.add(one)


def _before() -> None:
    _forking.acquire()
    for one in tuple(_known):
        _still.append((one, one._hold_still(PATIENCE_S)))  # noqa: SLF001 - not for users


def _after_in_parent() -> None:
    _let_go()


def _after_in_child() -> None:
    for one, _ in _still:
        one._become_copy()  # noqa: SLF001 - as above
    _let_go()


def _let_go() -> None:
    for one, is_held in _still:
        if is_held:
            one._go_on()  # noqa: SLF001 - as above
    _still.clear()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
