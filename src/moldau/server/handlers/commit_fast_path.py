"""The fast path of OffsetCommit: the commit that a consumer of one partition sends, not decoded.

It names one topic and one partition and has no metadata. All such requests of a member for a
partition have the same prefix, from the client id up to the partition's index, end with the same
four bytes, and have an offset and a leader epoch in between; their answers differ in the
correlation id only. So the first request is decoded, and its meaning is remembered by its prefix
(`produce_fast_path` does the same for Produce). The compiled codecs give the meaning of a prefix
and the template of its answer.

Known prefixes are forgotten when the metadata changes: a topic may come back with another id.

Requests of another shape, and those that cannot be answered at once with success, are left to
`GroupOffsetHandlers` with nothing done: `answer` returns None. A miss costs a look at some bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.network import Part
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.coordination.groups.repeated_commit import RepeatedCommit
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.host import Host
from moldau.coordination.runtime import Runtime
from moldau.observe.requests import RequestStats
from moldau.protocol.compiler import encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.security.session import Principal, Session
from moldau.server.handlers.group_offsets import GroupOffsetHandlers

OFFSET_COMMIT_KEY: Final = 8
FIRST_VERSION, LAST_VERSION = 8, 10
"""Those with the flexible encoding; older clients take the slow path."""

PREFIXES_KEPT: Final = 4096
"""Clients choose the names in a prefix: beyond this many prefixes all are learned anew."""
LARGEST_KNOWN: Final = 1024
"""Names of the usual lengths take a quarter of it. Bounds what is kept: some megabytes."""

_VERSION: Final = Struct(">2xh").unpack_from
_CORRELATION_ID: Final = 4
_PREFIX: Final = 8
"""Where a prefix begins, behind the correlation id."""
_CLIENT_ID: Final = Struct(">8xh").unpack_from
"""The length of the client id."""
_GROUP: Final = 8 + 2 + 1
"""Where the group would begin if the client id were empty: behind its length and the tags."""
_GENERATION_SIZE: Final = 4

_END: Final = Struct(">qiI")
"""Offset, leader epoch, and no metadata with no tags of partition, topic and request."""
_READ_END: Final = _END.unpack_from
_END_SIZE: Final = _END.size
_NO_METADATA: Final = (0x01_00_00_00, 0x00_00_00_00)
"""An empty string, and none: kept alike."""

_PARTITIONS: Final = _END_SIZE + 4 + 1
"""From the end to the number of partitions, before the index."""
_ONE: Final = 2
"""How a compact array says that it has one element."""
_FIXED_SIZE: Final = _GROUP + _GENERATION_SIZE + _PARTITIONS
"""Less than any commit has."""


_NO_ERROR: Final = ErrorCode.NONE
_DECIDE: Final = GroupShard.commit_again
_REPLAY: Final = GroupShard.committed_again


_Prefix: TypeAlias = tuple[Principal, bytes]
"""Who asks, and the bytes: what one principal may do is not known of another."""


class _Known(NamedTuple):
    """The meaning of a prefix, who decides on it, and its answer around the correlation id."""

    version: int
    host: Host[GroupShard]
    repeated: RepeatedCommit
    size: bytes
    rest: bytes


class CommitFastPath:
    """Answers commits whose prefix is known."""

    def __init__(
        self,
        handlers: GroupOffsetHandlers,
        runtime: Runtime[GroupShard],
        stats: RequestStats,
        clock: Clock,
    ) -> None:
        self._handlers = handlers
        self._runtime = runtime
        self._stats = stats
        self._clock = clock
        self._known: dict[_Prefix, _Known] = {}

    def metadata_changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Learn anew: a topic may be gone, or have come back with another id."""
        del changes, image
        self._known.clear()

    def answer(self, frame: memoryview, session: Session) -> list[Part] | None:
        """Handle the request in this frame, or return None with nothing done."""
        monotonic = self._clock.monotonic
        began = monotonic()
        size = len(frame)
        if not _FIXED_SIZE <= size <= LARGEST_KNOWN:
            return None
        content = bytes(frame)  # cutting pieces from views would cost more
        offset, leader_epoch, end = _READ_END(content, size - _END_SIZE)
        if end not in _NO_METADATA:
            return None
        prefix = (session.principal, content[_PREFIX:-_END_SIZE])
        known = self._known.get(prefix)
        if known is None or known[0] != _VERSION(content)[0]:
            known = self._learn(prefix, frame)
            if known is None:
                return None
        _, host, repeated, answer_size, rest = known
        if not host.write_at_once(_DECIDE, _REPLAY, (repeated, offset, leader_epoch), began):
            if host.refusal is not _NO_ERROR:  # it has ended, or loads: another may serve
                self._known.pop(prefix, None)
            return None
        self._stats.answered(size, monotonic() - began)
        return [b"".join((answer_size, content[_CORRELATION_ID:_PREFIX], rest))]

    def _learn(self, prefix: _Prefix, frame: memoryview) -> _Known | None:
        """Decode a request with a new prefix; remember it if it is of the shape served here."""
        (version,) = _VERSION(frame)
        if not FIRST_VERSION <= version <= LAST_VERSION or not _may_have_one_partition(frame):
            return None
        try:
            header = decode_header(frame)
            request = decode_request(header, frame)
        except ProtocolError:
            return None
        # With tags that we do not know, or bytes behind it, the end would not be where it is read.
        if encode(request, version) != frame[header.end :] or not _has_one_partition(request):
            return None
        repeated = self._handlers.repeated(request, version)
        host = self._runtime.host_for(request.group_id)
        if repeated is None or host is None:
            return None
        if len(self._known) >= PREFIXES_KEPT:
            self._known.clear()
        around = _answer_around(repeated, version)
        known = self._known[prefix] = _Known(version, host, repeated, *around)
        return known


def _may_have_one_partition(frame: memoryview) -> bool:
    """Look at both counts where they stand if no name is long, before anything is decoded."""
    try:
        position = _GROUP + max(0, *_CLIENT_ID(frame))
        position += frame[position] + _GENERATION_SIZE
        position += frame[position]
        position += frame[position] or 1
        return frame[position] == _ONE and frame[-_PARTITIONS] == _ONE
    except IndexError:
        return False


def _has_one_partition(request: OffsetCommitRequest) -> bool:
    return len(request.topics) == 1 and len(request.topics[0].partitions) == 1


def _answer_around(commit: RepeatedCommit, version: int) -> tuple[bytes, bytes]:
    """Encode an answer and cut it around the correlation id."""
    result = OffsetCommitResponsePartition(commit.partition, ErrorCode.NONE)
    topic = OffsetCommitResponseTopic(commit.topic, commit.topic_id, [result])
    parts = encode_response(
        find_api(OFFSET_COMMIT_KEY), version, 0, OffsetCommitResponse(topics=[topic])
    )
    answer = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
    return answer[:4], answer[8:]
