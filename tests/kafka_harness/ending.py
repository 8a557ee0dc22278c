"""How a command that has started brokers ends when it is told to."""

from __future__ import annotations

import signal
import sys


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit, so that a command ends the brokers it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
