"""One stream over a plain non-blocking socket: reading in place, sending buffers and files.

A stream owns its socket and has it watched directly (`readiness`), instead of going through an
asyncio transport, for two reasons: frames are handled in place as they arrive, and a region of a
file goes from the page cache to the socket by `sendfile` without passing through Python.

Reading uses one large buffer shared by all streams, because most reads end on a frame boundary
and leave nothing behind; only a stream in the middle of a frame holds a buffer of its own, taken
from a pool, so that thousands of quiet connections cost no memory. Those buffers, and answers that
the socket does not take, are charged to the memory budget of the network (`base.memory_budget`). A
stream that is refused a larger buffer is not read from until it is granted; it does not hear of
its peer's end before that.

`sendfile` from pages that are not in memory would stop the whole loop for the time of a disk read.
A region is therefore sent only while it is resident; otherwise the executor warms it first, and
keeps the disk ahead of the reader from then on. Who sends no files, as a client, needs no executor.
A small answer is sent in one call (`one_piece`).

This module knows nothing of Kafka, nor of how the socket came to be connected.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

from moldau.base.checks import invariant
from moldau.base.errors import MoldauError
from moldau.base.executor import Executor
from moldau.base.files import Buffer, File, FileRegion, check_intact
from moldau.base.memory_budget import SMALL_REQUEST_BYTES, MemoryAccount
from moldau.base.network import Accept, Address, Nobody, Part, Receiver, Stream
from moldau.transport.buffers import BufferPool, OwnBuffer, rounded
from moldau.transport.one_piece import Descriptor, one_piece
from moldau.transport.readiness import Readiness

logger = logging.getLogger(__name__)

FIRST_ROOM: Final = SMALL_REQUEST_BYTES
"""What a frame gets at once, if it is announced as large: most get all they need. Pages that are
not filled take no memory, so that a frame that is never sent costs little (CVE-2022-34917)."""

GROWTH: Final = 2
"""A larger frame gets room for this many times what has arrived of it. It is grown in place."""

KEPT_BUFFER_SIZE: Final = SMALL_REQUEST_BYTES
"""A buffer up to this size is kept for the next frame, however small that begins."""

SMALLEST_ANSWER_CHARGED: Final = 16 * 1024
"""A stream that holds less in answers is not worth an account: file regions have small headers."""

SENDFILE_CHUNK: Final = 1024 * 1024
"""How far ahead residency is asked for: one probe per this many bytes."""

REGIONS_PER_TURN: Final = 100
"""File regions that one stream sends before others get their turn: a fetch may have found some in
ten thousand partitions, and each takes two or three calls of the kernel."""

VECTOR_COUNT_MAX: Final = 512
"""Below the kernel's limit of 1024 buffers a call."""


