"""What tests of a fast path share: two equal brokers, one with the fast path and one without.

Whatever is sent to both must have the same answer, the same effects and the same metrics.
"""

import asyncio
from functools import partial

from kits.request_kit import connection
from moldau.base.errors import ProtocolError
from moldau.observe.requests import RequestMetrics
from moldau.server.network.dispatch import Dispatcher


class OneRouteBroker:
    """One route behind a dispatcher. A test extends it with what the route needs."""

    def __init__(self):
        self.metrics = RequestMetrics()
        self.fast_count = 0
        """How many requests took the fast path."""
        self.parked = []
        """Answers that are still to come, and that nobody listens to yet."""
        self._told = []

    def serve(self, route, fast_path, clock, *, has_fast_path):
        """Dispatch to a route, and through its fast path if this broker has it."""
        self.fast_path = fast_path
        if has_fast_path:
            route.fast_path = self._answer_fast
        self.dispatch = Dispatcher([route], clock, None).handle

    def send(self, frame, asker=None):
        """Return the answer as bytes, None if there is none, or why there is none yet."""
        try:
            answer = self.dispatch(connection(asker), memoryview(frame))
        except ProtocolError as error:
            return str(error)
        if answer is None or isinstance(answer, list):
            return answer and b"".join(answer)
        self.parked.append(answer)
        return "parked"

    def told(self):
        """Return what each request that was parked was told so far: None, an answer, cancelled."""
        return list(self._told)

    def listen(self):
        """Listen to all requests that are parked, as their connections would."""
        for number, answer in enumerate(self.parked, len(self._told)):
            self._told.append(None)
            answer.listen(partial(self._tell, number, answer))
        self.parked.clear()

    def _tell(self, number, answer, _source):
        try:
            self._told[number] = b"".join(answer.framed())
        except asyncio.CancelledError:
            self._told[number] = "cancelled"

    def content(self):
        """Return the state that requests change, to compare."""
        raise AssertionError("a test says what its requests change")

    def _answer_fast(self, frame, asker):
        answer = self.fast_path.answer(frame, asker)
        self.fast_count += answer is not None
        return answer


class BothPaths:
    """The two brokers. A test extends it with the class of its broker and the name of its API."""

    broker: type
    api: str

    def __init__(self, **options):
        self.slow = self.broker(fast_path=False, **options)
        self.fast = self.broker(fast_path=True, **options)

    def send(self, frame, asker=None):
        """Send a frame to both, compare everything, and return the answer."""
        answer = self.fast.send(frame, asker)
        assert answer == self.slow.send(frame, asker)
        assert self.fast.content() == self.slow.content()
        fast, slow = (one.metrics.of(self.api) for one in (self.fast, self.slow))
        assert fast.requests == slow.requests
        assert fast.bytes_in == slow.bytes_in
        assert fast.errors == slow.errors
        return answer

    def each(self, act):
        """Do the same to both brokers, and return the result, which must be the same."""
        result = act(self.fast)
        assert result == act(self.slow)
        return result

    @property
    def brokers(self):
        return self.fast, self.slow

    @property
    def fast_count(self):
        return self.fast.fast_count
