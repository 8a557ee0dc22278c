"""Streams under a budget of a few MiB: who is read from, who waits, what is given back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import zlib

import pytest

from moldau.base.memory_budget import MIB, PATIENCE_TICKS, MemoryBudget
from moldau.transport import buffers as receive_buffers
from moldau.transport import memory_watch
from moldau.transport.buffers import LEAST_POOLED_SIZE, SHORT_READ_SIZE, BufferPool, rounded
from moldau.transport.sockets import SocketNetwork

PIECE = 100_000
"""Less than a socket takes at once."""


class Framed:
    """Answers each whole frame with its checksum, or with what it is told to."""

    def __init__(self, stream, answer):
        self.stream = stream
        self.answer = answer or (lambda body: [struct.pack(">I", zlib.crc32(body))])
        self.seen = 0
        self.ended = asyncio.get_running_loop().create_future()

    def received(self, data):
        self.seen = max(self.seen, len(data))
        position = 0
        while len(data) - position >= 4:
            (size,) = struct.unpack_from(">I", data, position)
            end = position + 4 + size
            if end > len(data):
                self.stream.expect(end - position)
                break
            self.stream.send(self.answer(data[position + 4 : end]))
            position = end
        return position

    def drained(self):
        """Hear of nothing."""

    def closed(self, error):
        self.ended.set_result(error)


class Side:
    """A port that frames come to, and the budget behind it."""

    def __init__(self, limit=12 * MIB, answer=None):
        self.budget = MemoryBudget(limit, largest_request=4 * MIB)
        self.network = SocketNetwork(memory=self.budget)
        self.answer = answer
        self.owners = {}

    def accept(self, stream):
        owner = self.owners[stream.peer.port] = Framed(stream, self.answer)
        return owner

    async def __aenter__(self):
        self.listener = await self.network.listen("127.0.0.1", 0, self.accept)
        self.stack = contextlib.AsyncExitStack()
        return self

    async def __aexit__(self, *_):
        await self.stack.aclose()
        self.listener.close()
        for owner in self.owners.values():
            owner.stream.abort()
        assert self.budget.held == 0
        assert self.budget.waiting == 0

    async def connect(self):
        """Return a peer and the stream's owner on our side."""
        reader, writer = await asyncio.open_connection(*self.listener.address)
        self.stack.callback(writer.close)
        port = port_of(writer)
        await until(lambda: port in self.owners)
        return reader, writer, self.owners[port]

    async def begin(self, size, sent=PIECE):
        """Connect, and send a part of a frame that is announced to be so large."""
        reader, writer, owner = await self.connect()
        body = random.Random(size).randbytes(size)
        writer.write(struct.pack(">I", size) + body[:sent])
        await until(lambda: owner.seen > 0)
        return Begun(reader, writer, owner, body, sent)


class Begun:
    """A frame on its way."""

    def __init__(self, reader, writer, owner, body, sent):
        self.reader, self.writer, self.owner = reader, writer, owner
        self.body, self.sent = body, sent

    @property
    def request(self):
        return self.owner.stream.memory.request

    @property
    def held(self):
        return self.request.held

    async def send(self, size):
        """Send some more, and wait until it was read."""
        self.writer.write(self.body[self.sent : self.sent + size])
        self.sent += size
        await until(lambda: self.owner.seen >= self.sent + 4)

    async def finish(self):
        """Send the rest and wait for the answer."""
        self.writer.write(self.body[self.sent :])
        (answer,) = struct.unpack(">I", await asyncio.wait_for(self.reader.readexactly(4), 30))
        assert answer == zlib.crc32(self.body)


def port_of(writer):
    return writer.get_extra_info("sockname")[1]


async def until(look):
    async with asyncio.timeout(30):
        while not look():  # noqa: ASYNC110 - it waits for a socket
            await asyncio.sleep(0)


def run(scenario, **options):
    async def inside():
        async with Side(**options) as side:
            await scenario(side)

    asyncio.run(inside())