class SocketStream:
    """One connected socket. Owned by the event loop's thread."""

    __slots__ = (
        "_account",
        "_ahead",
        "_buffer",
        "_buffered",
        "_closing",
        "_executor",
        "_expected",
        "_fd",
        "_filled",
        "_head_size",
        "_held",
        "_holds",
        "_loop",
        "_paused",
        "_pool",
        "_queue",
        "_readiness",
        "_receiver",
        "_resident_end",
        "_socket",
        "_starving",
        "_waited",
        "_warming",
        "_writing",
        "local",
        "peer",
        "unsent",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        readiness: Readiness,
        sock: socket.socket,
        pool: BufferPool,
        executor: Executor | None,
        *,
        accepted: bool,
    ) -> None:
        """Take a connected socket. Streams that were accepted answer, and may do so together."""
        self._loop = loop
        self._readiness = readiness
        self._socket: socket.socket | None = sock
        self._fd = sock.fileno()
        self._pool = pool
        self._executor = executor
        self._account: MemoryAccount | None = None
        self._ahead: asyncio.Future[None] | None = None
        """The disk is being asked to read ahead; held here, or it could be collected."""
        self._buffer: OwnBuffer | None = None
        self._starving = False
        """Not read from until its buffer may grow."""
        self._filled = 0
        self._expected = 0
        self._holds = accepted
        self._held: bytes | None = None
        """Goes out behind a row of streams; nothing is queued while it is there."""
        self._queue: deque[Part] = deque()
        self._resident_end = 0
        """Up to here the file region at the head of the queue is known to be in memory."""
        self.unsent = 0
        self._buffered = 0
        """Bytes of the buffers in the queue, sent parts of the first one included."""
        self._head_size = 0
        """The whole size of the first one, if a part of it was sent."""
        self._writing = False
        self._warming = False
        self._waited = False
        self._paused = False
        self._closing = False
        self.peer = address_of(sock.getpeername())
        self.local = address_of(sock.getsockname())
        self._receiver: Receiver = Nobody()

    def start(self, accept: Accept) -> None:
        """Hand the stream to its owner and begin to read."""
        self._receiver = accept(cast("Stream", self))
        if self._socket is not None and not self._paused:
            self._readiness.add_reader(self._fd, self._readable)

    # Reading

    def _readable(self) -> None:
        sock, own = self._socket, self._buffer
        if sock is None:
            return
        try:
            if own is None:
                target = self._pool.shared
                filled = count = sock.recv_into(target)
            else:
                target = memoryview(own)
                count = sock.recv_into(target[self._filled :])
                filled = self._filled + count
                self.memory.request.moved += count
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not count:
            self._end(None)
            return
        self._present(target, filled)

    def _present(self, data: memoryview, filled: int) -> None:
        """Show the receiver what lies in a buffer and keep what it leaves."""
        view = data[:filled]
        self._expected = 0
        try:
            try:
                used = self._receiver.received(view)
            finally:
                view.release()
        except MoldauError as error:
            self._end(error)
            return
        except Exception as error:
            logger.exception("closing %s: a bug while handling what it sent", self.peer)
            self._end(error)
            return
        if self._socket is not None and (used < filled or self._buffer is not None):
            self._keep(data, used, filled)

    def _keep(self, data: memoryview, used: int, filled: int) -> None:
        """Keep what the receiver left, in a buffer with room for what comes next."""
        left = filled - used
        if not left:
            self._release_buffer()
            return
        size, own = rounded(self._needed(left)), self._buffer
        if own is None:
            self._keep_shared(data[used:filled], size)
            return
        if used:
            data[:left] = data[used:filled]
        self._filled = left
        # A buffer of a large frame is filled before more is asked for.
        is_enough = size <= len(own) or max(left + 1, FIRST_ROOM) <= len(own)
        if is_enough and len(own) <= max(KEPT_BUFFER_SIZE, 4 * size):
            if used or self._starving:
                self._ask(len(own), next_frame=used > 0)
            return
        data.release()
        if self._ask(size, next_frame=used > 0):
            self._buffer = self._pool.grow(own, left, size)

    def _needed(self, left: int) -> int:
        """Say how much room a buffer needs: always for more than is in it."""
        if self._paused:
            return left + 1  # nothing more is read for now
        ahead = max(FIRST_ROOM, left * GROWTH)
        return max(left + 1, min(self._expected, ahead))

    def _keep_shared(self, data: memoryview, size: int) -> None:
        """Move what was read into the shared buffer; for that much there is always room."""
        left = len(data)
        smallest = rounded(left + 1)
        size = self._pool.fitting(size)
        own = self._pool.take(size if self._ask(size, smallest) else smallest)
        own[:left] = data
        self._buffer = own
        self._filled = left

    def _ask(self, size: int, at_least: int = 0, *, next_frame: bool = False) -> bool:
        """Ask for a buffer of this size; if it is refused, stop reading until it is granted."""
        memory = self.memory
        budget = memory.budget
        if next_frame:
            budget.finish(memory.request)
        share = budget.request_share(max(self._expected, at_least))
        if budget.ask(memory.request, share, size, at_least):
            self._feed()
            return True
        if not self._starving:
            self._starving = True
            if not self._paused:
                self._readiness.remove_reader(self._fd)
        return False

    def _granted(self) -> None:
        """Read on, later: whoever let go of memory may be at work on this very buffer."""
        self._loop.call_soon(self._use_grant)

    def _use_grant(self) -> None:
        own, request = self._buffer, self.memory.request
        if self._starving and own is not None and not request.is_waiting:
            if request.held > len(own):
                self._buffer = self._pool.grow(own, self._filled, request.held)
            self._feed()

    def _feed(self) -> None:
        if self._starving:
            self._starving = False
            if self._socket is not None and not self._paused:
                self._readiness.add_reader(self._fd, self._readable)

    def _release_buffer(self) -> None:
        self._expected = 0
        self._filled = 0
        if self._buffer is not None:
            self._pool.give(self._buffer)
            self._buffer = None
            self._buffer_released()

    def _buffer_released(self) -> None:
        memory = self.memory
        memory.budget.finish(memory.request)
        memory.budget.release(memory.request)
        self._feed()

    @property
    def memory(self) -> MemoryAccount:
        """What this stream's peer makes us hold; made when it first holds anything."""
        account = self._account
        if account is None:
            account = self._account = MemoryAccount(self._pool.budget, self)
            account.request.granted = self._granted
        return account

    def reading_is_blocked(self) -> bool:
        """Tell whether its owner has paused it."""
        return self._paused

    def sending_is_blocked(self) -> bool:
        """Tell whether the disk is waited for."""
        return self._warming

    def expect(self, size: int) -> None:
        """Say how many bytes the frame at the head needs, so that the buffer grows once."""
        self._expected = size

    def lend(self) -> Callable[[], None] | None:
        """Leave the buffer with the bytes that are being shown; None if it is the shared one.

        It counts for what the peer makes us hold no more: to be lent is for answers, which have
        been asked for.
        """
        own, self._buffer = self._buffer, None
        if own is None:
            return None
        self._filled = 0
        self._buffer_released()
        return partial(self._pool.give, own)

    def pause(self) -> None:
        """Stop reading: the peer will feel it."""
        if not self._paused:
            self._paused = True
            if self._socket is not None and not self._starving:
                self._readiness.remove_reader(self._fd)

    def resume(self) -> None:
        """Read again; what is left over is presented at once, on a later turn of the loop."""
        if self._paused:
            self._paused = False
            if self._socket is not None and not self._starving:
                self._readiness.add_reader(self._fd, self._readable)
        if self._filled:
            self._loop.call_soon(self._present_leftover)

    def _present_leftover(self) -> None:
        if self._socket is not None and self._buffer is not None and not self._paused:
            self._present(memoryview(self._buffer), self._filled)

    # Writing

    def send(self, parts: Sequence[Part]) -> None:
        """Queue these parts, in order, and send what the socket takes now.

        An answer of one piece may wait until the streams that are ready have been called; it does
        not count as unsent, and there is one of them at most.
        """
        if self._held is not None:
            self._send_held()
        if self._socket is None or self._closing:
            return
        queue = self._queue
        idle = not queue
        piece = one_piece(parts) if idle else None
        if piece is not None:
            # Past the queue: nearly every answer is one piece, and the socket takes it whole.
            self._held = piece
            if self._holds and self._buffer is None:
                self._readiness.call_after_batch(self._send_held)
            else:  # a request of ours, or the answer to a large frame, which has taken long already
                self._send_held()
            return
        for part in parts:
            if type(part) is FileRegion:
                size = part.size
            else:
                size = len(part)
                self._buffered += size
            if size:
                queue.append(part)
                self.unsent += size
        if not idle:
            self._charge_answers()
        elif queue:
            self._flush()

    def _send_held(self) -> None:
        """Send what is held, if it is still there."""
        held, self._held = self._held, None
        sock = self._socket
        if held is None or sock is None:
            return
        try:
            sent = sock.send(held)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._end(error)
            return
        if sent < len(held):
            self._queue.append(memoryview(held)[sent:])
            self._buffered = self._head_size = len(held)
            self.unsent += len(held) - sent
            self._flush()

    def _flush(self) -> None:
        """Send until the queue is empty or the socket is full; of many file regions some."""
        queue = self._queue
        regions = 0
        try:
            while queue:
                head = queue[0]
                region = type(head) is FileRegion
                if region:
                    regions += 1
                    if regions > REGIONS_PER_TURN:
                        # The socket takes more; the streams that are ready as well come first.
                        self._wait_writable()
                        self._charge_answers()
                        return
                if not (self._send_region(head) if region else self._send_buffers()):
                    self._charge_answers()
                    return
        except OSError as error:
            self._end(error)
            return
        if self._closing:
            self._end(None)
        elif self._waited:
            self._waited = False
            self._stop_writing()
            self._charge_answers()
            self._receiver.drained()

    def _charge_answers(self) -> None:
        """Tell the budget how much of the answers is in memory and waits for the peer."""
        account, size = self._account, self._buffered
        if account is None and size < SMALLEST_ANSWER_CHARGED:
            return
        memory = self.memory
        if size != memory.answer.held:
            memory.budget.charge(memory.answer, memory.budget.answers, size)

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._readiness.remove_writer(self._fd)

    def _send_buffers(self) -> bool:
        """Send the buffers at the head in one call; False when the socket is full."""
        queue = self._queue
        assert self._socket is not None
        buffers: list[Buffer] = []
        before_region = False
        for part in queue:
            if type(part) is FileRegion:
                before_region = True
                break
            buffers.append(cast("Buffer", part))
            if len(buffers) == VECTOR_COUNT_MAX:
                break
        # A small header before a file region travels in the region's first segment.
        flags = socket.MSG_MORE if before_region else 0
        try:
            if len(buffers) == 1:
                sent = self._socket.send(buffers[0], flags)
            else:
                sent = self._socket.sendmsg(buffers, (), flags)
        except (BlockingIOError, InterruptedError):
            return self._wait_writable()
        self._count_sent(sent)
        for buffer in buffers:
            size = len(buffer)
            if sent < size:
                if sent:
                    # What is sent of it lives on as long as the rest does.
                    self._head_size = self._head_size or size
                    queue[0] = memoryview(buffer)[sent:]
                return self._wait_writable()
            sent -= size
            queue.popleft()
            self._buffered -= self._head_size or size
            self._head_size = 0
        return True

    def _count_sent(self, sent: int) -> None:
        self.unsent -= sent
        if self._account is not None:
            self._account.answer.moved += sent

    def _send_region(self, region: Part) -> bool:
        """Send from a file region; False when the socket is full or the disk must be waited for."""
        if self._warming:
            return False
        check_intact(cast("FileRegion", region))
        file, start, size = cast("FileRegion", region)
        position, end = start, start + size
        descriptor = cast("Descriptor", file).fileno()
        try:
            while position < end and self._resident(file, position, end):
                sent = os.sendfile(self._fd, descriptor, position, self._resident_end - position)
                if not sent:
                    raise OSError(errno.EIO, f"{file.path} ended before a region that was promised")
                position += sent
        except (BlockingIOError, InterruptedError):
            self._wait_writable()
        self._count_sent(position - start)
        if position < end:
            self._queue[0] = FileRegion(file, position, end - position)
            return False
        self._queue.popleft()
        self._resident_end = 0
        return True

    def _resident(self, file: File, position: int, end: int) -> bool:
        """Tell whether the next piece is in memory; if it is not, have it read."""
        if position < self._resident_end:
            return True
        chunk = min(end - position, SENDFILE_CHUNK)
        if not file.resident(position, chunk):
            self._warm(file, position, chunk)
            return False
        self._resident_end = position + chunk
        start = cast("Descriptor", file).read_ahead_from(position)
        if start is not None and self._executor is not None:
            # In a thread: the kernel makes room for megabytes, and waits where its queue is full.
            read_ahead = cast("Descriptor", file).read_ahead
            self._ahead = asyncio.ensure_future(self._executor.run(read_ahead, start))
        return True

    def _wait_writable(self) -> bool:
        self._waited = True
        if not self._writing:
            self._writing = True
            self._readiness.add_writer(self._fd, self._flush)
        return False

    def _warm(self, file: File, position: int, size: int) -> None:
        invariant(self._executor is not None, "a network without an executor was given a file")
        assert self._executor is not None
        self._stop_writing()
        self._waited = self._warming = True
        work = asyncio.ensure_future(self._executor.run(file.warm, position, size))
        work.add_done_callback(self._warmed)

    def _warmed(self, work: asyncio.Future[None]) -> None:
        self._warming = False
        if self._socket is None or work.cancelled():
            return
        error = work.exception()
        if isinstance(error, Exception):
            self._end(error)
        else:
            self._flush()

    # Ending

    def close(self) -> None:
        """Send what is queued, then close."""
        self._send_held()
        self._closing = True
        if not self._queue:
            self._end(None)

    def abort(self) -> None:
        """Close now and forget what is queued, in the kernel too if the peer does not read it."""
        if self._socket is not None and self._queue:
            reset = struct.pack("ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        sock = self._socket
        if sock is None:
            return
        self._socket = None
        self._readiness.remove_reader(self._fd)
        self._stop_writing()
        self._held = None
        self._queue.clear()
        self.unsent = self._buffered = 0
        self._release_buffer()
        if self._account is not None:
            self._account.close()
            self._account = None
        sock.close()
        self._receiver.closed(error)


def address_of(name: Any) -> Address:
    """Make an address of what a socket calls its end; IPv6 has more to say than we keep."""
    return Address(*name[:2])
