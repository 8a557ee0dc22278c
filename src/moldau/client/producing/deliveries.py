"""The results of sending: of one `send`, in both faces, and of many for `send_many`.

A delivery is three words of memory until somebody waits for it: only then is a future or an event
made. Giving up waiting gives up nothing else; the record goes its way.

A batch result does not answer for all of its records: one that is too large is split, and its
halves may fare differently. So `send_many` looks at every delivery; those that were written are let
go of as time passes, so that a stream of records without end takes no more than what is on its way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Self, TypeVar

from moldau.client.errors import ClientError, InvalidState, RequestTimedOut
from moldau.client.producing.batch_results import UNKNOWN_OFFSET, BatchResult, fresh
from moldau.client.records import RecordMetadata
from moldau.engine.portal import refuse_in_callbacks

S = TypeVar("S", bound="Sent")

_new = tuple.__new__


class Sent:
    """What a delivery can tell without waiting; each face has its own kind."""

    __slots__ = ("_batch_result", "_index", "_timestamp_ms")

    def __init__(self, batch_result: BatchResult, index: int, timestamp_ms: int) -> None:
        self._batch_result = batch_result
        self._index = index
        self._timestamp_ms = timestamp_ms

    def place(self) -> tuple[BatchResult, int]:
        """Return the batch result that decides on the record, and the record's index in it."""
        return self._batch_result.located(self._index)

    def done(self) -> bool:
        """Tell whether it is known what became of the record."""
        batch_result = self._batch_result
        return (
            batch_result.located(self._index)[0].done if batch_result.moved else batch_result.done
        )

    def exception(self) -> ClientError | None:
        """Return why the record failed, None if it was written; InvalidState if neither yet."""
        batch_result = self.place()[0]
        if not batch_result.done:
            raise InvalidState("the record is still on its way", advice="Wait for it first.")
        return batch_result.error

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Have a function called with this delivery once it is done, at once if it is already.

        It is called on the event loop's thread and must not block: `result()`, and whatever else
        waits, is refused there. What it raises is reported to the loop's exception handler.
        """
        with self._batch_result.guard:
            watched = self._batch_result.watch(self._index, partial(self._call, callback))
        if not watched:
            self._call(callback)

    def _call(self, callback: Callable[[Self], object]) -> None:
        """Call a user's function; its failure is its own, not the producer's."""
        try:
            callback(self)
        except BaseException as error:  # noqa: BLE001 - whatever a user's function raises
            self._report(callback, error)

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
        """Return where the record was put, raise why it failed; only of one that is done."""
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
        # Everybody asks for every record: this is half the price of the class's own way.
        return _new(
            RecordMetadata, (batch_result.topic, batch_result.partition, offset, timestamp_ms)
        )


class AsyncDelivery(Sent):
    """A record that an AsyncProducer sends: `await` it to learn where it was put."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait until the record is written. Cancelling ends the waiting, not the sending."""
        batch_result = self._batch_result
        if (batch_result.moved or not batch_result.done) and not self.done():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._batch_result.watch(self._index, partial(_release, future))
            yield from future
        return self.metadata()

    def _report(self, callback: Callable[..., object], error: BaseException) -> None:
        """Let what ends programs end the user's loop, once all others have been told."""
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_soon(_raise, error)
                return
        super()._report(callback, error)


class Delivery(Sent):
    """A record that a Producer sends: `result()` waits and tells where it was put."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is written, at most so many seconds; then RequestTimedOut.

        InvalidState in a callback: what is waited for would come in the same thread.
        """
        if not self.done():
            refuse_in_callbacks()
            known = threading.Event()
            with self._batch_result.guard:
                watched = self._batch_result.watch(self._index, known.set)
            if watched and not known.wait(timeout):
                raise RequestTimedOut(
                    f"no acknowledgement within {timeout} s",
                    advice="The record is still on its way; delivery_timeout_ms ends that.",
                )
        return self.metadata()


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _raise(error: BaseException) -> None:
    raise error


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
            batch_result, _ = delivery.place()
            if not batch_result.done:
                kept.append(delivery)
            elif batch_result.error is not None and not failed:
                failed = True
                kept.append(delivery)
        self._kept = kept

    def result(self) -> int:
        """Return how many were written, all of them settled; raise why the first failed."""
        for delivery in self._kept:
            error = delivery.exception()
            if error is not None:
                raise fresh(error)
        return self._count
