"""A broker's life as seen by those who watch it, and what it says of who can reach it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from kafka_harness.ports import free_port
from moldau.base.network import Address
from moldau.cli import serve
from moldau.server.broker import Broker


def told(port, path):
    """Return the status of a page and the first word it says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().split()[0].decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().split()[0].decode()


@pytest.fixture
def unfrozen():
    """The objects of this process are not those of a broker that runs for months."""
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_a_broker_is_ready_from_its_start_to_its_stop_and_alive_all_the_time(tmp_path, monkeypatch):
    port = free_port()
    settings = serve.load_settings(
        None,
        {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "moldau.metrics.listen": f"127.0.0.1:{port}",
        },
    )
    seen = []

    async def look():
        pages = ("/readyz", "/metrics", "/healthz")
        seen.append([await asyncio.to_thread(told, port, page) for page in pages])

    def looking_first(method):
        async def looked(self):
            await look()
            await method(self)

        return looked

    async def on_ready(address):
        await look()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Broker, "start", looking_first(Broker.start))
    monkeypatch.setattr(Broker, "stop", looking_first(Broker.stop))
    asyncio.run(serve.run_broker(settings, on_ready))
    assert seen == [
        [(503, "starting"), (503, "starting"), (200, "ok")],
        [(200, "ready"), (200, "#"), (200, "ok")],
        [(503, "stopping"), (503, "stopping"), (200, "ok")],
    ]
    with pytest.raises(urllib.error.URLError):
        told(port, "/healthz")


def warned(caplog, **listeners):
    bound = [(name, Address(host, 9092)) for name, host in listeners.items()]
    broker = SimpleNamespace(bound=bound)
    serve._warn_of_open_listeners(broker)
    return caplog.messages


def test_listeners_that_strangers_reach_are_named_in_one_line(caplog):
    (line,) = warned(caplog, INSIDE="127.0.0.1", OUTSIDE="0.0.0.0", SIX="::", LAN="::1:5")
    assert line.startswith("OUTSIDE://0.0.0.0:9092, SIX://[::]:9092, LAN://[::1:5]:9092 can be")
    assert "authenticate" in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_nothing_is_said_of_a_listener_that_only_this_machine_reaches(caplog, host):
    assert warned(caplog, PLAINTEXT=host) == []
