"""Fetch sessions: say to a broker only what changed since the last fetch (KIP-227).

The broker remembers the partitions of a session and what it told of each. A request names those
that are new or have moved and those to forget; the answer names those with news. Both sides count
the requests, so a lost one is noticed and the session begun again. One session per broker.

    request (id 0, epoch 0) everything wanted   -> answer names the session, or 0 for none
    request (id, epoch 1..) changes             -> answer: partitions with news
    request (id, epoch 0)   everything wanted   -> ends the old session, begins a new one
    request (id, epoch -1)                      -> ends the session

With topic ids (Fetch 13+), a topic that was created again is another topic: what the session knew
under the old id is forgotten under the old id.

Pure: it remembers and decides; the fetcher sends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.engine.partitions import TopicPartition
from moldau.protocol.errors import ErrorCode

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class FetchPosition(NamedTuple):
    """What is to be fetched of one partition; equal to what the session knows, it is not sent."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class SessionRequest(NamedTuple):
    """What to write into the next fetch request."""

    session_id: int
    epoch: int
    send: dict[TopicPartition, FetchPosition]
    forget: list[tuple[bytes, TopicPartition]]


class FetchSession:
    """One broker's session, seen from the client."""

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._known: dict[TopicPartition, FetchPosition] = {}
        self.failure_count = 0
        """How many answers in a row ended the session."""

    @property
    def session_id(self) -> int:
        """The session the broker keeps for us; 0 if there is none."""
        return self._session_id

    @property
    def wanted(self) -> Mapping[TopicPartition, FetchPosition]:
        """What the broker was asked for with the last request: only of this may it tell."""
        return self._known

    def request(self, wanted: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
        """Decide what the next request must say so that the broker knows what is wanted."""
        before, self._known = self._known, dict(wanted)
        if self._epoch == FIRST_EPOCH:
            return SessionRequest(self._session_id, FIRST_EPOCH, self._known, [])
        send = {
            partition: want for partition, want in wanted.items() if before.get(partition) != want
        }
        forget = [
            (old.topic_id, partition)
            for partition, old in before.items()
            if (new := wanted.get(partition)) is None or new.topic_id != old.topic_id
        ]
        return SessionRequest(self._session_id, self._epoch, send, forget)

    def answered(
        self, error: ErrorCode, session_id: int, partitions: Collection[TopicPartition]
    ) -> bool:
        """Take note of an answer; False means that the session must begin again.

        After False nothing of the answer may be used.
        """
        self.failure_count += 1
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self._epoch = FIRST_EPOCH
            return False
        full = self._epoch == FIRST_EPOCH
        if not self._fits(partitions, session_id, full=full):
            self._epoch = FIRST_EPOCH
            return False
        self.failure_count = 0
        if full:
            self._session_id = session_id
            self._epoch = FIRST_EPOCH if session_id == NO_SESSION else 1
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def _fits(self, partitions: Collection[TopicPartition], session_id: int, *, full: bool) -> bool:
        """Tell whether an answer speaks of this session, and of what it was asked for.

        A full answer speaks of all of it; otherwise the broker keeps another session than we think.
        """
        if full:
            return self._known.keys() == frozenset(partitions)
        return session_id in (self._session_id, NO_SESSION) and all(
            partition in self._known for partition in partitions
        )

    def lost(self) -> None:
        """Begin again: whether the broker saw the last request is unknown.

        The old id goes along, so that a broker that still has the session lets it go.
        """
        self._epoch = FIRST_EPOCH
