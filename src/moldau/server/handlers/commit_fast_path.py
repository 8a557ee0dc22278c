"""The fast path of OffsetCommit: the commit that a consumer of one partition sends, not decoded.

It names one topic and one partition and has no metadata. All such requests of a member for a
partition have the same prefix, from the client id up to the partition's index, end with the same
four bytes, and have an offset and a leader epoch in between; their answers differ in the
correlation id only. This module knows where what stands; the rest is `network.fast_path`.

Known prefixes are forgotten when the metadata changes: a topic may come back with another id.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.cluster.changes import Change
from moldau.cluster.image import MetadataImage
from moldau.coordination.groups.repeated_commit import RepeatedCommit
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.host import Host
from moldau.coordination.runtime import Runtime
from moldau.observe.requests import RequestStats
from moldau.protocol.compiler import encode
from moldau.protocol.errors import ErrorCode
from moldau.protocol.frame_template import FrameTemplate
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.security.session import Session
from moldau.server.handlers.group_offsets import GroupOffsetHandlers
from moldau.server.network.fast_path import PREFIX_START, KnownRequest, PrefixFastPath

OFFSET_COMMIT_KEY: Final = 8
FIRST_VERSION, LAST_VERSION = 8, 10
"""Those with the flexible encoding; older clients take the slow path."""

LARGEST_KNOWN: Final = 1024
"""Names of the usual lengths take a quarter of it. Bounds what is kept: some megabytes."""

_CLIENT_ID: Final = Struct(">8xh").unpack_from
"""The length of the client id."""
_GROUP: Final = PREFIX_START + 2 + 1
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


class KnownCommit(KnownRequest):
    """The commits with one prefix: the host that decides on them, and what they have in common."""

    __slots__ = ("host", "repeated")

    def __init__(
        self, template: FrameTemplate, host: Host[GroupShard], repeated: RepeatedCommit
    ) -> None:
        super().__init__(template)
        self.host = host
        self.repeated = repeated


class CommitFastPath(PrefixFastPath[KnownCommit]):
    """Answers commits whose prefix is known."""

    def __init__(
        self,
        handlers: GroupOffsetHandlers,
        runtime: Runtime[GroupShard],
        stats: RequestStats,
        clock: Clock,
    ) -> None:
        super().__init__(stats, clock)
        self._handlers = handlers
        self._runtime = runtime

    def metadata_changed(self, changes: Sequence[Change], image: MetadataImage) -> None:
        """Learn anew: a topic may be gone, or have come back with another id."""
        del changes, image
        self.forget_all()

    def prefix_of(self, frame: memoryview, version: int) -> bytes | None:
        del version
        size = len(frame)
        if not _FIXED_SIZE <= size <= LARGEST_KNOWN:
            return None
        return bytes(frame[PREFIX_START : size - _END_SIZE])

    def understand(self, frame: memoryview, prefix: bytes, version: int) -> KnownCommit | None:
        del prefix
        if not FIRST_VERSION <= version <= LAST_VERSION or not _may_be_usual(frame):
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
        return KnownCommit(_answer_template(repeated, version), host, repeated)

    def carry_out(
        self, known: KnownCommit, frame: memoryview, session: Session, began: float
    ) -> bytes | None:
        del session
        offset, leader_epoch, end = _READ_END(frame, len(frame) - _END_SIZE)
        if end not in _NO_METADATA:
            return None
        asked = (known.repeated, offset, leader_epoch)
        return b"" if known.host.write_at_once(_DECIDE, _REPLAY, asked, began) else None

    def is_outdated(self, known: KnownCommit) -> bool:
        return known.host.refusal is not _NO_ERROR  # it has ended, or loads: another may serve


def _may_be_usual(frame: memoryview) -> bool:
    """Look at the end, and at both counts where they stand if no name is long; decode nothing."""
    if _READ_END(frame, len(frame) - _END_SIZE)[2] not in _NO_METADATA:
        return False
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


def _answer_template(commit: RepeatedCommit, version: int) -> FrameTemplate:
    result = OffsetCommitResponsePartition(commit.partition, ErrorCode.NONE)
    topic = OffsetCommitResponseTopic(commit.topic, commit.topic_id, [result])
    response = OffsetCommitResponse(topics=[topic])
    return FrameTemplate(encode_response(find_api(OFFSET_COMMIT_KEY), version, 0, response))
