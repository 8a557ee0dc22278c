"""Converting what an old Fetch found into messages that its client can read.

The bytes are read and converted piece by piece, in another process. What one request may have
converted is limited (`CONVERTED_FETCH_BYTES`): a megabyte on the disk may inflate to a hundred
times as much. A client gets what fits and asks for the rest. At least one batch always fits, or is
refused with an error, so that every request gets its client further. Requests begin with another
partition each, so that the last ones of a long list get their turn.

This module knows neither sessions nor parked requests. It changes the answer it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from moldau.base.errors import BatchTooLarge, CorruptRecords, StorageError
from moldau.base.executor import Executor, Lane, WorkerLost, WorkTooLong
from moldau.base.files import FileRegion
from moldau.base.limits import CONVERTED_FETCH_BYTES, CONVERTED_PIECE_BYTES
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.data import FetchablePartitionResponse, FetchResponse
from moldau.records.conversion import Converted, down_convert

_FAILURES: Final = (OSError, CorruptRecords, ApiError, WorkerLost, WorkTooLong)


class FetchConversion:
    """Converts answers of one broker."""

    def __init__(self, executor: Executor, storage_failed: Callable[[StorageError], None]) -> None:
        self._executor = executor
        self._storage_failed = storage_failed
        self._request_count = 0

    async def convert(self, response: FetchResponse, magic: int) -> None:
        """Put messages of this magic in the place of the regions that an answer names."""
        partitions = [
            partition
            for topic in response.responses
            for partition in topic.partitions
            if partition.records
        ]
        if not partitions:
            return
        first = self._request_count % len(partitions)
        self._request_count += 1
        left = CONVERTED_FETCH_BYTES
        for partition in partitions[first:] + partitions[:first]:
            left -= await self._convert_partition(partition, magic, left)

    async def _convert_partition(
        self, partition: FetchablePartitionResponse, magic: int, left: int
    ) -> int:
        """Convert as much of a partition as fits; return how many bytes it inflated to."""
        regions = cast("tuple[FileRegion, ...]", partition.records)
        messages: list[bytes] = []
        inflated = 0
        try:
            for region in regions:
                position = 0
                while position < region.size and inflated < left:
                    piece = await self._convert_piece(region, position, magic, left - inflated)
                    if not piece.consumed:
                        break
                    messages.append(piece.messages)
                    position += piece.consumed
                    inflated += piece.inflated
        except _FAILURES as failure:
            # What was converted before the failure goes out; the next request meets it first.
            if not messages:
                partition.error_code = self._code_of(failure, regions[0])
        partition.records = b"".join(messages)
        return inflated

    async def _convert_piece(
        self, region: FileRegion, position: int, magic: int, limit: int
    ) -> Converted:
        """Convert the batches that begin here; none if a whole one is not in the region."""
        left = region.size - position
        size = min(left, CONVERTED_PIECE_BYTES)
        while True:
            data = await self._executor.run(region.file.read, region.position + position, size)
            if region.position + region.size > region.file.intact_end:
                # The log was truncated, as a follower's is: this broker does not lead any more.
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            piece = await self._executor.compute(Lane.READS, down_convert, data, magic, limit)
            if not size < piece.needed <= left:
                return piece
            size = piece.needed

    def _code_of(self, failure: Exception, region: FileRegion) -> ErrorCode:
        """Say what a client is told. Clients of this age take most errors for fatal."""
        if isinstance(failure, ApiError):
            return failure.code
        if isinstance(failure, OSError):
            self._storage_failed(StorageError(region.file.path, str(failure)))
            return ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(failure, WorkerLost):
            # Of all errors, one that consumers of this age take for a reason to ask again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(failure, WorkTooLong | BatchTooLarge):
            # Kafka's answer where batches are not converted (message.downconversion.enable).
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.CORRUPT_MESSAGE
