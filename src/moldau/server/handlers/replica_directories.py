"""AlterReplicaLogDirs 0-2: which log directory a replica is to lie in.

A replica that is where it is wanted is told so. Replicas are not moved between directories; a
request for that is refused. Of a partition named twice the last mention counts, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.base.ids import PartitionKey
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold
from moldau.server.network.slices import Sliced
from moldau.storage.manager import LogManager

WantedDirectory = tuple[PartitionKey, str]
"""A replica, and the path it is to lie in."""


class ReplicaDirectoryHandler:
    """Answers AlterReplicaLogDirs."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs

    def __call__(
        self, request: AlterReplicaLogDirsRequest, context: RequestContext
    ) -> Sliced[AlterReplicaLogDirsResponse]:
        """Say of each replica whether it lies where it is wanted."""
        del context
        wanted = yield from fold(_wanted(request), lambda one: one[0])
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for key, path in wanted.elements.values():
            topic = topics.setdefault(key.topic, AlterReplicaLogDirTopicResult(key.topic))
            code = self._code(key, path)
            topic.partitions.append(AlterReplicaLogDirPartitionResult(key.partition, code))
            yield
        return AlterReplicaLogDirsResponse(results=list(topics.values()))

    def _code(self, key: PartitionKey, path: str) -> ErrorCode:
        directory = next((one for one in self._logs.directories if one.path == path), None)
        if directory is None or directory.offline:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if self._logs.get(key) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if key in directory.logs else ErrorCode.UNSUPPORTED_VERSION


def _wanted(request: AlterReplicaLogDirsRequest) -> Iterator[WantedDirectory]:
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                yield PartitionKey(topic.name, index), directory.path
