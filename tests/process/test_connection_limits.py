"""How many connections a broker takes, how long a silent one stays, how large a request may be."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

import pytest

from kafka_harness.waiting import eventually
from moldau.protocol.messages.metadata import ApiVersionsRequest
from process.raw_client import RawClient
from process.serving import Serving


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    limits = {
        "max.connections.per.ip": "3",
        "max.connections": "5",
        "connections.max.idle.ms": "1000",
        "socket.request.max.bytes": "2000",
    }
    with Serving(tmp_path_factory.mktemp("strict"), overrides=limits) as running:
        yield running


def knock(broker: Serving, source: str) -> RawClient | None:
    """Connect from an address of the loopback network; None if the broker does not want us."""
    client = RawClient((broker.host, broker.port), source=source)
    try:
        client.call(ApiVersionsRequest("raw", "1"), 3)
    except ConnectionError:
        client.socket.close()
        return None
    return client


def test_connections_beyond_a_limit_are_refused_until_there_is_room(strict):
    with contextlib.ExitStack() as stack:

        def stay(source: str) -> bool:
            client = knock(strict, source)
            if client is not None:
                stack.enter_context(client)
            return client is not None

        assert [stay("127.0.0.1") for _ in range(4)] == [True, True, True, False]
        assert [stay("127.0.0.2") for _ in range(3)] == [True, True, False]
        lines = [line for line in strict.errors.splitlines() if "refusing" in line]
        assert len(lines) == 2
        assert "max.connections.per.ip" in lines[0]
        assert lines[1].partition(" (")[0].endswith("max.connections")
    client = eventually(lambda: knock(strict, "127.0.0.1"), "there is room again")
    client.socket.close()


def test_a_silent_connection_is_closed_and_a_talking_one_is_not(strict):
    silent = eventually(lambda: knock(strict, "127.0.0.3"), "a connection")
    talking = eventually(lambda: knock(strict, "127.0.0.3"), "a connection")
    with silent, talking:
        silent.socket.settimeout(0.05)
        while True:
            talking.call(ApiVersionsRequest("raw", "1"), 3)
            with contextlib.suppress(TimeoutError):
                assert silent.was_closed()
                break
        assert talking.call(ApiVersionsRequest("raw", "1"), 3).error_code == 0


def test_a_request_beyond_its_limit_closes_the_connection_before_it_is_sent(strict):
    client = eventually(lambda: knock(strict, "127.0.0.4"), "a connection")
    with client:
        client.send_bytes(struct.pack(">i", 2001))
        assert client.was_closed()
    assert "2001" in strict.errors
    assert "Traceback" not in strict.errors
