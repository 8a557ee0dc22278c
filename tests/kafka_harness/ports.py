"""Ports for brokers that keep theirs over restarts, while other test runs do the same.

A port that the kernel picks is free only until somebody else is given it: another run whose broker
has not started yet, or any client as the near end of its connection while a broker is away. So
ports come from below those of clients, and each is claimed by a lock that ends with its process.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_PORTS = range(15_000, 32_000)
"""Linux gives 32768 and up to clients. A call in vain from there can also meet itself."""

_CLAIMS = os.open(
    Path(tempfile.gettempdir()) / f"moldau-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT
)
"""A file without contents; a lock on byte N claims port N."""

_untried = iter(random.SystemRandom().sample(_PORTS, len(_PORTS)))


def free_port() -> int:
    """Return a loopback port nobody listens on, and never the same again in this process."""
    return next(port for port in _untried if _claim(port))


def _claim(port: int) -> bool:
    with socket.socket() as probe:
        try:
            fcntl.lockf(_CLAIMS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
