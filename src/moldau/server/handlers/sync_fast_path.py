"""The fast path of SyncGroup: the sync of a member whose assignment is there, not decoded.

When a large group rebalances, all members but one send the same SyncGroup at the same time: group,
generation and protocol are one, and only the member's id differs. The answers differ in the
assignment. The bytes before the member's id and behind it are the prefix here. This module knows
where they stand; the rest is `network.fast_path`, and the group decides as it does for every sync.

A leader's sync and a static member's are of another shape.
"""

from __future__ import annotations

import struct
from typing import Final

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.observe.requests import RequestStats
from moldau.protocol.compiler import encode
from moldau.protocol.frame_template import FrameTemplate
from moldau.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.protocol.wire import uvarint
from moldau.security.session import Session
from moldau.server.handlers.groups import GroupHandlers
from moldau.server.network.fast_path import KnownRequest, PrefixFastPath

SYNC_GROUP_KEY: Final = 14
VERSION: Final = 5
"""The newest, which clients have spoken since Kafka 2.5; others take the slow path."""

REQUEST_SIZE_MAX: Final = 1024
"""Longer names than fit into this are not worth being remembered."""

_CLIENT_ID_SIZE: Final = struct.Struct(">8xh").unpack_from
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
"""Stands for the assignment in the answer that becomes the template."""


class KnownSync(KnownRequest):
    """The syncs of one generation: what they ask for, and what stands around a member's id."""

    __slots__ = ("after_size", "before_size", "request")

    def __init__(self, request: SyncGroupRequest, before_size: int, after_size: int) -> None:
        super().__init__(_answer_template(request))
        self.request = request
        self.before_size = before_size
        """From the header's tags to the length of the id."""
        self.after_size = after_size
        """From the end of the id to the end of the frame."""


class SyncFastPath(PrefixFastPath[KnownSync]):
    """Answers syncs that are known but for the member's id, which is what differs."""

    def __init__(self, handlers: GroupHandlers, stats: RequestStats, clock: Clock) -> None:
        super().__init__(stats, clock)
        self._handlers = handlers

    def prefix_of(self, frame: memoryview, version: int) -> bytes | None:
        size = len(frame)
        if version != VERSION or size > REQUEST_SIZE_MAX or bytes(frame[-2:]) != _NO_ASSIGNMENTS:
            return None
        try:
            (name_size,) = _CLIENT_ID_SIZE(frame)
            tags = _TAGS + name_size
            member = tags + 1 + frame[tags + 1] + _GENERATION_SIZE
            member_size = frame[member]
        except (IndexError, struct.error):
            return None
        if name_size < 0 or not 1 < member_size <= _SHORT_MAX:
            return None
        # Both in one: the length of the group says where the first ends.
        return bytes(frame[tags:member]) + bytes(frame[member + member_size :])

    def understand(self, frame: memoryview, prefix: bytes, version: int) -> KnownSync | None:
        before_size = 1 + prefix[1] + _GENERATION_SIZE
        if not prefix.startswith(_NO_INSTANCE, before_size):
            return None
        try:
            header = decode_header(frame)
            request: SyncGroupRequest = decode_request(header, frame)
        except ProtocolError:
            return None
        # With tags that we do not know, or long names, things stand elsewhere than looked for.
        names_are_short = before_size == 1 + 1 + len(request.group_id.encode()) + _GENERATION_SIZE
        tags = _TAGS + _CLIENT_ID_SIZE(frame)[0]
        no_tags = header.end == tags + 1 and encode(request, version) == frame[header.end :]
        names_all = request.group_id and None not in (request.protocol_type, request.protocol_name)
        if not (names_are_short and no_tags and names_all):
            return None
        return KnownSync(request, before_size, len(prefix) - before_size)

    def carry_out(
        self, known: KnownSync, frame: memoryview, session: Session, began: float
    ) -> bytes | None:
        del session, began
        member = _TAGS + _CLIENT_ID_SIZE(frame)[0] + known.before_size
        try:
            member_id = bytes(frame[member + 1 : len(frame) - known.after_size]).decode()
        except UnicodeDecodeError:
            return None
        request = known.request
        request.member_id = member_id
        assignment = self._handlers.sync_at_once(request)
        return None if assignment is None else uvarint(len(assignment) + 1) + assignment


def _answer_template(request: SyncGroupRequest) -> FrameTemplate:
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=_MARK,
    )
    parts = encode_response(find_api(SYNC_GROUP_KEY), VERSION, 0, response)
    return FrameTemplate(parts, uvarint(len(_MARK) + 1) + _MARK)
