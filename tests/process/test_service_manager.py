"""`moldau serve` under a service manager that waits for its states, as systemd does."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from process.serving import START_TIMEOUT_S, Serving


def test_a_broker_tells_when_it_serves_and_when_it_stops(tmp_path):
    with (
        tempfile.TemporaryDirectory(prefix="moldau-") as short,  # a name of 108 bytes at most
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify,
    ):
        path = str(Path(short) / "notify")
        notify.bind(path)
        notify.settimeout(START_TIMEOUT_S)
        broker = Serving(tmp_path, environ={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"})
        with broker.launch() as broker:
            first = notify.recv(200).decode()
            broker.wait_until_ready()
            assert first == f"READY=1\nSTATUS=serving at {broker.address}"
            assert [notify.recv(200) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        last = notify.recv(200)
        while last == b"WATCHDOG=1":
            last = notify.recv(200)
        assert last == b"STOPPING=1\nSTATUS=stopping"
