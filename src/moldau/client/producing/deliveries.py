"""The results of sending: of one `send`, in both faces, and of many for `send_many`.

A delivery is three words of memory until somebody waits for it: only then is a future or an event
made. Giving up waiting gives up nothing else; the record goes its way.

An `AsyncDelivery` is a future to asyncio, and a `Delivery` one to `concurrent.futures`, without
being made of theirs: a future of asyncio is three times as large, must be told its result, and
would have to be paid for every record, also where nobody looks. So both have the methods that
`asyncio` and `concurrent.futures` call, the private ones among them. Type checkers see the
subclasses of `delivery_types`, which are these classes when the program runs.

The classes are acyclic: compiled, the garbage collector does not look at deliveries, of which a
program may keep a hundred thousand. So nothing that a delivery keeps may refer back to it for good.
Those who wait do, until the batch is settled; every batch is, at the latest when its producer ends.

A batch result does not answer for all of its records: one that is too large is split, and its
halves may fare differently. So `send_many` looks at every delivery; those that were written are let
go of as time passes, so that a stream of records without end takes no more than what is on its way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, ClassVar, Final, Self, cast

from moldau.base.compiling import mypyc_attr
from moldau.client.errors import ClientError, InvalidState, RequestTimedOut
from moldau.client.producing.batch_results import UNKNOWN_OFFSET, BatchResult, Watcher, fresh
from moldau.client.records import RecordMetadata
from moldau.engine.arguments import check_function, check_number, waiting_s
from moldau.engine.owning_loop import check_loop
from moldau.engine.portal import refuse_in_callbacks

# Final, and so known to the compiled form without looking them up: everybody asks for every record.
_new: Final = tuple.__new__
_METADATA: Final = RecordMetadata


@mypyc_attr(acyclic=True)
class Sent:
    """What a delivery can tell without waiting; each face has its own kind."""

    __slots__ = ("_batch_result", "_index", "_timestamp_ms")

    def __init__(self, batch_result: BatchResult, index: int, timestamp_ms: int) -> None:
        self._batch_result = batch_result
        self._index = index
        self._timestamp_ms = timestamp_ms

    def _place(self) -> tuple[BatchResult, int]:
        """Return the batch result that decides on the record, and the record's index in it."""
        return self._batch_result.located(self._index)

    def done(self) -> bool:
        """Return whether the record was acknowledged or has failed."""
        batch_result = self._batch_result
        return (
            batch_result.located(self._index)[0].done if batch_result.moved else batch_result.done
        )

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<{type(self).__name__} to {self._batch_result.topic}, {state}>"

    def _error(self) -> ClientError | None:
        """Return the record's error, None if it was written; InvalidState if it is not done."""
        batch_result = self._batch_result
        if batch_result.moved:
            batch_result = batch_result.located(self._index)[0]
        if not batch_result.done:
            raise InvalidState("the record is still in flight", advice="Wait for it first.")
        return batch_result.error

    def _watch(self, told: Callable[[Sent], object]) -> None:
        """Have the producer's own parts told once it is known, whatever the user does with this."""
        own = Sent(self._batch_result, self._index, self._timestamp_ms)
        with self._batch_result.guard:
            watched = self._batch_result.watch(self._index, partial(_call, own, told))
        if not watched:
            _call(own, told)

    def _report(self, callback: Callable[..., object], error: BaseException) -> None:
        """Tell the loop; who calls it in a thread without one gets it as it is."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise error from None
        loop.call_exception_handler(
            {"message": f"the done callback {callback!r} of a delivery failed", "exception": error}
        )

    def metadata(self) -> RecordMetadata:
        """Return the metadata or raise the record's error; the delivery must be done."""
        batch_result, index = self._batch_result, self._index
        if batch_result.moved:
            batch_result, index = batch_result.located(index)
        if batch_result.error is not None:
            raise fresh(batch_result.error)
        offset = (
            batch_result.base_offset + index if batch_result.base_offset >= 0 else UNKNOWN_OFFSET
        )
        timestamp_ms = (
            batch_result.append_time_ms if batch_result.append_time_ms >= 0 else self._timestamp_ms
        )
        # Half the price of the class's own way.
        return _new(_METADATA, (batch_result.topic, batch_result.partition, offset, timestamp_ms))


# For the producer's own parts: a delivery shows users nothing of these.


def place_of(delivery: Sent) -> tuple[BatchResult, int]:
    """Return the batch result that decides on a record, and the record's index in it."""
    return delivery._place()  # noqa: SLF001 - of this module


def error_of(delivery: Sent) -> ClientError | None:
    """Return why a record failed, None if it was written; InvalidState if neither yet."""
    return delivery._error()  # noqa: SLF001 - of this module


def watch_delivery(delivery: Sent, told: Callable[[Sent], object]) -> None:
    """Have a part of the producer told what becomes of a record, whatever the user does."""
    delivery._watch(told)  # noqa: SLF001 - of this module


