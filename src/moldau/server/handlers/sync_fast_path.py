"""The fast path of SyncGroup: the sync of a member whose assignment is there, not decoded.

When a large group rebalances, all members but one send the same SyncGroup at the same time: group,
generation and protocol are one, and only the member's id differs. The answers differ in the
assignment. The bytes before the member's id and behind it are the prefix here. This module knows
where they stand; the rest is `network.fast_path`, and the group decides as it does for every sync.

A leader's sync and a static member's are of another shape.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.observe.requests import RequestStats
from moldau.protocol.compiler import encode
from moldau.protocol.frame_template import FrameTemplate
from moldau.protocol.messages.groups import SyncGroupRequest, SyncGroupResponse
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.protocol.wire import uvarint
from moldau.server.handlers.groups import GroupHandlers
from moldau.server.network.fast_path import PrefixFastPath

SYNC_GROUP_KEY: Final = 14
VERSION: Final = 5
"""The newest, which clients have spoken since Kafka 2.5; others take the slow path."""

REQUEST_SIZE_MAX: Final = 1024
"""Longer names than fit into this are not worth being remembered."""

_START: Final = struct.Struct(">2xh4xh").unpack_from
"""Version and length of the client id."""
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

_Around: TypeAlias = tuple[bytes, bytes]
"""The bytes before and behind the member's id."""


class SyncFastPath(PrefixFastPath[_Around, SyncGroupRequest, bytes]):
    """Answers syncs that are known but for the member's id, which is what differs."""

    def __init__(self, handlers: GroupHandlers, stats: RequestStats, clock: Clock) -> None:
        super().__init__(stats, clock)
        self._handlers = handlers

    def split(self, frame: memoryview) -> tuple[_Around, bytes] | None:
        if len(frame) > REQUEST_SIZE_MAX or bytes(frame[-2:]) != _NO_ASSIGNMENTS:
            return None
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
        return (bytes(frame[tags:member]), bytes(frame[end:])), bytes(frame[member + 1 : end])

    def understand(
        self, frame: memoryview, prefix: _Around
    ) -> tuple[SyncGroupRequest, FrameTemplate] | None:
        before, behind = prefix
        if not behind.startswith(_NO_INSTANCE):
            return None
        try:
            header = decode_header(frame)
            request: SyncGroupRequest = decode_request(header, frame)
        except ProtocolError:
            return None
        # With tags that we do not know, or long names, things stand elsewhere than looked for.
        names_are_short = len(before) == 1 + 1 + len(request.group_id.encode()) + _GENERATION_SIZE
        tags = _TAGS + _START(frame)[1]
        no_tags = header.end == tags + 1 and encode(request, VERSION) == frame[header.end :]
        names_all = request.group_id and None not in (request.protocol_type, request.protocol_name)
        if not (names_are_short and no_tags and names_all):
            return None
        return request, _answer_template(request)

    def carry_out(self, meaning: SyncGroupRequest, variable: bytes, began: float) -> bytes | None:
        del began
        try:
            meaning.member_id = variable.decode()
        except UnicodeDecodeError:
            return None
        assignment = self._handlers.sync_at_once(meaning)
        return None if assignment is None else uvarint(len(assignment) + 1) + assignment


def _answer_template(request: SyncGroupRequest) -> FrameTemplate:
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=_MARK,
    )
    parts = encode_response(find_api(SYNC_GROUP_KEY), VERSION, 0, response)
    return FrameTemplate(parts, uvarint(len(_MARK) + 1) + _MARK)
