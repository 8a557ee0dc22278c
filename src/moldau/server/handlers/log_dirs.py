"""DescribeLogDirs 0-5: what lies in which log directory."""

from __future__ import annotations

from moldau.base.files import Files
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.server.dispatch import RequestContext
from moldau.storage.directory import LogDirectory
from moldau.storage.manager import LogManager


class LogDirHandler:
    """Answers DescribeLogDirs."""

    def __init__(self, logs: LogManager, files: Files) -> None:
        self._logs = logs
        self._files = files

    def __call__(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> DescribeLogDirsResponse:
        del context
        wanted = None
        if request.topics is not None:
            wanted = {
                (topic.topic, index) for topic in request.topics for index in topic.partitions
            }
        return DescribeLogDirsResponse(
            results=[self._described(directory, wanted) for directory in self._logs.directories]
        )

    def _described(
        self, directory: LogDirectory, wanted: set[tuple[str, int]] | None
    ) -> DescribeLogDirsResult:
        if directory.offline:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for key, log in sorted(directory.logs.items()):
            if wanted is None or key in wanted:
                topic = topics.setdefault(key.topic, DescribeLogDirsTopic(key.topic))
                topic.partitions.append(DescribeLogDirsPartition(key.partition, log.size))
        try:
            total, usable = self._files.space(directory.path)
        except OSError:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path)
        return DescribeLogDirsResult(
            0, directory.path, list(topics.values()), total_bytes=total, usable_bytes=usable
        )
