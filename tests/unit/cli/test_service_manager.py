"""What systemd is told, and by which process."""

from __future__ import annotations

import asyncio
import socket
import uuid

import pytest

from moldau.base.network import Address
from moldau.cli.service_manager import ServiceManager

PID = 77


def manager(**environ):
    return ServiceManager.of(environ, PID)


@pytest.mark.parametrize("path", [None, "", "relative", "vsock:2:1"])
def test_without_a_socket_that_it_can_use_there_is_no_manager(path):
    assert manager(**({} if path is None else {"NOTIFY_SOCKET": path})) is None


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "77"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_only_the_process_that_is_watched_reports(environ, watchdog_s):
    assert manager(NOTIFY_SOCKET="/run/x", **environ).watchdog_s == watchdog_s


def test_the_loop_reports_from_ready_to_stopping():
    name = f"moldau-{uuid.uuid4()}"

    async def scenario(notify):
        told = ServiceManager.of({"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "3000"}, PID)
        told.ready(Address("127.0.0.1", 9092))
        loop = asyncio.get_running_loop()
        seen = [await loop.sock_recv(notify, 200) for _ in range(4)]
        told.stopping()
        while seen[-1] == b"WATCHDOG=1":
            seen.append(await loop.sock_recv(notify, 200))
        return seen

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(f"\0{name}")
        notify.setblocking(False)
        seen = asyncio.run(scenario(notify))
    assert seen[0] == b"READY=1\nSTATUS=serving at 127.0.0.1:9092"
    assert set(seen[1:-1]) == {b"WATCHDOG=1"}
    assert seen[-1] == b"STOPPING=1\nSTATUS=stopping"


def test_a_manager_that_is_gone_is_a_warning(tmp_path, caplog):
    told = ServiceManager(str(tmp_path / "gone"), None)
    told.ready(Address("h", 1))
    told.stopping()
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "cannot tell the service manager READY=1",
        "cannot tell the service manager STOPPING=1",
    ]
