"""The fast path of Fetch: who keeps up asks again, for the one partition that moved.

That is a follower or a consumer in its session, or a consumer of one partition without a session.
Such a request and its answer are read and written by position (`protocol.single_fetch`), without
a message and without the slices of `network.dispatch`. Everything in between is the slow path's:
the session, the look at its partitions, the wait. An answer that differs from the usual one, with
several partitions, an error, a diverging log or aborted transactions, is encoded like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeVar

from moldau.base.checks import invariant
from moldau.base.clock import Clock
from moldau.base.network import Part
from moldau.base.prompt_future import PromptFuture
from moldau.observe.requests import RequestStats
from moldau.protocol.errors import ErrorCode
from moldau.protocol.registry import Api, encode_response_in_slices, encode_short_response, find_api
from moldau.protocol.single_fetch import (
    FETCH_KEY,
    SingleFetchRequest,
    read_request,
    write_answer,
)
from moldau.security.session import Session
from moldau.server.fetch.reading import Fetch, Fetched
from moldau.server.handlers.fetch import FetchHandler
from moldau.server.network.slices import Sliced

T = TypeVar("T")

_START: Final = Struct(">2xhi").unpack_from
"""Version and correlation id."""
_NO_ERROR: Final = ErrorCode.NONE


class FetchFastPath:
    """Answers the fetches that name one partition."""

    def __init__(self, handler: FetchHandler, stats: RequestStats, clock: Clock) -> None:
        self.handler = handler
        self.stats = stats
        self.monotonic = clock.monotonic
        self.api: Api = find_api(FETCH_KEY)

    def answer(self, frame: memoryview, session: Session) -> list[Part] | PendingFetch | None:
        """Handle the request in this frame, or return None with nothing done."""
        asked = read_request(frame)
        if asked is None:
            return None
        fetch = self.handler.resume(asked, session)
        if fetch is None:
            return None
        self.stats.count(len(frame))
        return PendingFetch(self, frame, asked, fetch, session).begin()


class PendingFetch:
    """One request, and its answer once there is enough for one."""

    __slots__ = (
        "_asked",
        "_began_s",
        "_client",
        "_correlation_id",
        "_fetch",
        "_path",
        "_version",
        "future",
        "is_applied",
    )

    def __init__(
        self,
        path: FetchFastPath,
        frame: memoryview,
        asked: SingleFetchRequest,
        fetch: Fetch,
        client: Session,
    ) -> None:
        self._path = path
        self._asked = asked
        self._fetch = fetch
        self._client = client
        self._began_s = path.monotonic()
        version: int
        correlation_id: int
        version, correlation_id = _START(frame)
        self._version = version
        self._correlation_id = correlation_id
        self.future: PromptFuture[Any]
        """Has the framed answer; set where it is waited for."""
        self.is_applied = False

    def begin(self) -> list[Part] | PendingFetch:
        """Return the answer if there is one now, else this object, which waits for it."""
        found, enough = _at_once(self._fetch.look())
        if enough or self._asked.max_wait_ms <= 0:
            answer = _at_once(self._respond(found))
            if not self._fetch.session.kept:
                self._fetch.session.close()
            return self._timed(answer)
        parked = self._path.handler.park(self._fetch, self._asked.max_wait_ms, self._respond)
        self.future = parked.future
        return self

    @property
    def work(self) -> asyncio.Future[Any] | None:
        """A request that is parked has none: a stop does not wait for it."""
        return None

    def listen(self, listener: Callable[[Any], None]) -> None:
        """Have a listener called once the answer is there."""
        self.future.listen(listener)

    def framed(self) -> list[Part]:
        """Return the answer that has come; raises what was raised."""
        return self._timed(self.future.result())

    def abandon(self) -> None:
        """Wait no more: the client has left."""
        self.future.cancel()

    def _timed(self, answer: list[Part]) -> list[Part]:
        self._path.stats.time(self._path.monotonic() - self._began_s)
        return answer

    def _respond(self, found: list[Fetched]) -> Sliced[list[Part]]:
        asked, fetch, handler = self._asked, self._fetch, self._path.handler
        named = yield from fetch.finish(found)
        if len(named) == 1 and _is_usual(named[0], asked):
            fetched = named[0]
            handler.count(fetch, fetched)
            figures = (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset)
            before, after = write_answer(
                self._correlation_id,
                asked,
                figures,
                fetched.size,
                tells_transactions=fetched.aborted is not None,
            )
            return [before, *fetched.regions, after]
        response = yield from handler.response(fetch, named, self._version, self._client)
        respond = self._path.api, self._version, self._correlation_id, response
        parts = encode_short_response(*respond)
        if parts is None:
            parts = yield from encode_response_in_slices(*respond)
        return parts


def _is_usual(fetched: Fetched, asked: SingleFetchRequest) -> bool:
    """Tell whether an answer has nothing but the records and figures of the partition asked for."""
    reader = fetched.reader
    return (
        fetched.error is _NO_ERROR
        and fetched.diverging is None
        and not fetched.aborted
        and reader.index == asked.index
        and reader.topic == asked.topic_id
    )


def _at_once(work: Sliced[T]) -> T:
    """Do work that has too little to do for a pause."""
    try:
        next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    invariant(False, "a fetch of few partitions pauses")  # pragma: no cover
    raise AssertionError
