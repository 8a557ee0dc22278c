"""One client's connection: frames in, answers out, in the order the requests came.

Requests are handled as they arrive, in place, without copying. Most are answered on the spot, and
the answers to everything that came in one read leave in one write. While an answer has to wait (a
parked fetch, a commit to the metadata store), the requests behind it are not looked at, as with
Kafka, so that a client's requests take effect in the order in which it sent them.

A request that has taken effect and waits for its acknowledgement alone (acks=all, until followers
have the batch) holds up nobody: the requests behind it are handled, and their answers queue up
behind its own. So a producer is not held to one batch for each round trip to a follower.

Back-pressure has one mechanism: a connection that waits for an answer of ours, or has too much
unread by its client, is not read from. Nor is one that sends many small requests at once, once
they have taken a turn's time: the others come first, and then it goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from moldau.base.errors import ProtocolError
from moldau.base.limits import UNSENT_BYTES_PER_CONNECTION
from moldau.base.memory_budget import MemoryAccount
from moldau.base.network import Part, Stream
from moldau.protocol.framing import PREFIX_BYTES, check_announced, frame_end
from moldau.security.session import Session
from moldau.server.network.turns import Turn

logger = logging.getLogger(__name__)

PARTS_PER_WRITE: Final = 64
"""Answers to what came in one read leave together, up to this many buffers: thousands of small
requests may ask for large answers, and what waits for the client is looked at in between."""

TURN_S: Final = 0.002
"""What came in one read is handled for so long, and the rest of it on a later turn of the loop."""

COST_BETWEEN_LOOKS: Final = 4096
"""The clock is looked at after requests that cost so much together, not after each."""

REQUEST_COST: Final = 512
"""What a request costs beside its bytes: eight small ones take 0.1 ms."""


KEPT_REQUEST_BYTES: Final = 4096
"""A request of at least this size counts as held while its answer is waited for, and so does an
answer while it waits behind another."""

ANSWERS_BEHIND: Final = 64
ANSWER_BYTES_BEHIND: Final = 64 * 1024
"""So many answers, or bytes of them, wait behind one that is to come; then nothing more is read."""


class Pending(Protocol):
    """An answer that will come."""

    is_applied: bool
    """Whether the request has taken effect, so that those behind it may be handled."""

    @property
    def work(self) -> asyncio.Future[Any] | None:
        """The work that must be finished; None for a request that is parked."""
        ...

    def listen(self, listener: Callable[[Any], None], /) -> None:
        """Have a listener called once the answer is there: from elsewhere, never from in here."""
        ...

    def framed(self) -> list[Part] | Pending:
        """Return the answer as it goes out, or what it waits for next; raises what was raised."""
        ...

    def abandon(self) -> None:
        """Learn that the client has left."""
        ...


Dispatch = Callable[["Connection", memoryview], list[Part] | Pending | Turn | None]
"""What a frame leads to: the framed answer, one that will come, none (acks=0), or a turn for which
it has to wait: it is dispatched again when that was granted."""


class Connection:
    """The broker's side of one stream. Owned by the event loop's thread."""

    __slots__ = (
        "_behind",
        "_bytes_behind",
        "_closing",
        "_dispatch",
        "_finishing",
        "_frame_limit",
        "_gone",
        "_heard",
        "_loop",
        "_memory",
        "_on_close",
        "_pending",
        "_room",
        "_stalled",
        "_stream",
        "last_active",
        "session",
        "turn",
    )

    def __init__(
        self,
        stream: Stream,
        session: Session,
        dispatch: Dispatch,
        *,
        frame_limit: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self.session = session
        """Who the client is: what handlers see of this connection."""
        self._dispatch = dispatch
        self._frame_limit = frame_limit
        self._on_close = on_close
        self._pending: Pending | None = None
        """The first answer that is still to come."""
        self._behind: deque[list[Part] | Pending | ProtocolError] = deque()
        """What is to be sent behind it, in the order of the requests. An error is the last: it
        ends the talk. So is an answer whose request has not taken effect yet."""
        self._bytes_behind = 0
        self._memory: MemoryAccount | None = None
        """What the request that waits is charged to, if it is charged."""
        self._room: asyncio.Future[None] | None = None
        """Done when the room is there that the request waits for."""
        self._stalled = False
        self._closing = False
        self._gone = False
        self._finishing = False
        self._heard = False
        self.last_active = self._loop.time()
        self.turn: Turn | None = None
        """What the large request at the head waits for; whoever dispatches it puts it here."""

    def received(self, data: memoryview) -> int:
        """Handle every whole frame and return how many bytes they took."""
        stream = self._stream
        waits = self._pending is not None and self._must_not_pass()
        if waits or stream.unsent > UNSENT_BYTES_PER_CONNECTION:
            self._stall()
            return 0
        self._heard = True
        out: list[Part] = []
        try:
            used = self._handle_frames(data, out)
        except ProtocolError as error:
            stream.send(out)
            if self._pending is None:
                self._end_talk(error)
            else:
                self._behind.append(error)
                self._stall()
            return len(data)
        if out:
            stream.send(out)
        return used

    def _handle_frames(self, data: memoryview, out: list[Part]) -> int:
        """Gather the answers to all frames, or to as many as may be handled now."""
        position, size = 0, len(data)
        unlooked, turn_end = 0, 0.0
        while position < size:
            end = frame_end(data, position, self._frame_limit)
            if end > size:
                check_announced(data, position, end)
                self._stream.expect(end - position)
                break
            answer = self._dispatch(self, data[position + PREFIX_BYTES : end])
            if isinstance(answer, list) and self._pending is None:
                out += answer
            elif isinstance(answer, Turn):
                self._stall()
                break
            elif answer is not None:
                self._wait_for(answer, end - position)
            begin, position = position, end
            full = self._pending is not None or len(out) >= PARTS_PER_WRITE
            if full and self._must_wait(out, has_more=position < size):
                break
            if position < size:
                unlooked += end - begin + REQUEST_COST
                if unlooked > COST_BETWEEN_LOOKS:
                    unlooked = 0
                    turn_end = turn_end or self._loop.time() + TURN_S
                    if self._loop.time() >= turn_end:
                        self._stall()
                        self._loop.call_soon(self.drained)
                        break
        return position

    def _must_wait(self, out: list[Part], *, has_more: bool) -> bool:
        """Send what has gathered, and tell whether nothing more may be handled for now."""
        if out:
            self._stream.send(out)
            out.clear()
        waits = self._pending is not None and self._must_not_pass()
        if not waits and self._stream.unsent <= UNSENT_BYTES_PER_CONNECTION:
            return False
        if has_more:
            self._stall()
        return True

    def _wait_for(self, answer: list[Part] | Pending, size: int) -> None:
        """Wait for an answer, or keep one until those before it have been sent."""
        if isinstance(answer, list):
            self._put_behind(answer)
            return
        if size >= KEPT_REQUEST_BYTES and not answer.is_applied:
            self._charge(size)
        if self._pending is None:
            self._wait_first(answer)
        else:
            self._behind.append(answer)

    def _wait_first(self, answer: Pending) -> None:
        self._pending = answer
        answer.listen(self._answered)

    def _put_behind(self, answer: list[Part]) -> None:
        size = _size_of(answer)
        self._behind.append(answer)
        self._bytes_behind += size
        if size >= KEPT_REQUEST_BYTES:
            self._charge(size)

    def _must_not_pass(self) -> bool:
        """Tell, while an answer is still to come, whether further requests wait for it."""
        last = self._behind[-1] if self._behind else self._pending
        if isinstance(last, ProtocolError):
            return True
        if last is not None and not isinstance(last, list) and not last.is_applied:
            return True
        return len(self._behind) >= ANSWERS_BEHIND or self._bytes_behind >= ANSWER_BYTES_BEHIND

    def _send_behind(self) -> None:
        """Send what was only waiting for the answer before it."""
        out: list[Part] = []
        error: ProtocolError | None = None
        while self._behind:
            answer = self._behind.popleft()
            if isinstance(answer, list):
                size = _size_of(answer)
                self._bytes_behind -= size
                if size >= KEPT_REQUEST_BYTES:
                    self._charge(-size)  # the stream charges what it has to keep
                out += answer
            elif isinstance(answer, ProtocolError):
                error = answer
            else:
                self._wait_first(answer)
                break
        if out:
            self._stream.send(out)
        if error is not None:
            self._end_talk(error)

    def _abandon_behind(self) -> None:
        """Give up what would be answered behind a request that has ended the talk."""
        for answer in self._behind:
            if not isinstance(answer, list | ProtocolError):
                answer.abandon()

    def _charge(self, size: int) -> None:
        memory = self._memory = self._memory or self._stream.memory
        memory.budget.charge(memory.work, memory.budget.answers, memory.work.held + size)

    def reserve(self, size: int) -> asyncio.Future[None]:
        """Ask for memory for the work on an answer, before it begins; done when it is there.

        It is given back when the answer has been handed to the stream, which charges what it has
        to keep. One whose client leaves while it waits is cancelled.
        """
        memory = self._memory = self._memory or self._stream.memory
        room = self._room = self._loop.create_future()
        memory.work.granted = self._make_room
        if memory.budget.ask(memory.work, memory.budget.answers, memory.work.held + size):
            self._make_room()
        return room

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _give_room_back(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.budget.release(memory.work)

    def _answered(self, source: Any) -> None:
        del source
        pending, self._pending = self._pending, None
        assert pending is not None
        try:
            answer = pending.framed()
        except asyncio.CancelledError:
            self._stream.abort()
            self._send_behind()  # to nobody; but work that must be finished is seen to its end
        except ProtocolError as error:
            self._end_talk(error)
            self._abandon_behind()
            self._behind.clear()
        except Exception:
            logger.exception("closing %s: a bug while answering it", self.session.peer)
            self._stream.abort()
            self._abandon_behind()
            self._behind.clear()
        else:
            if isinstance(answer, list):
                self._stream.send(answer)
                self._send_behind()
            else:
                self._wait_first(answer)
                if self._gone:  # it left when the step before this one had just been done
                    answer.abandon()
            self.drained()
        if not self._waits:
            self._give_room_back()

    def _end_talk(self, error: ProtocolError) -> None:
        """Close once what is queued was sent; what the client sends meanwhile is no request."""
        logger.info("closing %s: %s", self.session.peer, error)
        self._finishing = True
        self._stall()
        self._stream.close()

    def _stall(self) -> None:
        self._stalled = True
        self._stream.pause()

    def _go_on(self) -> None:
        if self._finishing:
            return
        if self._stalled and self._stream.unsent <= UNSENT_BYTES_PER_CONNECTION:
            self._stalled = False
            self._stream.resume()

    @property
    def _waits(self) -> bool:
        # A method of its own: mypyc takes what a function has set to None for None in all of it.
        return self._pending is not None

    def drained(self) -> None:
        """Read again: the client has taken what waited for it, or others had their turn."""
        if self._pending is None or not self._must_not_pass():
            self._go_on()

    def use_turn(self) -> None:
        """Go on with the large request at the head, whose turn has come.

        A client that has to read first would keep others from that turn. It is asked for again.
        """
        if self._stream.unsent > UNSENT_BYTES_PER_CONNECTION:
            self._loop.call_soon(self._give_turn_back)  # later: it is being granted
        else:
            self._go_on()

    def _give_turn_back(self) -> None:
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.end()

    def closed(self, error: Exception | None) -> None:
        """Let go of a parked request; one that changes things runs to its end unheard."""
        if error is not None:
            logger.debug("%s is gone: %s", self.session.peer, error)
        self._gone = True
        if self._room is not None:
            self._room.cancel()
        if self._pending is not None:
            self._pending.abandon()
        self._abandon_behind()
        self._give_turn_back()
        self._on_close(self)

    def finish(self) -> asyncio.Future[Any] | None:
        """Handle no further request; return the work under way, if any. A parked one is none."""
        self._finishing = True
        self._stall()
        last = self._behind[-1] if self._behind else self._pending
        if last is None or isinstance(last, list | ProtocolError):
            return None
        return last.work

    def idle_since(self, before: float) -> bool:
        """Tell whether the client has neither asked nor waited for anything since then.

        Whoever was heard of since the last look counts as heard of now: no request has to look at
        the clock for this.
        """
        if self._heard:
            self._heard = False
            self.last_active = self._loop.time()
        return self._pending is None and self.turn is None and self.last_active < before

    def close(self) -> None:
        """End the connection after what is queued has been sent; asked again, at once."""
        if self._closing:
            self._stream.abort()
        else:
            self._closing = True
            self._stream.close()


def _size_of(answer: list[Part]) -> int:
    """Count the bytes that an answer holds in memory; those of files are not there yet."""
    return sum(len(part) for part in answer)
