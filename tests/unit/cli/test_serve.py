"""A broker's life as seen by those who watch it, and what it says of who can reach it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from kafka_harness.ports import free_port
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Address
from moldau.cli import serve
from moldau.cli.broker_options import load_settings
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings


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
    settings = load_settings(
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
    assert "without authentication" in line


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_nothing_is_said_of_a_listener_that_only_this_machine_reaches(caplog, host):
    assert warned(caplog, PLAINTEXT=host) == []


class Ignoring:
    """Takes what comes."""

    def received(self, data):
        return len(data)

    def drained(self): ...
    def closed(self, error): ...


def kernel_size(option, size=None):
    """Return what the kernel calls a buffer of a socket that was given this size."""
    with socket.socket() as one:
        if size is not None:
            one.setsockopt(socket.SOL_SOCKET, option, size)
        return one.getsockopt(socket.SOL_SOCKET, option)


def buffer_sizes(configs, option):
    """Return the sizes that a broker with these configs gives to both ends of a connection."""

    async def scenario():
        settings = BrokerSettings.load(None, configs, {})
        network = serve.make_network(settings, None, MemoryBudget())
        streams = []

        def accept(stream):
            streams.append(stream)
            return Ignoring()

        listener = await network.listen("127.0.0.1", 0, accept)
        ours = await network.connect(*listener.address, lambda stream: Ignoring())
        while not streams:  # noqa: ASYNC110 - it waits for a socket
            await asyncio.sleep(0)
        sizes = []
        for stream in (streams[0], ours):
            sizes.append(stream._socket.getsockopt(socket.SOL_SOCKET, option))
            stream.abort()
        listener.close()
        return sizes

    return asyncio.run(scenario())


def is_given(size, option, asked):
    # The kernel may size a socket by itself as soon as it is connected.
    return size == kernel_size(option, asked) if asked else size >= kernel_size(option)


@pytest.mark.parametrize(
    ("configs", "accepted", "opened"),
    [
        ({}, 102_400, None),
        ({"socket.receive.buffer.bytes": "30000"}, 30_000, None),
        ({"replica.socket.receive.buffer.bytes": "20000"}, 102_400, 20_000),
        ({"socket.receive.buffer.bytes": "-1"}, None, None),
    ],
)
def test_sockets_to_other_brokers_have_buffers_of_their_own(configs, accepted, opened):
    sizes = buffer_sizes(configs, socket.SO_RCVBUF)
    for size, asked in zip(sizes, (accepted, opened), strict=True):
        assert is_given(size, socket.SO_RCVBUF, asked)


@pytest.mark.parametrize("value", [None, "-1", "102400", "5000"])
def test_the_kernel_sizes_send_buffers_unless_a_size_is_set(value):
    configs = {} if value is None else {"socket.send.buffer.bytes": value}
    accepted, opened = buffer_sizes(configs, socket.SO_SNDBUF)
    asked = None if value in {None, "-1"} else int(value)
    assert is_given(accepted, socket.SO_SNDBUF, asked)
    assert is_given(opened, socket.SO_SNDBUF, None)
    if asked is None:
        assert accepted > kernel_size(socket.SO_SNDBUF, 102_400), "loopback gets more at once"
