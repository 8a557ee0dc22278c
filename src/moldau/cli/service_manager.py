"""Tells systemd how a broker is doing: it serves, it stops, its event loop runs (sd_notify(3)).

Each state is one datagram to the socket that $NOTIFY_SOCKET names. Without that variable nothing
here is imported.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Final, Self

from moldau.base.network import Address

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHED_PROCESS_VARIABLE: Final = "WATCHDOG_PID"

SEND_TIMEOUT_S: Final = 1.0
"""The queue of systemd may be full for a moment. Longer is no reason to hold up clients."""

WATCHDOG_PART: Final = 3
"""The loop reports this many times within the period after which it is taken for stalled."""

logger = logging.getLogger(__name__)


class ServiceManager:
    """The process that started this one and waits for its states."""

    def __init__(self, path: str, watchdog_s: float | None) -> None:
        # A name that begins with @ is not in the file system.
        self._path = "\0" + path[1:] if path.startswith("@") else path
        self.watchdog_s = watchdog_s
        """After so much silence the process is restarted; None if it is not watched."""
        self._feeding: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], process_id: int) -> Self | None:
        """Find the manager of this process; None if it has none."""
        path = environ.get(SOCKET_VARIABLE, "")
        if not path.startswith(("/", "@")):
            return None
        period_us = environ.get(WATCHDOG_VARIABLE, "")
        watched = environ.get(WATCHED_PROCESS_VARIABLE, str(process_id))
        is_watched = period_us.isdecimal() and int(period_us) > 0 and watched == str(process_id)
        return cls(path, int(period_us) / 1e6 if is_watched else None)

    def ready(self, address: Address) -> None:
        """Say that requests are served, and begin to say that the loop runs."""
        self._tell("READY=1", f"STATUS=serving at {address}")
        if self.watchdog_s is not None:
            self._feeding = asyncio.create_task(self._feed(self.watchdog_s / WATCHDOG_PART))

    def stopping(self) -> None:
        """Say that the process is about to end: systemd then waits, and watches no more."""
        if self._feeding is not None:
            self._feeding.cancel()
        self._tell("STOPPING=1", "STATUS=stopping")

    async def _feed(self, period_s: float) -> None:
        while True:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(period_s)

    def _tell(self, *states: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
                notify.settimeout(SEND_TIMEOUT_S)
                notify.connect(self._path)
                notify.sendall("\n".join(states).encode())
        except OSError as error:
            logger.warning("cannot tell the service manager %s: %s", states[0], error)
