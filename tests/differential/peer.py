"""One broker under questions: asks, writes down, and keeps what the next question needs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka_harness.broker import BrokerProcess
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.protocol.messages.data import (
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ProduceResponse,
)
from moldau.protocol.messages.metadata import (
    DescribeClusterRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.protocol.registry import api_of
from process.raw_client import RawClient

from .plain import Names, plain

CLOSED = "the connection was closed"
SETTLE_TIMEOUT_S = 60
PAUSE_S = 0.002

Versions = Mapping[int, range]
"""The versions in which each API, by its key, is asked."""


class Peer:
    """A broker, the record of its answers, and the names of its own choices."""

    def __init__(
        self, broker: BrokerProcess, versions: Versions, newest: Mapping[int, int]
    ) -> None:
        self.broker = broker
        self.record: dict[str, Any] = {}
        self.names = Names(broker.host, broker.port, str(broker.data))
        self._versions = versions
        self._newest = newest
        self._topics: dict[str, bytes] = {}
        self._client: RawClient | None = None
        self._prefix = ""
        self.names.cluster_id = self.call(DescribeClusterRequest()).cluster_id

    # One conversation

    @contextlib.contextmanager
    def recording(self, prefix: str) -> Iterator[dict[str, Any]]:
        """Start a new record; topic names begin with `prefix`, so that scenarios do not meet."""
        self.record = {}
        self.names.members.clear()
        self.names.producers.clear()
        self._prefix = prefix
        try:
            yield self.record
        finally:
            self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None

    @property
    def client(self) -> RawClient:
        if self._client is None:
            self._client = RawClient((self.broker.host, self.broker.port))
        return self._client

    # Versions

    def versions(self, request: type[Any], first: int = 0, last: int = 99) -> Iterable[int]:
        """The versions of an API that are under comparison, of those from `first` to `last`."""
        asked = self._versions.get(api_of(request).key, range(0))
        return [version for version in asked if first <= version <= last]

    def newest(self, request: type[Any]) -> int:
        """The newest version that both brokers serve, whether it is under comparison or not."""
        return self._newest[api_of(request).key]

    # Asking

    def ask(self, label: str, request: Any, version: int) -> Any:
        """Ask, write the answer down, and return it; None if the connection was closed."""
        label = f"{label} v{version}"
        assert label not in self.record, f"{label} was asked before"
        try:
            answer = self.client.call(request, version)
        except ConnectionError:
            self.close()
            self.record[label] = CLOSED
            return None
        self.note_answer(label, answer)
        return answer

    def ask_all(self, label: str, request: Any, first: int = 0, last: int = 99) -> dict[int, Any]:
        """Ask in every version under comparison that has what the request says."""
        return {
            version: self.ask(label, request, version)
            for version in self.versions(type(request), first, last)
        }

    def call(self, request: Any, version: int | None = None) -> Any:
        """Ask without writing down."""
        if version is None:
            version = self.newest(type(request))
        return self.client.call(request, version)

    def send_frame(self, label: str, frame: bytes) -> bytes | None:
        """Send any bytes as a request; write down whether there was an answer, and return it."""
        try:
            self.client.send_frame(frame)
            answer = self.client.read_frame()
        except ConnectionError:
            self.close()
            self.note(label, CLOSED)
            return None
        self.note(label, "an answer")
        return answer

    def note(self, label: str, value: Any) -> None:
        """Write down something that was worked out from answers."""
        assert label not in self.record, f"{label} was noted before"
        self.record[label] = value

    def note_answer(self, label: str, answer: Any) -> None:
        """Write down an answer, also one that was put in order first."""
        if isinstance(answer, FetchResponse | ProduceResponse):
            self._put_in_order(answer)
        self.note(label, plain(answer, self.names))

    def _put_in_order(self, answer: FetchResponse | ProduceResponse) -> None:
        """Sort by topic and partition: brokers answer in the order that suits them."""
        fetched = isinstance(answer, FetchResponse)
        topics: dict[str, Any] = {}
        for topic in answer.responses:
            name = topic.topic if fetched else topic.name
            name += self.names.topics.get(bytes(topic.topic_id), "")
            known = topics.setdefault(name, topic)
            partitions = known.partitions if fetched else known.partition_responses
            if known is not topic:
                partitions += topic.partitions if fetched else topic.partition_responses
            partitions.sort(key=lambda one: one.partition_index if fetched else one.index)
        answer.responses = [topics[name] for name in sorted(topics)]

    # Topics

    def name(self, about: str) -> str:
        """The name of a topic of this scenario."""
        return f"{self._prefix}-{about}"

    def topic_id(self, name: str) -> bytes:
        return self._topics[name]

    def topic(self, about: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic and wait until it is served; configs are written with underscores."""
        name = self.name(about)
        wanted = [
            CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
        ]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=wanted)])
        (result,) = self.call(request).topics
        assert result.error_code == 0, f"{name}: {result.error_code} {result.error_message}"
        self.known(name)
        for partition in range(partitions):
            self.until(lambda at=partition: self.serves(name, at), f"{name} is served")
        return name

    def known(self, name: str) -> bytes:
        """Wait until a topic that was created is known, and learn its id."""
        asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

        def look() -> bytes:
            (found,) = self.call(asked).topics
            return b"" if found.error_code else bytes(found.topic_id)

        topic_id = self.until(look, f"{name} is known")
        self.names.topics[topic_id] = name
        self._topics[name] = topic_id
        return topic_id

    def gone(self, name: str) -> None:
        """Wait until a topic that was deleted is no longer known."""
        asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        self.until(lambda: self.call(asked).topics[0].error_code != 0, f"{name} is gone")

    def settle(self) -> None:
        """Wait until this broker follows all that its controller has decided: a later topic."""
        self.topic(f"settled-{len(self._topics)}")

    def end_offset(self, name: str, partition: int = 0) -> int:
        return int(self._list_latest(name, partition).offset)

    def serves(self, name: str, partition: int) -> bool:
        return self._list_latest(name, partition).error_code == 0

    def _list_latest(self, name: str, partition: int) -> Any:
        asked = ListOffsetsTopic(name, [ListOffsetsPartition(partition, timestamp=-1)])
        return self.call(ListOffsetsRequest(-1, topics=[asked])).topics[0].partitions[0]

    def until(self, look: Any, what: str) -> Any:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not (found := look()):
            assert time.monotonic() < deadline, f"not in time: {what}"
            time.sleep(PAUSE_S)
        return found


NO_TOPIC_ID = ZERO_TOPIC_ID
STRANGE_TOPIC_ID = bytes(range(16))
"""An id that no broker has given to a topic."""
