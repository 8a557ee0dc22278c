"""One lane of heavy work: a queue, and the process that works through it.

The process (`worker_process`) begins when it is first needed. It is a new interpreter, not a fork:
it inherits no socket of the broker. It talks over one socket pair, which ends with the broker, so
that it does not outlive a broker that was killed. Nothing of it has a name in the system
(multiprocessing's semaphores do), so that a killed broker leaves nothing to clean up.

The queue stays here. A process that ends loses the one piece it had in hand, and the next piece
starts another. A piece whose caller has left the queue is never sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from moldau.base.executor import Lane, WorkerLost, WorkTooLong
from moldau.server.workers.worker_process import LENGTH, Call, Reply

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_BYTES = 256 * 1024
"""What is read at once: a large reply takes many turns of the loop, none of them long."""

COMMAND = ("-P", "-c", "from moldau.server.workers.worker_process import main; main()")
"""The broker's working directory is not looked at for modules (-P). The lane's name follows, for
who looks at a list of processes."""


class Worker:
    """The work of one lane, one piece at a time. Owned by the event loop's thread."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._queue: OrderedDict[asyncio.Future[Any], Callable[[], Any]] = OrderedDict()
        self._in_hand: asyncio.Future[Any] | None = None
        self._process: _Process | None = None
        self._serving: asyncio.Task[None] | None = None

    def compute(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a call; cancelling the future takes it out again."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue[future] = call
        future.add_done_callback(self._leave_queue)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return future

    def _leave_queue(self, future: asyncio.Future[Any]) -> None:
        """Let go of a call, whose records may be megabytes, as soon as its caller does."""
        self._queue.pop(future, None)

    async def _serve(self) -> None:
        """Work until the queue is empty."""
        try:
            while self._queue:
                self._in_hand, call = self._queue.popitem(last=False)
                await self._settle(self._in_hand, call)
        finally:
            self._in_hand = self._serving = None

    async def _settle(self, future: asyncio.Future[Any], call: Callable[[], Any]) -> None:
        try:
            result = await self._ask(call)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller who waits
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    async def _ask(self, call: Callable[[], Any]) -> Any:
        message = pickle.dumps(Call(self._lane.cpu_limit_s, call))
        try:
            await self._send(message)
            assert self._process is not None
            reply = await self._process.receive()
        except (OSError, EOFError) as error:
            raise await self._lost() from error
        outcome: Reply = pickle.loads(reply)  # noqa: S301 - from a process of ours
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    async def _send(self, message: bytes) -> None:
        """Send to the process; to another one if it was killed while it was idle."""
        if self._process is not None:
            try:
                await self._process.send(message)
            except OSError:
                # Nothing is lost: it cannot have read the whole message.
                await self._lost()
            else:
                return
        self._process = await self._start()
        await self._process.send(message)

    async def _start(self) -> _Process:
        try:
            # In a thread: on a busy machine it takes longer than the loop may wait.
            return await asyncio.to_thread(_start_process, self._lane)
        except OSError as error:
            logger.warning("cannot start a worker process (%s): %s", self._lane.value, error)
            raise WorkerLost("no worker process can be started") from error

    async def _lost(self) -> WorkerLost | WorkTooLong:
        """Let go of a process that has ended; say so, and return what became of its work."""
        process, self._process = self._process, None
        assert process is not None
        status = await process.end()
        if status == -signal.SIGPROF:
            logger.warning(
                "a worker process (%s) was ended: one batch took more than %.0f s of CPU time",
                self._lane.value,
                self._lane.cpu_limit_s or 0,
            )
            return WorkTooLong("the work on the records took too long")
        logger.warning(
            "the worker process (%s) was killed; another begins when it is needed",
            self._lane.value,
        )
        return WorkerLost("the worker process ended in the middle of its work")

    async def close(self) -> None:
        """Wait for work that somebody waits for, then end the process."""
        serving = self._serving
        if serving is not None and not serving.done():
            asked = [future for future in (self._in_hand, *self._queue) if future is not None]
            waiting = [future for future in asked if not future.done()]
            if waiting:
                await asyncio.wait(waiting)
            serving.cancel()
            await asyncio.wait([serving])
        if self._process is not None:
            await self._process.end()
            self._process = None


class _Process(NamedTuple):
    """A process to compute in, and our end of the socket to it."""

    child: subprocess.Popen[bytes]
    link: socket.socket

    async def send(self, message: bytes) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.link, LENGTH.pack(len(message)))
        await loop.sock_sendall(self.link, message)

    async def receive(self) -> bytearray:
        (size,) = LENGTH.unpack(await self._read(LENGTH.size))
        return await self._read(size)

    async def _read(self, size: int) -> bytearray:
        loop = asyncio.get_running_loop()
        data = bytearray(size)
        view = memoryview(data)
        position = 0
        while position < size:
            room = view[position : position + CHUNK_BYTES]
            count = await loop.sock_recv_into(self.link, room)
            if not count:
                raise EOFError
            position += count
        return data

    async def end(self) -> int:
        """Make sure that it has ended, and return its status."""
        self.link.close()
        self.child.kill()
        return await asyncio.to_thread(self.child.wait)


def _start_process(lane: Lane) -> _Process:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    # It inherits the mask. It must not be interrupted from the terminal while it starts: the
    # broker decides when it ends.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, *COMMAND, lane.value],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            # It finds modules where this process does, be it a test's or an application's.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return _Process(child, ours)