def _call(delivery: Any, callback: Callable[[Any], object]) -> None:
    """Call a user's function; its failure is its own, not the producer's."""
    try:
        callback(delivery)
    except BaseException as error:  # noqa: BLE001 - whatever a user's function raises
        delivery._report(callback, error)  # noqa: SLF001 - of this module


# asyncio


class LoopGuard:
    """The guard of a producer that lives on one event loop: there is nothing to lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._due: list[Watcher] = []
        """Whom the next turn of the loop tells of deliveries that were done when they asked."""

    def tell_soon(self, watcher: Watcher) -> None:
        """Tell somebody in the next turn, together with the others: `gather` asks for many."""
        if not self._due:
            self.loop.call_soon(self._tell)
        self._due.append(watcher)

    def _tell(self) -> None:
        due, self._due = self._due, []
        for watcher in due:
            watcher()

    def __enter__(self) -> None:
        """Lock nothing."""

    def __exit__(self, *_: object) -> None:
        """Unlock nothing."""


class Cancelled(BatchResult):
    """Stands in for the batch result of a delivery that was cancelled."""

    __slots__ = ("message",)

    def __init__(self, of: BatchResult, message: object) -> None:
        super().__init__(of.topic, of.partition, of.guard)
        self.message = message
        self.settle(cast("ClientError", self.made_error()))

    def made_error(self) -> asyncio.CancelledError:
        """Make what whoever waits is told."""
        if self.message is None:
            return asyncio.CancelledError()
        return asyncio.CancelledError(self.message)


@mypyc_attr(acyclic=True)
class AsyncDelivery(Sent):
    """A record sent by an AsyncProducer; awaiting it returns its RecordMetadata.

    `asyncio.gather`, `wait`, `as_completed`, `wait_for` and `shield` accept it as a future.
    """

    __slots__ = ()

    _asyncio_future_blocking: ClassVar[bool] = False
    """By this asyncio knows a future. It is never set: what is awaited is one of asyncio's own."""

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait until the record is acknowledged. Cancelling ends the wait, not the sending."""
        batch_result = self._batch_result
        if (batch_result.moved or not batch_result.done) and not self.done():
            loop = self.get_loop()
            check_loop(loop, "producer")
            future: asyncio.Future[None] = loop.create_future()
            self._batch_result.watch(self._index, partial(_release, self, future))
            try:
                yield from future
            except BaseException:
                self._unwatch(future)
                raise
        return self.metadata()

    def __iter__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait as `await` does, in a coroutine of the old kind."""
        return self.__await__()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the producer."""
        return cast("LoopGuard", self._batch_result.guard).loop

    def result(self) -> RecordMetadata:
        """Return the metadata or raise the record's error; InvalidState if it is not done."""
        if self._batch_result.moved or not self._batch_result.done:
            self._error()
        return self.metadata()

    def exception(self) -> ClientError | None:
        """Return the record's error, None if it was written; InvalidState if it is not done."""
        batch_result = self._batch_result
        if batch_result.done and batch_result.error is None and not batch_result.moved:
            return None  # `gather` asks twice for every record
        error = self._error()
        if error is not None and self.cancelled():
            raise fresh(error)
        return error

    def add_done_callback(
        self, callback: Callable[[Self], object], /, *, context: Context | None = None
    ) -> None:
        """Call a function with this delivery when it is done, soon if it is done already.

        The function runs on the event loop and must not block. Its exceptions go to the loop's
        exception handler.
        """
        if not callable(callback):  # asked here: `gather` adds one for every record
            check_function("callback", callback)
        if context is None:
            call = partial(_call, self, callback)
        else:
            call = partial(context.run, _call, self, callback)
        if self.done():
            cast("LoopGuard", self._batch_result.guard).tell_soon(call)
        else:
            self._batch_result.watch(self._index, call)

    def remove_done_callback(self, callback: Callable[[Self], object], /) -> int:
        """Remove a callback; return how many were removed."""
        return len(self._unwatch(callback))

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the waiting tasks; the record is still sent.

        Returns False if the delivery is done. A cancelled delivery never has the record's result.
        """
        if self.done():
            return False
        waiting = self._unwatch()
        self._batch_result = Cancelled(self._batch_result, msg)
        for told in waiting:
            self.get_loop().call_soon(told)
        return True

    def cancelled(self) -> bool:
        """Return whether the delivery was cancelled; its record is sent all the same."""
        return type(self._batch_result) is Cancelled

    def _unwatch(self, *waiting: object) -> list[Watcher]:
        """Take back this callback or future of this delivery, all of them if none is named."""

        def is_meant(watcher: Watcher) -> bool:
            *_, delivery, told = cast("partial[None]", watcher).args
            return delivery is self and (not waiting or told == waiting[0])

        return self._batch_result.unwatch(self._index, is_meant)

    # What asyncio asks of a cancelled future

    @property
    def _cancel_message(self) -> object:
        return cast("Cancelled", self._batch_result).message if self.cancelled() else None

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        return cast("Cancelled", self._batch_result).made_error()

    def _report(self, callback: Callable[..., object], error: BaseException) -> None:
        """Let what ends programs end the user's loop, once all others have been told."""
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(_raise, error)
                return
        super()._report(callback, error)


