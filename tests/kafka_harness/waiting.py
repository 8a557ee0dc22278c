"""Waiting for what a cluster does in its own time.

Kafka answers an admin request when the controller has decided; the broker that is asked next may
learn of it a moment later. So a change is awaited by its effect, never by a pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60
"""What must come within a second or two may take far longer where others use the cores."""

_PAUSE_S = 0.02


def eventually(look: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Look again and again until the answer is true; return it."""
    deadline = time.monotonic() + timeout_s
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(_PAUSE_S)
    return answer
