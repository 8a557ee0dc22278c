"""What hundreds of clients can make a broker hold together, and who is held up by them.

Requests that are begun and never finished, answers that are never read: the broker's memory stays
within `queued.max.request.bytes` and a little, and an honest client is answered throughout.
"""

from __future__ import annotations

import contextlib
import re
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kits.metrics_page import scrape
from moldau.protocol.messages.metadata import ApiVersionsRequest
from moldau.server.handlers.fetch import CONVERTED_ANSWER_BYTES
from process.attack import FRAME_LIMIT, MIB, connect, healthy_client, request_bytes
from process.raw_client import batch_of, fetch_request
from process.serving import Serving

RESIDENT_MAX = 400_000_000
RECORD_SIZE = 900_000
CROWD = 300
OLD_FETCH = 2
"""Its clients read no version 2 batches: their answers are made in memory."""

GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Crowd:
    """Many connections that send some bytes each, read nothing, and come back when closed."""

    def __init__(self, broker: Serving, count: int, payload: bytes) -> None:
        self.closed = 0
        self._address = (broker.host, broker.port)
        self._payload = memoryview(payload)
        self._poll = select.poll()
        self._left: dict[int, tuple[socket.socket, memoryview]] = {}
        self._stop = threading.Event()
        for _ in range(count):
            self._open()

    def _open(self) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(self._address)
        sock.setblocking(False)
        self._left[sock.fileno()] = (sock, self._payload)
        self._poll.register(sock, select.POLLOUT | select.POLLRDHUP)

    def work(self) -> None:
        while not self._stop.is_set():
            for descriptor, events in self._poll.poll(50):
                sock, left = self._left[descriptor]
                try:
                    if events & GONE:
                        raise ConnectionResetError
                    left = left[sock.send(left) :]
                    self._left[descriptor] = (sock, left)
                    if not left:
                        self._poll.modify(sock, select.POLLRDHUP)
                except ConnectionError:
                    self.closed += 1
                    self._poll.unregister(descriptor)
                    sock.close()
                    self._open()
        for sock, _ in self._left.values():
            sock.close()

    @property
    def has_sent(self) -> int:
        """How many have sent all they had."""
        return sum(not left for _, left in list(self._left.values()))

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self.work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


@pytest.fixture(scope="module")
def page() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, page: str) -> Iterator[Serving]:
    # With a short backlog a crowd waits a second for each connection that does not fit.
    overrides = {"moldau.metrics.listen": page, "socket.listen.backlog.size": "1024"}
    with Serving(tmp_path_factory.mktemp("budget"), overrides=overrides) as running:
        with connect(running) as client:
            for topic in ("old", "frames", "answers"):
                assert client.create_topic(topic) == 0
            for _ in range(9):
                assert client.produce("old", batch_of([bytes(MIB - 1000)])).error_code == 0
        yield running


def check_closed(broker: Serving, crowd: Crowd, count: int, held: str) -> None:
    """Wait until so many of a crowd were closed; each has a line that says why."""
    eventually(lambda: crowd.closed >= count, f"{count} of the crowd are closed")
    closing = rf"WARN closing 127\.0\.0\.1:\d+: it held \d+ bytes of {held}"
    assert len(re.findall(closing, broker.errors)) >= count


def check_nothing_is_held(page: str) -> dict[str, float]:
    """Wait until the budget is whole again; return what the page says."""

    def look() -> dict[str, float] | None:
        told = {name: value for (name, labels), value in scrape(page).items() if not labels}
        return None if told["kafka_network_socketserver_memorypoolused"] else told

    return eventually(look, "nothing is held")


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048, reason="too few descriptors here"
)
def test_a_thousand_idle_connections_hold_nothing(broker, page):
    question = request_bytes(ApiVersionsRequest(), 0)
    before = check_nothing_is_held(page)
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(broker)) for _ in range(1000)]
        for client in idle:
            client.send_frame(question)
        for client in idle:
            client.read_frame()
        after = check_nothing_is_held(page)
    assert after["moldau_memory_waits_total"] == before["moldau_memory_waits_total"]


def test_requests_that_are_never_finished_hold_up_nobody(broker, page):
    crowd = Crowd(broker, CROWD, struct.pack(">i", FRAME_LIMIT) + bytes(MIB))
    with healthy_client(broker, "frames", RECORD_SIZE) as honest, crowd.at_work():
        check_closed(broker, crowd, 20, "an unfinished request")
        before = crowd.closed
        honest.check()
        assert crowd.closed - before < CROWD / 2, "it waited for the whole crowd"
        assert broker.resident_peak() < RESIDENT_MAX
    told = check_nothing_is_held(page)
    assert told["moldau_memory_closed_connections_total"] >= 20
    assert told["moldau_memory_waits_total"] >= 20


def test_converted_answers_that_are_never_read_hold_up_nobody(broker, page):
    question = request_bytes(fetch_request({("old", 0): 0}), OLD_FETCH)
    crowd = Crowd(broker, 75, struct.pack(">i", len(question)) + question)
    with healthy_client(broker, "answers", RECORD_SIZE) as honest, crowd.at_work():
        check_closed(broker, crowd, 3, "unread answers")
        honest.check()
        assert broker.resident_size() < RESIDENT_MAX
        assert broker.resident_peak() < RESIDENT_MAX
    check_nothing_is_held(page)


def test_an_old_client_reads_all_in_several_answers_and_every_partition_in_its_turn(broker):
    with connect(broker) as client:
        assert client.create_topic("wide", partitions=12) == 0
        for partition in range(12):
            batch = batch_of([bytes(MIB - 1000)])
            assert client.produce("wide", batch, partition).error_code == 0
        question = fetch_request({("wide", number): 0 for number in range(12)})
        seen = set()
        for _ in range(12):
            answer = client.call(question, OLD_FETCH)
            found = {
                partition.partition_index: len(partition.records)
                for topic in answer.responses
                for partition in topic.partitions
                if partition.records
            }
            assert 0 < sum(found.values()) <= CONVERTED_ANSWER_BYTES
            seen |= set(found)
        assert seen == set(range(12))