def _release(_: AsyncDelivery, future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _raise(error: BaseException) -> None:
    raise error


# Threads


@mypyc_attr(acyclic=True)
class Delivery(Sent):
    """A record sent by a Producer; `result()` waits and returns its RecordMetadata.

    `concurrent.futures.wait` and `as_completed` accept it as a future.
    """

    __slots__ = ("_published",)

    def __init__(self, batch_result: BatchResult, index: int, timestamp_ms: int) -> None:
        self._batch_result = batch_result
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._published: _Published | None = None

    def result(self, timeout: Any = None) -> RecordMetadata:
        """Wait until the record is acknowledged; after `timeout` seconds, raise RequestTimedOut.

        Raises InvalidState in a callback, because acknowledgements arrive on the same thread.
        """
        self._wait(timeout)
        return self.metadata()

    def exception(self, timeout: Any = None) -> ClientError | None:
        """Wait like `result`; return the record's error, None if it was written."""
        self._wait(timeout)
        return self._error()

    def _wait(self, timeout: Any) -> None:
        if timeout is not None:
            check_number("timeout", timeout)
        if self.done():
            return
        refuse_in_callbacks()
        known = threading.Event()
        with self._batch_result.guard:
            watched = self._batch_result.watch(self._index, known.set)
        if watched and not known.wait(waiting_s(timeout)):
            raise RequestTimedOut(
                f"no acknowledgement within {timeout} s",
                advice="The record is still in flight until delivery_timeout_ms.",
            )

    def add_done_callback(self, callback: Callable[[Self], object], /) -> None:
        """Call a function with this delivery when it is done, at once if it is done already.

        The function runs on the event loop's thread and must not block: `result()` and other
        waiting calls raise InvalidState. Its exceptions go to the loop's exception handler.
        """
        check_function("callback", callback)
        with self._batch_result.guard:
            watched = self._batch_result.watch(self._index, partial(_call, self, callback))
        if not watched:
            _call(self, callback)

    def running(self) -> bool:
        """Return whether the record is in flight."""
        return not self.done()

    def cancel(self) -> bool:
        """Return False: a record cannot be taken back."""
        return False

    def cancelled(self) -> bool:
        """Return False."""
        return False

    # What concurrent.futures asks of a future

    def _publish(self) -> _Published:
        """Return what `concurrent.futures` works on, made when it first looks."""
        published = self._published
        if published is None:
            if not self.done():
                refuse_in_callbacks()
            with self._batch_result.guard:
                published = self._published
                if published is None:
                    published = self._published = _Published()
                    finish = partial(published.finish, self)
                    if not self._batch_result.watch(self._index, finish):
                        published.state = _FINISHED
        return published

    @property
    def _condition(self) -> threading.RLock:
        return self._publish().lock

    @property
    def _state(self) -> str:
        return self._publish().state

    @property
    def _waiters(self) -> list[Any]:
        return self._publish().waiters


_RUNNING: Final = "RUNNING"
_FINISHED: Final = "FINISHED"
"""The words of `concurrent.futures`."""


class _Published:
    """The state of a delivery as `concurrent.futures.wait` and `as_completed` read it.

    It does not refer to the delivery, which refers to it.
    They lock all futures at once before they look, and count on none being finished meanwhile. So
    each has a lock and a state of its own: the producer's would hold up everybody who sends.
    """

    __slots__ = ("lock", "state", "waiters")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.state = _RUNNING
        self.waiters: list[Any] = []

    def finish(self, delivery: Delivery) -> None:
        """Tell those who wait; called once the delivery is done."""
        with self.lock:
            self.state = _FINISHED
            for waiter in self.waiters:
                tell = waiter.add_result if error_of(delivery) is None else waiter.add_exception
                tell(delivery)


FIRST_LOOK_COUNT: Final = 4096
"""How many deliveries are kept before it is worth looking through them."""


class Tally:
    """Counts deliveries and finds the first that failed."""

    def __init__(self) -> None:
        self._count = 0
        self._kept: list[Sent] = []
        self._look_at = FIRST_LOOK_COUNT

    def add(self, delivery: Sent) -> None:
        """Count one more."""
        self._count += 1
        self._kept.append(delivery)
        if len(self._kept) >= self._look_at:
            self._look_through()
            # Twice what is left: then each delivery is looked at twice or so, however many wait.
            self._look_at = max(FIRST_LOOK_COUNT, 2 * len(self._kept))

    def _look_through(self) -> None:
        """Keep what is on its way, and the first that failed."""
        kept: list[Sent] = []
        failed = False
        for delivery in self._kept:
            batch_result, _ = place_of(delivery)
            if not batch_result.done:
                kept.append(delivery)
            elif batch_result.error is not None and not failed:
                failed = True
                kept.append(delivery)
        self._kept = kept

    def result(self) -> int:
        """Return how many were written, all of them settled; raise why the first failed."""
        for delivery in self._kept:
            error = error_of(delivery)
            if error is not None:
                raise fresh(error)
        return self._count
