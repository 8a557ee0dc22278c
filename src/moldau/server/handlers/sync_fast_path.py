"""The fast path of SyncGroup: the sync of a member whose assignment is there, not decoded.

When a large group rebalances, all members but one send the same SyncGroup at the same time: group,
generation and protocol are one, and only the member's id differs. The answers differ in the
assignment. So the first request is decoded, and its meaning is remembered by the bytes before the
member's id and behind it; later requests are recognised by theirs (`produce_fast_path` does the
same for Produce). The compiled codecs give the meaning of a request and the template of its
answer; the group decides as it does for every sync. It takes less than half of the time of the
slow path.

Requests of another shape (a leader's sync, a static member's), and those that cannot be answered
at once with an assignment, are left to `GroupHandlers.sync` with nothing done: `answer` returns
None.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.network import Part
from moldau.observe.requests import RequestStats
from moldau.protocol.compiler import encode
from moldau.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.protocol.wire import uvarint
from moldau.security.session import Principal, Session
from moldau.server.handlers.groups import GroupHandlers

SYNC_GROUP_KEY: Final = 14
VERSION: Final = 5
"""The newest, which clients have spoken since Kafka 2.5; others take the slow path."""

REQUESTS_KEPT: Final = 256
"""One for each generation that comes together at present; beyond this many all are learned anew."""

REQUEST_SIZE_MAX: Final = 1024
"""Longer names than fit into this are not worth being remembered."""

_START: Final = struct.Struct(">2xh4xh").unpack_from
"""Version and length of the client id."""
_CORRELATION_ID: Final = slice(4, 8)
_TAGS: Final = 10
"""Where the header's tags would be if the client id were empty; the group follows them."""
_GENERATION_SIZE: Final = 4
_SHORT_MAX: Final = 0x7F
"""The longest text whose length takes one byte, plus one."""
_NO_INSTANCE: Final = b"\x00"
"""Behind the id of a member that is not static."""
_NO_ASSIGNMENTS: Final = b"\x01\x00"
"""An empty array, and no tags: how the request of whoever does not lead ends."""
_MARK: Final = b"the assignment"
"""Stands for the assignment in the answer that is cut to pieces."""


_Around: TypeAlias = tuple[Principal, bytes, bytes]
"""Who asks, and the bytes before and behind the member's id: what one principal may do is not
known of another."""


class _Known(NamedTuple):
    """A decoded request, and the template of its answer before and behind the assignment.

    The request's member id is set to that of the member who asks.
    """

    request: SyncGroupRequest
    before: bytes
    after: bytes


class SyncFastPath:
    """Answers syncs that are known but for the member's id."""

    def __init__(self, handlers: GroupHandlers, stats: RequestStats, clock: Clock) -> None:
        self._handlers = handlers
        self._stats = stats
        self._clock = clock
        self._known: dict[_Around, _Known] = {}

    def answer(self, frame: memoryview, session: Session) -> list[Part] | None:
        """Handle the request in this frame, or return None with nothing done."""
        began = self._clock.monotonic()
        if len(frame) > REQUEST_SIZE_MAX or bytes(frame[-2:]) != _NO_ASSIGNMENTS:
            return None
        known = self._recognise(frame, session.principal)
        if known is None:
            return None
        request, before, after = known
        assignment = self._handlers.sync_at_once(request)
        if assignment is None:
            return None
        length = uvarint(len(assignment) + 1)
        size = 4 + len(before) + len(length) + len(assignment) + len(after)
        answer = (size.to_bytes(4), frame[_CORRELATION_ID], before, length, assignment, after)
        self._stats.answered(len(frame), self._clock.monotonic() - began)
        return [b"".join(answer)]

    def _recognise(self, frame: memoryview, principal: Principal) -> _Known | None:
        """Find what stands around the member's id among what is known, and put the id in."""
        try:
            version, name_size = _START(frame)
            tags = _TAGS + name_size
            member = tags + 1 + frame[tags + 1] + _GENERATION_SIZE
            member_size = frame[member]
        except (IndexError, struct.error):
            return None
        if version != VERSION or name_size < 0 or not 1 < member_size <= _SHORT_MAX:
            return None
        end = member + member_size
        around = (principal, bytes(frame[tags:member]), bytes(frame[end:]))
        known = self._known.get(around) or self._learn(around, frame, tags)
        if known is not None:
            try:
                known.request.member_id = str(frame[member + 1 : end], "utf-8")
            except UnicodeDecodeError:
                return None
        return known

    def _learn(self, around: _Around, frame: memoryview, tags: int) -> _Known | None:
        """Decode a request that is new around its member's id; remember it if it has the shape."""
        _, before, behind = around
        if not behind.startswith(_NO_INSTANCE):
            return None
        try:
            header = decode_header(frame)
            request: SyncGroupRequest = decode_request(header, frame)
        except ProtocolError:
            return None
        # With tags that we do not know, or long names, things stand elsewhere than looked for.
        names_are_short = len(before) == 1 + 1 + len(request.group_id.encode()) + _GENERATION_SIZE
        no_tags = header.end == tags + 1 and encode(request, VERSION) == frame[header.end :]
        names_all = request.group_id and None not in (request.protocol_type, request.protocol_name)
        if not (names_are_short and no_tags and names_all):
            return None
        if len(self._known) >= REQUESTS_KEPT:
            self._known.clear()
        known = self._known[around] = _Known(request, *_answer_around(request))
        return known


def _answer_around(request: SyncGroupRequest) -> tuple[bytes, bytes]:
    """Encode an answer and cut it where one answer differs from another."""
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=_MARK,
    )
    parts = encode_response(find_api(SYNC_GROUP_KEY), VERSION, 0, response)
    answer = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    marked = uvarint(len(_MARK) + 1) + _MARK
    before, _, after = answer[8:].rpartition(marked)
    return before, after
