"""Whether records get through: said once when they do not for a while, and once when they do again.

Pure.
"""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 5.0
"""A broker that restarts is away for less; whoever looks at a screen does not wait for longer."""


class Silence:
    """How long nothing has been acknowledged though something is on its way."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._since: float | None = None
        self._delivered_count = 0
        self._is_said = False

    def observe(self, now: float, delivered_count: int, *, is_waiting: bool) -> str | None:
        """Take note of how things are; return the line that should be said now, if any."""
        if is_waiting and delivered_count == self._delivered_count and self._since is not None:
            silent_s = now - self._since
            if silent_s < self._patience_s or self._is_said:
                return None
            self._is_said = True
            return (
                f"nothing has been acknowledged for {silent_s:.0f} s: waiting for the brokers,"
                " nothing is lost meanwhile"
            )
        silent_s = now - self._since if self._since is not None else 0.0
        was_said, self._is_said = self._is_said, False
        self._delivered_count = delivered_count
        self._since = now if is_waiting else None
        return f"records get through again, after {silent_s:.0f} s" if was_said else None
