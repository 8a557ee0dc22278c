"""The fetches of a follower that keeps up: one partition moves, and is asked for again.

Such a fetch and its answer are written and read by position (`protocol.single_fetch`). The answer
is appended, and the next request sent, while the answer is being read from its socket: without a
task that is woken up for each of them. A producer with acks=all waits for exactly that.

It ends with the first answer, or the first request, that is not of this kind. Those are the
fetcher's (`fetcher`).
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from moldau.engine.connection import ClientConnection, LentAnswer, wait_for_lent
from moldau.engine.errors import ClientError
from moldau.protocol.registry import Api, find_api
from moldau.protocol.single_fetch import (
    FETCH_KEY,
    SingleFetchAnswer,
    SingleFetchRequest,
    read_answer,
    request_body,
    write_request,
)
from moldau.replication.fetching.plan import PlannedFetch


class Follower(Protocol):
    """What a fetcher does for such a fetch."""

    def moved_request(self, planned: PlannedFetch) -> SingleFetchRequest:
        """Make a request that names one partition."""
        ...

    def takes_at_once(self, answer: SingleFetchAnswer) -> bool:
        """Tell whether an answer can be taken in one short step."""
        ...

    def take_at_once(self, answer: SingleFetchAnswer) -> PlannedFetch | None:
        """Take an answer, and return the next request if it again names one partition."""
        ...


class RepeatedFetch:
    """Sends requests to one leader, one after the other, and takes their answers."""

    def __init__(
        self, follower: Follower, connection: ClientConnection, version: int, client_id: str
    ) -> None:
        self._follower = follower
        self._connection = connection
        self._client_id = client_id.encode()
        self.api: Final[Api] = find_api(FETCH_KEY)
        self.version: Final = version
        self._last: asyncio.Future[LentAnswer | None] = asyncio.get_running_loop().create_future()
        """The first answer that is not of this kind; None if the next request is not."""

    async def run(self, planned: PlannedFetch) -> LentAnswer | None:
        """Fetch until something else is to be done; return the answer that is still to be taken."""
        self._send(planned)
        return await wait_for_lent(self._last)

    def _send(self, planned: PlannedFetch) -> None:
        body = request_body(self._follower.moved_request(planned))
        self._connection.send_rendered(self, self, body, is_lent=True)

    # The template of the requests

    def render(self, correlation_id: int, content: bytes) -> list[bytes]:
        """Make the request with this content."""
        return [write_request(self.version, correlation_id, self._client_id, content)]

    def read(self, frame: memoryview) -> SingleFetchAnswer | None:
        """Return the answer if it can be taken at once; None if it is to be decoded."""
        answer = read_answer(frame)
        return answer if answer is not None and self._follower.takes_at_once(answer) else None

    # Who is told of answers

    def done(self) -> bool:
        """Tell whether the fetcher has ended."""
        return self._last.done()

    def set_result(self, result: SingleFetchAnswer | LentAnswer) -> None:
        """Take an answer and send the next request, or leave it to the fetcher."""
        if not isinstance(result, SingleFetchAnswer):
            self._last.set_result(result)
            return
        try:
            planned = self._follower.take_at_once(result)
            if planned is not None:
                self._send(planned)
                return
        except Exception as error:  # noqa: BLE001 - the fetcher raises it
            self._last.set_exception(error)
        else:
            self._last.set_result(None)

    def set_exception(self, error: ClientError) -> None:
        """Tell the fetcher that its connection is lost."""
        self._last.set_exception(error)
