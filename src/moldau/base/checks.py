"""Invariants that stay on in production, and the named points at which a test may crash us.

A crash point stands before and after every durable step. In production it is one call and one
comparison; the simulation installs a hook that raises, and a process test sets
MOLDAU_CRASH_AT=name[:n] so that the n-th hit ends the process as `kill -9` would
(`cli.serve` arms it; nothing else reads the environment).
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.base.errors import InvariantViolated

CrashHook = Callable[[str], None]

_hook: CrashHook | None = None


def invariant(condition: object, message: str) -> None:
    """Raise InvariantViolated with this message unless the condition holds."""
    if not condition:
        raise InvariantViolated(message)


def crash_point(name: str) -> None:
    """Mark a place between two durable steps, as `file.step`: a crash here must be survivable."""
    if _hook is not None:
        _hook(name)


def install_crash_hook(hook: CrashHook | None) -> None:
    """Let a test decide what happens at crash points; None turns them off."""
    global _hook  # noqa: PLW0603 - one process, one hook, set before anything runs
    _hook = hook
