"""The port for those who watch a broker: its pages, and what it does with hostile clients."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from http import HTTPStatus

import pytest

from moldau.observe import monitoring
from moldau.observe.monitoring import HEAD_BYTES, Health, MonitoringPort, parse, plain

TIMEOUT_S = 30


@pytest.fixture
def health():
    return Health()


@pytest.fixture
def port(health):
    def bug(request):
        raise LookupError("so it was")

    def metrics(request):
        return plain(HTTPStatus.OK, f"{request.query} {request.headers.get('accept')}")

    pages = {
        "/metrics": health.while_ready(metrics),
        "/healthz": health.healthz,
        "/readyz": health.readyz,
        "/bug": bug,
    }
    with closing(MonitoringPort("127.0.0.1", 0, pages)) as opened:
        yield opened.port


def ask(port, path, method="GET"):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)) as client:
        client.request(method, path, headers={"Accept": "text/x"})
        answer = client.getresponse()
        return answer.status, answer.read().decode()


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)


def said(client):
    """Read all that comes until the other end closes."""
    received = b""
    try:
        while chunk := client.recv(4096):
            received += chunk
    except ConnectionError:
        pass
    return received.decode()


def test_who_serves_is_ready_and_who_starts_or_stops_is_alive(port, health):
    for obstacle in ("starting", "stopping"):
        health.obstacle = obstacle
        assert ask(port, "/readyz") == (503, f"{obstacle}\n")
        assert ask(port, "/metrics") == (503, f"{obstacle}\n")
        assert ask(port, "/healthz") == (200, "ok\n")
    health.obstacle = None
    assert ask(port, "/readyz") == (200, "ready\n")
    assert ask(port, "/healthz") == (200, "ok\n")
    assert ask(port, "/metrics?name=x") == (200, "name=x text/x\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/readyz/x", "/favicon.ico", "//metrics"])
def test_nothing_else_is_there(port, path):
    status, text = ask(port, path)
    assert status == 404
    assert "/metrics" in text


def test_only_questions_are_answered(port):
    assert ask(port, "/healthz", "HEAD") == (200, "")
    assert ask(port, "/healthz", "DELETE")[0] == 405


def test_a_bug_in_a_page_is_logged_and_the_port_goes_on(port, caplog):
    assert ask(port, "/bug")[0] == 500
    assert "a bug while answering /bug" in caplog.messages
    assert ask(port, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET http://x/healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"\0\0\0\x12\0\x12\0\x03\0\0\0\0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(port, sent):
    with connect(port) as client:
        client.sendall(sent)
        assert said(client).startswith("HTTP/1.1 400 Bad Request\r\n")


def test_a_request_without_end_is_refused_when_it_is_too_large(port):
    with connect(port) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"x" * 2 * HEAD_BYTES)
        assert "431" in said(client)
    assert ask(port, "/healthz")[0] == 200


def test_a_silent_client_is_hung_up_on(port, monkeypatch):
    monkeypatch.setattr(monitoring, "CONNECTION_S", 0.01)
    with connect(port) as client:
        client.sendall(b"GET /heal")
        assert said(client) == ""


def test_silent_clients_make_room_for_others_the_oldest_first(port):
    clients = [connect(port) for _ in range(monitoring.CONNECTIONS_MAX + 3)]
    assert ask(port, "/healthz")[0] == 200
    assert said(clients[0]) == ""
    clients[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert said(clients[-1]).endswith("ok\n")
    for client in clients:
        client.close()


def test_closing_hangs_up_and_gives_the_port_back(health):
    opened = MonitoringPort("127.0.0.1", 0, {"/healthz": health.healthz})
    number = opened.port
    with connect(number) as client:
        assert ask(number, "/healthz")[0] == 200
        opened.close()
        assert said(client) == ""
    MonitoringPort("127.0.0.1", number, {}).close()


def test_a_port_that_is_taken_is_an_error(port):
    with pytest.raises(OSError):
        MonitoringPort("127.0.0.1", port, {})


def test_a_request_is_taken_apart():
    request = parse(b"GET /metrics?name[]=up HTTP/1.1\r\nHost: x\r\nACCEPT:  a, b \r\n\r\n")
    assert request == ("GET", "/metrics", "name[]=up", {"host": "x", "accept": "a, b"})
