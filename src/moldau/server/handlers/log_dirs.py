"""DescribeLogDirs 0-5: what lies in which log directory.

A partition that is asked for twice is told once, as by Kafka.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path

from moldau.base.files import Files
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold_partitions, itself, sort
from moldau.server.network.slices import Sliced
from moldau.storage.directory import LogDirectory
from moldau.storage.manager import LogManager


class LogDirHandler:
    """Answers DescribeLogDirs."""

    def __init__(self, logs: LogManager, files: Files) -> None:
        self._logs = logs
        self._files = files

    def __call__(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> Sliced[DescribeLogDirsResponse]:
        del context
        wanted = None
        if request.topics is not None:
            wanted = (
                yield from fold_partitions(
                    ((topic.topic, topic.partitions) for topic in request.topics), itself
                )
            ).topics
        response = DescribeLogDirsResponse()
        for directory in self._logs.directories:
            response.results.append((yield from self._described(directory, wanted)))
        return response

    def _described(
        self, directory: LogDirectory, wanted: Mapping[str, Container[int]] | None
    ) -> Sliced[DescribeLogDirsResult]:
        # A client cannot know what a relative path is relative to.
        path = str(Path(directory.path).absolute())
        if directory.offline:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for key in (yield from sort(tuple(directory.logs))):
            log = directory.logs.get(key)
            if log is not None and (wanted is None or key.partition in wanted.get(key.topic, ())):
                topic = topics.setdefault(key.topic, DescribeLogDirsTopic(key.topic))
                topic.partitions.append(DescribeLogDirsPartition(key.partition, log.size))
            yield
        try:
            total, usable = self._files.space(directory.path)
        except OSError:
            return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)
        return DescribeLogDirsResult(
            0,
            path,
            list(topics.values()),
            total_bytes=total,
            usable_bytes=usable,
            is_cordoned=directory.path in self._logs.cordoned,
        )
