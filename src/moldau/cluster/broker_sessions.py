"""Which brokers the controller has heard of, and when. Pure: the time is told.

A broker's session is kept up by its heartbeats and ends `broker.session.timeout.ms` after the last
one. It belongs to one broker epoch. The controller alone keeps sessions, and keeps them in memory:
a broker that becomes the active controller starts all sessions anew, since it cannot know what its
predecessor heard.

A session also knows how far its broker has read the metadata. A broker that shuts down may go once
all active brokers have read who leads in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from moldau.base.ids import BrokerId
from moldau.cluster.model import Broker


class SessionKey(NamedTuple):
    """A broker's session: the broker and the epoch it was registered with."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(slots=True)
class _Session:
    last_contact_s: float
    metadata_offset: int = -1


class BrokerSessions:
    """The sessions of one controllership."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sessions: dict[SessionKey, _Session] = {}
        self._shutdown_offsets: dict[SessionKey, int] = {}

    def restart(self, brokers: Iterable[Broker], now_s: float) -> None:
        """Begin anew: every broker that is not fenced has just been heard of."""
        self._shutdown_offsets.clear()
        self._sessions = {
            SessionKey(broker.id, broker.epoch): _Session(now_s)
            for broker in brokers
            if not broker.fenced
        }

    def contact(self, key: SessionKey, metadata_offset: int, now_s: float) -> None:
        """Note a heartbeat."""
        self._sessions[key] = _Session(now_s, metadata_offset)

    def is_valid(self, key: SessionKey, now_s: float) -> bool:
        """Tell whether a session has begun and not ended."""
        session = self._sessions.get(key)
        return session is not None and not self._is_over(session, now_s)

    def take_overdue(self, now_s: float) -> SessionKey | None:
        """Forget and return the session that ended first; None while all are valid.

        One at a time, so that the effect of fencing one broker is seen before the next is fenced.
        """
        key = min(self._sessions, key=lambda one: self._sessions[one].last_contact_s, default=None)
        if key is None or not self._is_over(self._sessions[key], now_s):
            return None
        self.forget(key)
        return key

    def forget(self, key: SessionKey) -> None:
        """End a session."""
        self._sessions.pop(key, None)
        self._shutdown_offsets.pop(key, None)

    def begin_shutdown(self, key: SessionKey, offset: int) -> None:
        """Note the offset up to which others must have read before a broker may go.

        Only the first one counts. A new controller does not know it and takes its newest offset.
        """
        self._shutdown_offsets.setdefault(key, offset)

    def end_shutdown(self, key: SessionKey) -> None:
        """Forget that a broker is shutting down: it is fenced."""
        self._shutdown_offsets.pop(key, None)

    def is_shutdown_seen(self, key: SessionKey, active: Iterable[Broker]) -> bool:
        """Tell whether all these brokers have read that a broker has left its partitions."""
        offset = self._shutdown_offsets.get(key)
        return offset is not None and all(
            self._metadata_offset(SessionKey(broker.id, broker.epoch)) >= offset
            for broker in active
        )

    def _metadata_offset(self, key: SessionKey) -> int:
        session = self._sessions.get(key)
        return -1 if session is None else session.metadata_offset

    def _is_over(self, session: _Session, now_s: float) -> bool:
        return session.last_contact_s + self._timeout_s < now_s
