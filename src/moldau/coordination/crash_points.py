"""Every crash point of the coordinators, in the order in which an outcome passes them.

`tests/unit/coordination/test_crashes.py` crashes at each of them, and checks that this list matches
the calls in the code.
"""

from __future__ import annotations

from typing import Final

CRASH_POINTS: Final = (
    "coordinator.load.before_read",
    "coordinator.load.after_replay",
    "coordinator.before_append",
    "coordinator.after_append",
    "coordinator.after_replay",
    "coordinator.after_reply",
)