def test_a_frame_that_does_not_fit_is_read_when_another_is_done():
    async def scenario(side):
        first, turn, waiting = [await side.begin(MIB) for _ in range(3)]
        await until(lambda: side.budget.waiting)
        assert first.held == turn.held == rounded(MIB + 4)
        assert side.budget.waits == 1
        waiting.writer.write(waiting.body[PIECE:])
        waiting.sent = MIB
        for _ in range(20):
            await asyncio.sleep(0)
        # Not more was read than the first piece of it.
        assert waiting.owner.seen <= PIECE + 4
        assert waiting.held <= rounded(PIECE + 5)
        await first.finish()
        await waiting.finish()
        await turn.finish()

    run(scenario)


def test_small_frames_go_through_while_memory_is_short():
    async def scenario(side):
        for _ in range(3):
            await side.begin(MIB)
        await until(lambda: side.budget.is_short)
        small = await side.begin(SHORT_READ_SIZE // 2, sent=SHORT_READ_SIZE // 2)
        await small.finish()
        late = await side.begin(MIB)
        assert late.owner.seen <= SHORT_READ_SIZE
        assert late.held <= rounded(SHORT_READ_SIZE + 1)

    run(scenario)


def test_one_that_sends_nothing_more_is_closed_for_those_that_wait(monkeypatch, caplog):
    monkeypatch.setattr(memory_watch, "TICK_S", 0.01)

    async def scenario(side):
        silent = [await side.begin(MIB) for _ in range(2)]
        waiting = await side.begin(MIB)
        await waiting.finish()
        closed = [one for one in silent if one.owner.ended.done()]
        assert closed
        (line, *_) = [record for record in caplog.records if "closing" in record.message]
        assert line.levelname == "WARNING"
        names = [f"127.0.0.1:{port_of(one.writer)}" for one in closed]
        assert any(f"closing {name}: it held 1310720 bytes" in line.message for name in names)

    run(scenario)


def test_one_that_goes_on_sending_is_not_closed(monkeypatch):
    monkeypatch.setattr(memory_watch, "TICK_S", 60)  # this test makes the ticks

    async def scenario(side):
        first, turn, _ = [await side.begin(MIB) for _ in range(3)]
        await until(lambda: side.budget.waiting)
        for _ in range(3 * PATIENCE_TICKS):
            await asyncio.gather(first.send(50_000), turn.send(50_000))
            assert side.budget.tick() == []
        found = [eviction for _ in range(PATIENCE_TICKS + 1) for eviction in side.budget.tick()]
        assert found[0].holding in (first.request, turn.request)

    run(scenario)


def test_the_turn_is_given_up_after_each_frame():
    async def scenario(side):
        _, turn, waiting = [await side.begin(MIB) for _ in range(3)]
        await until(lambda: side.budget.waiting)
        assert side.budget.small.turn is turn.request
        turn.writer.write(turn.body[turn.sent :] + struct.pack(">I", MIB) + bytes(PIECE))
        await turn.reader.readexactly(4)
        await waiting.finish()
        assert side.budget.small.turn is not turn.request

    run(scenario)


def test_a_large_frame_grows_with_what_arrives_and_arrives_whole():
    async def scenario(side):
        large = await side.begin(4 * MIB - 4)
        assert large.held == 2 * MIB
        await large.finish()
        await until(lambda: side.budget.held == 0)

    run(scenario)


def test_what_follows_a_large_frame_does_not_hold_its_buffer():
    async def scenario(side):
        large = await side.begin(3 * MIB)
        large.body += b"\0"  # the first byte of the next frame
        large.writer.write(large.body[large.sent :])
        await large.reader.readexactly(4)
        await until(lambda: large.owner.stream.memory.request.held <= rounded(1))
        large.writer.write(struct.pack(">I", 5)[1:] + b"hello")
        (answer,) = struct.unpack(">I", await large.reader.readexactly(4))
        assert answer == zlib.crc32(b"hello")
        await until(lambda: side.budget.held == 0)

    run(scenario)


def test_answers_count_until_the_peer_has_taken_them_whole():
    answer = bytes(32 * MIB)

    async def scenario(side):
        reader, writer, owner = await side.connect()
        writer.write(struct.pack(">I", 0))
        await until(lambda: owner.stream.unsent)
        held = owner.stream.memory.answer
        assert held.held == len(answer)
        await reader.readexactly(4 * MIB)
        assert held.held == len(answer), "a part of a buffer lives as long as the rest"
        await reader.readexactly(28 * MIB)
        await until(lambda: side.budget.held == 0)

    run(scenario, limit=256 * MIB, answer=lambda _: [answer])


def test_one_that_goes_on_reading_is_not_closed(monkeypatch):
    monkeypatch.setattr(memory_watch, "TICK_S", 60)  # this test makes the ticks

    async def scenario(side):
        reader, writer, owner = await side.connect()
        writer.write(struct.pack(">I", 0))
        await until(lambda: owner.stream.unsent)
        assert side.budget.needs_ticks
        while owner.stream.unsent:
            await reader.readexactly(3 * MIB)
            assert side.budget.tick() == []

    run(scenario, limit=64 * MIB, answer=lambda _: [bytes(64 * MIB)])


def test_answers_that_nobody_reads_are_forgotten_by_the_kernel_too(monkeypatch):
    monkeypatch.setattr(memory_watch, "TICK_S", 0.01)

    async def scenario(side):
        reader, writer, owner = await side.connect()
        writer.write(struct.pack(">I", 0))
        assert await asyncio.wait_for(owner.ended, 30) is None
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(32 * MIB)

    run(scenario, answer=lambda _: [bytes(16 * MIB), bytes(16 * MIB)])


def test_whatever_comes_together_is_answered_in_the_end(monkeypatch):
    """Frames of all sizes, in pieces of all sizes, with room for a few of them."""
    monkeypatch.setattr(memory_watch, "TICK_S", 60)
    draw = random.Random(20)
    frames = [[draw.randbytes(draw.choice([0, 99, 70_000, MIB, 3 * MIB])) for _ in range(6)]
              for _ in range(16)]  # fmt: skip

    async def talk(side, bodies):
        reader, writer, _ = await side.connect()

        async def send():
            data = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
            position = 0
            while position < len(data):
                piece = draw.choice([3, 5000, 300_000])
                writer.write(data[position : position + piece])
                position += piece
                await writer.drain()

        sending = asyncio.create_task(send())
        for body in bodies:
            (answer,) = struct.unpack(">I", await reader.readexactly(4))
            assert answer == zlib.crc32(body)
        await sending

    async def scenario(side):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for bodies in frames:
                group.create_task(talk(side, bodies))
        assert side.budget.waits > 0
        await until(lambda: side.budget.held == 0)

    run(scenario)


# The pool


def test_buffers_are_kept_for_the_next_one_within_the_budget():
    budget = MemoryBudget(8 * MIB, largest_request=4 * MIB)
    pool = BufferPool(budget)
    buffers = [pool.take(2 * MIB) for _ in range(5)]
    for buffer in buffers:
        pool.give(buffer)
    assert pool.take(2 * MIB) in buffers[:4]
    assert pool.kept == 6 * MIB
    budget.held = 4 * MIB
    pool.take(MIB)
    assert pool.kept == 4 * MIB


def test_what_is_kept_never_adds_to_the_most_that_was_lent_at_once():
    pool, most = BufferPool(MemoryBudget()), LEAST_POOLED_SIZE
    for size in (4 * MIB, MIB, 6 * MIB, MIB // 2, 4 * MIB):
        buffers = [pool.take(size), pool.take(size)]
        most = max(most, 2 * size)
        assert 2 * size + pool.kept <= most
        for buffer in buffers:
            pool.give(buffer)
        assert 2 * size <= pool.kept <= most


def test_a_kept_buffer_is_taken_for_a_smaller_frame():
    pool = BufferPool(MemoryBudget())
    kept = pool.take(2 * MIB)
    pool.give(kept)
    assert pool.fitting(rounded(MIB + 1)) == 2 * MIB
    assert pool.take(2 * MIB) is kept
    assert pool.fitting(rounded(MIB + 1)) == rounded(MIB + 1), "nothing is kept"


def test_a_kept_buffer_is_not_taken_for_a_much_smaller_frame():
    pool = BufferPool(MemoryBudget())
    pool.give(pool.take(2 * MIB))
    assert pool.fitting(MIB // 2) == 2 * MIB
    assert pool.fitting(MIB // 4) == MIB // 4
    assert pool.fitting(3 * MIB) == 3 * MIB


def test_frames_of_one_connection_find_their_buffers_again(monkeypatch):
    made = []
    allocate = receive_buffers._allocate
    monkeypatch.setattr(
        receive_buffers, "_allocate", lambda size: made.append(size) or allocate(size)
    )
    pool, chance = BufferPool(MemoryBudget()), random.Random(1)
    for _ in range(1000):
        size = pool.fitting(rounded(chance.randrange(50_000, MIB)))
        pool.give(pool.take(size))
    assert len(made) < 20


def test_a_smaller_frame_is_charged_for_all_of_the_kept_buffer_that_it_takes():
    async def scenario(side):
        larger = await side.begin(2 * MIB - 4)
        await larger.finish()
        smaller = await side.begin(MIB)
        assert smaller.held == 2 * MIB
        await smaller.finish()

    run(scenario)


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 131_072, MIB, MIB + 1, 100 * MIB + 4])
def test_a_buffer_is_at_most_a_quarter_larger_than_what_it_is_for(size):
    assert size <= rounded(size) <= max(16_384, size * 5 // 4 + 1)


def test_a_buffer_that_somebody_still_looks_at_grows_by_a_copy():
    pool = BufferPool(MemoryBudget())
    buffer = pool.take(rounded(MIB))
    buffer[:5] = b"begun"
    with memoryview(buffer):  # as a traceback keeps it
        grown = pool.grow(buffer, 5, rounded(2 * MIB))
    assert bytes(grown[:5]) == b"begun"
    assert len(grown) == rounded(2 * MIB)


class Lending(Framed):
    """Keeps the frames it is shown where they lie, each with what gives its buffer back."""

    def __init__(self, stream):
        super().__init__(stream, self.take)
        self.lent = []

    def take(self, body):
        self.lent.append((body, self.stream.lend()))
        return [b"done"]


class LendingSide(Side):
    def accept(self, stream):
        owner = self.owners[stream.peer.port] = Lending(stream)
        return owner


def test_a_buffer_that_is_lent_is_left_alone_until_it_is_given_back():
    first, second = random.Random(1).randbytes(MIB), random.Random(2).randbytes(MIB)

    async def scenario():
        async with LendingSide() as side:
            reader, writer, owner = await side.connect()
            for body in (first, second):
                writer.write(struct.pack(">I", MIB) + body)
                await reader.readexactly(4)
            assert [bytes(body) for body, _ in owner.lent] == [first, second]
            assert side.budget.held == 0
            pool = owner.stream._pool
            assert pool.kept == 0
            for _, give_back in owner.lent:
                give_back()
            assert pool.kept == 2 * rounded(MIB + 4)
            writer.write(struct.pack(">I", MIB) + second)
            await reader.readexactly(4)
            assert pool.kept == rounded(MIB + 4)

    asyncio.run(scenario())


def test_the_shared_buffer_is_not_lent():
    async def scenario():
        async with LendingSide() as side:
            reader, writer, owner = await side.connect()
            writer.write(struct.pack(">I", 3) + b"abc")
            await reader.readexactly(4)
            assert owner.lent[0][1] is None

    asyncio.run(scenario())
