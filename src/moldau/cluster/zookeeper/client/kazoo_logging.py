"""What kazoo logs: errors as they are, everything else for those who debug.

While no server answers, kazoo warns twice for each try to connect, several times a second and for
as long as it takes. The session tells its owner when the connection is lost and when it is back,
and the owner logs that, once.
"""

from __future__ import annotations

import logging
from typing import Any


class KazooLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger for kazoo's client."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logger, {})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line of kazoo's, on the level that it deserves."""
        if level < logging.ERROR:
            level = min(level, logging.DEBUG)
        super().log(level, msg, *args, **kwargs)
