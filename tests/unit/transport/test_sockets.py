"""What only real sockets can do wrong."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import select
import socket

import pytest

from kits.hand_executor import HandExecutor
from moldau.base.files import FileRegion
from moldau.storage.disk import Disk
from moldau.transport import sockets
from moldau.transport import stream as streams
from moldau.transport.buffers import SHARED_BUFFER_SIZE
from moldau.transport.one_piece import PIECE_SIZE_MAX
from moldau.transport.readiness import EpollReadiness, LoopReadiness
from moldau.transport.sockets import SocketNetwork
from moldau.transport.stream import REGIONS_PER_TURN, SENDFILE_CHUNK

needs_epoll = pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll here")


class Keeper:
    """Takes a byte of what comes, and keeps hold of the rest, which it must not."""

    def __init__(self, stream):
        self.stream = stream
        self.kept = []
        self.ended = asyncio.get_running_loop().create_future()

    def received(self, data):
        self.kept.append(pickle.PickleBuffer(data))
        return 1

    def drained(self):
        """Hear of nothing."""

    def closed(self, error):
        self.ended.set_result(error)


def adopt(network, make, *, accepted=True):
    """Return our end of a connection, whoever owns it, and the other one."""
    near, far = socket.socketpair()
    owners = []

    def accept(stream):
        owners.append(make(stream))
        return owners[0]

    return network.adopt(near, accept, accepted=accepted), owners[0], far


@pytest.fixture
def addresses(monkeypatch):
    """Unnamed sockets stand for those of a network."""
    monkeypatch.setattr(streams, "address_of", lambda name: "somewhere")


@pytest.mark.usefixtures("addresses")
def test_who_keeps_what_it_was_shown_loses_its_stream(caplog):
    async def scenario():
        _, owner, far = adopt(SocketNetwork(), Keeper)
        with far:
            far.send(b"abc")
            assert isinstance(await owner.ended, BufferError)
        owner.kept.clear()

    asyncio.run(scenario())
    assert "a bug while handling what it sent" in caplog.text


@pytest.mark.usefixtures("addresses")
def test_a_stream_that_cannot_be_watched_is_closed_again(monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario():
        stream, owner, far = adopt(SocketNetwork(), Keeper)
        with far:
            assert stream is None
            assert await owner.ended is None
            assert far.recv(1) == b""

    monkeypatch.setattr(EpollReadiness, "add_reader", refuse)
    asyncio.run(scenario())
    assert "cannot be watched: Too many open files" in caplog.text


class Speaker:
    """Does as it is told whenever something comes."""

    def __init__(self, stream, speak):
        self.stream = stream
        self.speak = speak
        self.drains = 0
        self.ends = []
        self.ended = asyncio.get_running_loop().create_future()

    def received(self, data):
        self.speak(self.stream)
        return len(data)

    def drained(self):
        self.drains += 1

    def closed(self, error):
        self.ends.append(error)
        if not self.ended.done():
            self.ended.set_result(error)


def heard_from(speak, *, size):
    """Return what a speaker has said in answer to one byte, so many bytes of it, and its drains."""

    async def scenario():
        stream, owner, far = adopt(SocketNetwork(), lambda stream: Speaker(stream, speak))
        far.setblocking(False)
        loop = asyncio.get_running_loop()
        with far:
            await loop.sock_sendall(far, b"?")
            said = b""
            while len(said) < size:
                piece = await asyncio.wait_for(loop.sock_recv(far, 1 << 16), 10)
                if not piece:
                    break
                said += piece
            stream.abort()
            assert await owner.ended is None
        return said, owner.drains

    return asyncio.run(scenario())


def say(*sayings):
    def speak(stream):
        for parts in sayings:
            stream.send(parts)

    return speak


@pytest.fixture(params=[pytest.param(EpollReadiness, marks=needs_epoll), LoopReadiness])
def watching(monkeypatch, request):
    """Streams are watched by an epoll of their own, and by the loop alone."""
    monkeypatch.setattr(sockets, "readiness_of", request.param)


def say_and_close(stream):
    stream.send([b"bye"])
    stream.close()


@pytest.mark.usefixtures("addresses", "watching")
@pytest.mark.parametrize(
    "speak",
    [
        say([b"one"], [b"two"], [b"three"]),
        say([b"one"], [b"two", b"three"]),
        say([b"one", b"two"], [b"three"]),
        say([b"one"], [], [bytearray(b"twothree")]),
    ],
)
def test_what_is_said_in_one_turn_goes_out_in_its_order(speak):
    assert heard_from(speak, size=11) == (b"onetwothree", 0)


@pytest.mark.usefixtures("addresses", "watching")
def test_what_was_said_before_closing_is_sent():
    assert heard_from(say_and_close, size=100) == (b"bye", 0)


@pytest.mark.usefixtures("addresses", "watching")
@pytest.mark.parametrize("rest", [[], [[b"end"]], [[b"e", b"nd"]]])
def test_what_the_socket_does_not_take_at_once_follows_in_its_order(rest):
    large = bytes(range(256)) * 16_384
    whole = large + b"".join(b"".join(parts) for parts in rest)
    said, drains = heard_from(say([large], *rest), size=len(whole))
    assert said == whole
    assert drains == 1


@pytest.mark.usefixtures("addresses", "watching")
@pytest.mark.parametrize("sayings", [[[b"one"]], [[b"one"], [b"two"]], [[b"one", b"two"]]])
def test_saying_something_to_nobody_ends_the_stream_once(sayings):
    async def scenario():
        def speak(stream):
            far.close()
            say(*sayings)(stream)

        _, owner, far = adopt(SocketNetwork(), lambda stream: Speaker(stream, speak))
        far.send(b"?")
        await asyncio.wait_for(owner.ended, 10)
        await asyncio.sleep(0)
        (error,) = owner.ends
        assert isinstance(error, BrokenPipeError)

    asyncio.run(scenario())


@pytest.mark.usefixtures("addresses")
def test_one_that_is_ended_by_another_in_its_row_says_nothing_more():
    async def scenario():
        network, said = SocketNetwork(), []

        def speak(stream):
            said.append(stream)
            stream.send([b"one"])
            if len(said) == 2:
                said[0].abort()

        pairs = [adopt(network, lambda stream: Speaker(stream, speak)) for _ in range(2)]
        for _, _, far in pairs:
            far.send(b"?")
        for _ in range(5):
            await asyncio.sleep(0)
        heard = {stream: far.recv(100) for stream, _, far in pairs}
        assert [heard[stream] for stream in said] == [b"", b"one"]
        said[1].abort()
        for _, _, far in pairs:
            far.close()

    asyncio.run(scenario())


class Whole:
    """Waits for a whole frame of this size, and answers it."""

    def __init__(self, stream, size):
        self.stream = stream
        self.size = size

    def received(self, data):
        if len(data) < self.size:
            self.stream.expect(self.size)
            return 0
        self.stream.send([b"done"])
        return self.size

    def drained(self):
        """Hear of nothing."""

    def closed(self, error):
        """Hear of nothing."""


class Watched(EpollReadiness):
    """Counts what was to be called behind others."""

    __slots__ = ("behind",)

    def __init__(self, loop):
        super().__init__(loop)
        self.behind = 0

    def call_after_batch(self, callback):
        self.behind += 1
        super().call_after_batch(callback)


@needs_epoll
@pytest.mark.usefixtures("addresses")
@pytest.mark.parametrize(
    ("accepted", "size", "behind"),
    [(True, 1000, 1), (True, SHARED_BUFFER_SIZE + 1, 0), (False, 1000, 0)],
)
def test_answers_to_small_frames_alone_wait_for_others(monkeypatch, accepted, size, behind):
    async def scenario():
        loop = asyncio.get_running_loop()
        readiness = Watched(loop)
        monkeypatch.setattr(sockets, "readiness_of", lambda _: readiness)
        stream, _, far = adopt(
            SocketNetwork(), lambda stream: Whole(stream, size), accepted=accepted
        )
        far.setblocking(False)
        with far:
            await loop.sock_sendall(far, bytes(size))
            assert await asyncio.wait_for(loop.sock_recv(far, 100), 10) == b"done"
        stream.abort()
        assert readiness.behind == behind

    asyncio.run(scenario())


@pytest.mark.usefixtures("addresses")
def test_of_many_file_regions_some_are_sent_in_a_turn(tmp_path):
    async def scenario():
        loop = asyncio.get_running_loop()
        file = Disk().open(str(tmp_path / "segment"), create=True)
        file.append([b"0123456789"])
        stream, _, far = adopt(SocketNetwork(), lambda stream: Whole(stream, 1), accepted=True)
        far.setblocking(False)
        count = 3 * REGIONS_PER_TURN
        with far:
            stream.send([FileRegion(file, 2, 3)] * count)
            assert stream.unsent == 3 * (count - REGIONS_PER_TURN)
            received = b""
            while len(received) < 3 * count:
                received += await asyncio.wait_for(loop.sock_recv(far, 10_000), 10)
        assert received == b"234" * count
        assert stream.unsent == 0
        stream.abort()
        file.close()

    asyncio.run(scenario())


class FileReadAhead:
    """A file whose reader is to be read ahead of once."""

    def __init__(self, file):
        self.path = file.path
        self.intact_end = file.intact_end
        self.fileno = file.fileno
        self.asked = []
        self.started = []
        self.read_ahead = self.started.append

    def resident(self, position, size):
        return True

    def read_ahead_from(self, position):
        self.asked.append(position)
        return 4711 if len(self.asked) == 2 else None


@pytest.mark.usefixtures("addresses")
def test_the_disk_reads_ahead_in_a_thread_while_a_region_is_sent(tmp_path):
    size = 3 * SENDFILE_CHUNK

    async def scenario():
        loop = asyncio.get_running_loop()
        file = Disk().open(str(tmp_path / "segment"), create=True)
        file.append([bytes(size)])
        cold, executor = FileReadAhead(file), HandExecutor()
        stream, _, far = adopt(
            SocketNetwork(executor), lambda stream: Whole(stream, 1), accepted=True
        )
        far.setblocking(False)
        with far:
            stream.send([FileRegion(cold, 0, size)])
            received = 0
            while received < size:
                received += len(await asyncio.wait_for(loop.sock_recv(far, 1_000_000), 10))
        assert cold.asked == [0, SENDFILE_CHUNK, 2 * SENDFILE_CHUNK]
        assert not cold.started, "it was not called on the loop"
        executor.go()
        assert cold.started == [4711]
        assert not executor.waiting
        stream.abort()
        file.close()

    asyncio.run(scenario())


def sends_of_an_answer(monkeypatch, tmp_path, region_size, *, is_resident):
    """Send an answer with a file region; return what sent it, and what arrived."""
    calls = []

    def sendfile(*arguments):
        calls.append("sendfile")
        return os_sendfile(*arguments)

    def preadv(descriptor, buffers, position, flags=0):
        if not is_resident and flags and len(buffers[0]) > 1:
            raise BlockingIOError
        return os_preadv(descriptor, buffers, position, flags)

    os_sendfile, os_preadv = os.sendfile, os.preadv
    monkeypatch.setattr(os, "sendfile", sendfile)
    monkeypatch.setattr(os, "preadv", preadv)

    async def scenario():
        loop = asyncio.get_running_loop()
        file = Disk().open(str(tmp_path / "segment"), create=True)
        file.append([b"." + b"x" * region_size])
        stream, _, far = adopt(SocketNetwork(), lambda stream: Whole(stream, 1), accepted=True)
        far.setblocking(False)
        with far:
            stream.send([b"head", FileRegion(file, 1, region_size), b"tail"])
            received = b""
            while len(received) < region_size + 8:
                received += await asyncio.wait_for(loop.sock_recv(far, 100_000), 10)
                calls.append("received")
        assert received == b"head" + b"x" * region_size + b"tail"
        assert stream.unsent == 0
        stream.abort()
        file.close()

    asyncio.run(scenario())
    return calls


@pytest.mark.usefixtures("addresses")
def test_a_small_answer_with_a_file_region_arrives_in_one_piece(monkeypatch, tmp_path):
    """A follower or a consumer would wake up twice for it otherwise."""
    sent = sends_of_an_answer(monkeypatch, tmp_path, 1000, is_resident=True)
    assert sent == ["received"]


@pytest.mark.usefixtures("addresses")
@pytest.mark.parametrize(("size", "is_resident"), [(1000, False), (PIECE_SIZE_MAX, True)])
def test_a_large_region_or_one_on_the_disk_is_sent_from_its_file(
    monkeypatch, tmp_path, size, is_resident
):
    sent = sends_of_an_answer(monkeypatch, tmp_path, size, is_resident=is_resident)
    assert sent[0] == "sendfile"
