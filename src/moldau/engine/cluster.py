"""The cluster as a client uses it: who is there, who leads what, and a way to each of them.

`Cluster` keeps the metadata image fresh in a task of its own, finds coordinators and carries single
requests. It never repeats a request that a user sees, except for connecting: `retry` does that,
where the caller says until when.

    cluster = Cluster(settings, system_ports(settings))
    await cluster.start()
    topic = await cluster.topic("payments", cluster.deadline(60_000))
    answer = await cluster.call(topic.partitions[0].leader, request)
    await cluster.close()
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

from moldau.base.network import Address
from moldau.engine.arguments import check_timeout
from moldau.engine.background import Crashed, in_background
from moldau.engine.backoff import Backoff
from moldau.engine.broker_errors import RequestTimedOut, UnknownTopicOrPartition, broker_error
from moldau.engine.connection import ClientConnection
from moldau.engine.coordinator_lookup import (
    CoordinatorKind,
    coordinator_request,
    read_coordinator,
)
from moldau.engine.errors import (
    ClientClosed,
    ClientError,
    ClientFailed,
    ConnectionLost,
    InvalidState,
    NoBrokerReachable,
)
from moldau.engine.link import Link
from moldau.engine.links import Lane, Links
from moldau.engine.metadata import BrokerImage, MetadataImage, TopicImage
from moldau.engine.missing_topics import MissingTopics
from moldau.engine.ports import ClientPorts
from moldau.engine.retry import raise_for, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

__all__ = ["Cluster", "CoordinatorKind", "Endpoint", "Lane", "Node"]

logger = logging.getLogger(__name__)

COORDINATION_KEYS = frozenset(
    {
        8,  # OffsetCommit
        9,  # OffsetFetch
        11,  # JoinGroup
        12,  # Heartbeat
        13,  # LeaveGroup
        14,  # SyncGroup
        22,  # InitProducerId
        24,  # AddPartitionsToTxn
        25,  # AddOffsetsToTxn
        26,  # EndTxn
        28,  # TxnOffsetCommit
        68,  # ConsumerGroupHeartbeat
        76,  # ShareGroupHeartbeat
        88,  # StreamsGroupHeartbeat
    }
)
"""The APIs of coordinators: they travel on their own lane."""


class Node(Enum):
    """Brokers by what they are, where the id does not matter or may change."""

    ANY = "any"
    """The least busy one of those that are connected; connects where none is."""
    CONTROLLER = "controller"
    """The controller, or any broker while it is not known: they pass requests on (KIP-590)."""


class Endpoint(Protocol):
    """Where a broker is, as answers to Produce, Fetch and others name it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster:
    """One client's way to the cluster. Owned by the event loop's thread."""

    def __init__(self, settings: ConnectionSettings, ports: ClientPorts) -> None:
        self.settings = settings
        self.ports = ports
        self.image = MetadataImage()
        """What is known now; replaced as a whole, never changed."""
        self._links = Links(settings, ports, self._connection_lost)
        self._watched: frozenset[str] = frozenset()
        self._watching_all = False
        self._asked_for: set[str] = set()
        self._callbacks: list[Callable[[MetadataImage], None]] = []
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._refresher: asyncio.Task[None] | None = None
        self._refresh_wanted = asyncio.Event()
        self._new_topics = asyncio.Event()
        self._refreshed_at = float("-inf")
        self._failing_since: float | None = None
        self._failure: ClientError | None = None
        self._fruitless_count = 0
        self._news: asyncio.Future[None] | None = None
        self._missing = MissingTopics(ports.clock, may_create=settings.allow_auto_create_topics)
        self._crash: ClientFailed | None = None
        self._crash_callbacks: list[Crashed] = []
        self._closed = False

    # Beginning and ending

    async def start(self) -> None:
        """Learn the cluster from any bootstrap server, trying for `bootstrap_timeout_ms`.

        Then NoBrokerReachable tells what was tried. Cancelled, or failed, it may be tried again;
        `close` leaves nothing behind either way.
        """
        if self._refresher is not None:
            raise InvalidState("the client is already started")
        await self._find()
        self._refreshed_at = self.ports.clock.monotonic()
        self._refresher = in_background(
            self._keep_fresh(), "the refreshing of metadata", self._crashed
        )

    async def _find(self) -> None:
        """Ask for the cluster, again after failures that may pass, until the time is up.

        The first time takes as long as connecting may.
        """
        timeout_ms = self.settings.bootstrap_timeout_ms
        deadline = self.deadline(timeout_ms)
        waits = Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)
        failure: ClientError | None = None
        failure_count = 0
        patience_s: float | None = None
        while True:
            try:
                async with asyncio.timeout(patience_s):
                    await self.refresh()
            except TimeoutError:
                assert failure is not None
                raise failure from None
            except ClientError as error:
                failure = error
            else:
                return
            failure_count += 1
            pause_s = waits.wait_s(failure_count, self.ports.random)
            patience_s = deadline - self.ports.clock.monotonic() - pause_s
            if not failure.retriable or patience_s <= 0:
                raise failure
            if failure_count == 1:
                logger.warning("trying again for %d ms: %s", timeout_ms, failure)
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """End refreshing and every connection; what waits for an answer gets ClientClosed."""
        self._closed = True
        self._tell_waiting()
        refresher = self._refresher
        if refresher is not None:
            refresher.cancel()
            await asyncio.wait([refresher])
        await self._links.close()

    def on_crash(self, callback: Crashed) -> None:
        """Be told, on the loop's thread, if what keeps this going ends by a bug."""
        self._crash_callbacks.append(callback)

    def _crashed(self, error: ClientFailed) -> None:
        self._crash = error
        self._tell_waiting()
        for callback in self._crash_callbacks:
            callback(error)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client has been closed")
        if self._crash is not None:
            raise self._crash.with_traceback(None)

    def deadline(self, timeout_ms: float) -> float:
        """Return the moment this many milliseconds from now, as deadlines are given here."""
        check_timeout("timeout_ms", timeout_ms)
        return self.ports.clock.monotonic() + timeout_ms / 1000

    # Metadata

    def watch_topics(self, topics: Iterable[str], *, all_topics: bool = False) -> None:
        """Say which topics refreshes ask for from now on, besides those `topic` was asked for."""
        self._watched = frozenset(topics)
        unknown = self._watched - self.image.topics.keys()
        if unknown or (all_topics and not self._watching_all):
            self._request_new_topics()
        self._watching_all = all_topics

    async def topic(self, name: str, deadline: float) -> TopicImage:
        """Wait until a topic is known (auto-creation included); it is watched from now on.

        A name that is invalid or forbidden is refused at once. One that is not there is
        UnknownTopicOrPartition at the deadline, or as soon as it is certain that nobody creates it;
        RequestTimedOut if no broker could be asked. A topic that is not to be had is not watched.
        Cancelled, it is.
        """
        if name in self.image.refusals:
            self.image = self.image.without([name])  # that was then: ask again
        while (found := self.image.topics.get(name)) is None:
            self._check_open()
            if self._failure is not None and not self._failure.retriable:
                raise self._failure
            refusal = self.image.refusals.get(name)
            if refusal is not None and not refusal.retriable:
                self._asked_for.discard(name)
                raise broker_error(refusal, f"topic {name!r}: {refusal.text}")
            left_s = deadline - self.ports.clock.monotonic()
            if left_s <= 0 or (refusal is not None and self.is_missing(name)):
                self._asked_for.discard(name)
                raise self._not_found(name, refusal)
            if name in self._asked_for:
                self.request_refresh()
            else:
                self._asked_for.add(name)
                self._request_new_topics()
            await self._wait_for_news(left_s)
        self._asked_for.add(name)
        return found

    def _not_found(self, name: str, refusal: ErrorCode | None) -> ClientError:
        if refusal is not None:
            unknown = UnknownTopicOrPartition(f"topic {name!r} is not there: {refusal.text}")
            unknown.retriable = not self.is_missing(name)
            return unknown
        late = RequestTimedOut(f"nothing could be learned of topic {name!r} in time")
        late.__cause__ = self._failure
        return late

    def is_missing(self, name: str) -> bool:
        """Tell whether it is certain that a topic is not there, and that no broker creates it."""
        return self._missing.is_certain(name)

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Stop watching topics that `topic` was asked for."""
        gone = self._asked_for.intersection(topics)
        self._asked_for -= gone
        self.image = self.image.without(gone - self._watched)

    def on_change(self, callback: Callable[[MetadataImage], None]) -> None:
        """Be told of every new image, on the loop's thread; it must not wait."""
        self._callbacks.append(callback)

    def request_refresh(self) -> None:
        """Have metadata refreshed soon; many requests make one, and they are backed off."""
        self._refresh_wanted.set()

    def _request_new_topics(self) -> None:
        """Have metadata refreshed now: that the last one is fresh says nothing of other topics."""
        self.request_refresh()
        if self._failure is None:
            self._new_topics.set()

    async def refresh(self, topics: Iterable[str] | None = None) -> MetadataImage:
        """Ask once, now: for these topics, or for all that are watched.

        Raises what `call` raises. Cancelled, nothing changes.
        """
        connection = await self._any()
        version = connection.agreed_version(MetadataRequest)
        names = self._asked_for | self._watched if topics is None else frozenset(topics)
        everything = topics is None and self._watching_all
        # In version 0 an empty list means all, later null does.
        wanted = None if everything and version > 0 else [
            MetadataRequestTopic(name=name) for name in ([] if everything else sorted(names))
        ]  # fmt: skip
        request = MetadataRequest(
            wanted, allow_auto_topic_creation=self.settings.allow_auto_create_topics
        )
        answer = await connection.send(request, version)
        self._take(answer, everything=everything, watched=topics is None)
        return self.image

    def _take(self, answer: MetadataResponse, *, everything: bool, watched: bool) -> None:
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._forget_brokers()
        raise_for(answer.error_code)
        if not answer.brokers:
            raise NoBrokerReachable("the broker does not know the other brokers yet")
        image = self.image.merged(answer, complete=everything)
        if watched and not everything:
            # By what is watched now: the answer may be older than the last wish.
            image = image.without(image.topics.keys() - self._watched - self._asked_for)
        self._set_image(image)
        self._links.adopt_bootstrap(self.image.brokers.values())

    def learn_leader(
        self,
        topic: str,
        partition: int,
        leader: int,
        leader_epoch: int,
        endpoints: Iterable[Endpoint] = (),
    ) -> None:
        """Take over a leader named in an answer to Produce or Fetch (KIP-951)."""
        endpoint = next((_broker(one) for one in endpoints if one.node_id == leader), None)
        self._set_image(self.image.with_leader(topic, partition, leader, leader_epoch, endpoint))

    def _set_image(self, image: MetadataImage) -> None:
        self._tell_waiting()
        if image == self.image:
            return
        before, self.image = self.image, image
        if before.cluster_id not in (None, image.cluster_id):
            logger.warning("cluster %s has become cluster %s", before.cluster_id, image.cluster_id)
        for callback in self._callbacks:
            try:
                callback(image)
            except Exception:
                logger.exception("a listener for metadata failed")

    def _tell_waiting(self) -> None:
        if self._news is not None:
            self._news.set_result(None)
            self._news = None

    async def _wait_for_news(self, timeout_s: float) -> None:
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    async def _keep_fresh(self) -> None:
        """Refresh when that is asked for, and when the image has become old."""
        while True:
            await self._until_refresh()
            self._refresh_wanted.clear()
            self._new_topics.clear()
            self._refreshed_at = self.ports.clock.monotonic()
            before = self.image
            try:
                await self.refresh()
                await self._note_missing()
            except ClientError as error:
                self._refresh_failed(error)
            else:
                self._refresh_succeeded(news=self.image != before)

    async def _note_missing(self) -> None:
        """Note which topics are missing; ask again soon for those that may be on their way."""
        watched = self._watched | self._asked_for
        broker_id = min(self.image.brokers)
        if await self._missing.note(self.image.refusals, watched, self, broker_id):
            self.request_refresh()

    async def _until_refresh(self) -> None:
        aged_at = self._refreshed_at + self.settings.metadata_max_age_ms / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, aged_at - self.ports.clock.monotonic())):
                await self._refresh_wanted.wait()
        waits = Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)
        pause_s = waits.wait_s(self._fruitless_count + 1, self.ports.random)
        left_s = self._refreshed_at + pause_s - self.ports.clock.monotonic()
        if left_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._new_topics.wait()

    @property
    def trouble(self) -> ClientError | None:
        """Why the brokers could not be asked the last time; None if they could."""
        return self._failure

    def _refresh_succeeded(self, *, news: bool) -> None:
        self._fruitless_count = 0 if news else self._fruitless_count + 1
        if self._failing_since is not None:
            logger.info("metadata could be refreshed again")
        self._failing_since = self._failure = None

    def _refresh_failed(self, error: ClientError) -> None:
        now = self.ports.clock.monotonic()
        self._failure = error
        self._fruitless_count += 1
        if self._failing_since is None:
            logger.warning("metadata could not be refreshed, trying again: %s", error)
            self._failing_since = now
        patience_s = self.settings.metadata_recovery_rebootstrap_trigger_ms / 1000
        if now - self._failing_since >= patience_s:
            self._failing_since = now
            self._forget_brokers()
        self.request_refresh()
        self._tell_waiting()

    def _forget_brokers(self) -> None:
        """Begin again from the bootstrap servers, where that is allowed (KIP-899, KIP-1102)."""
        if self._may_rebootstrap:
            logger.warning("no use in the known brokers: asking the bootstrap servers again")
            self.image = self.image._replace(brokers={})
            self._links.forget_brokers()

    @property
    def _may_rebootstrap(self) -> bool:
        return self.settings.metadata_recovery_strategy == "rebootstrap"

    def _connection_lost(self, link: Link) -> None:
        """Take a lost connection as a sign that something changes in the cluster."""
        del link
        self.request_refresh()

    def metrics(self) -> dict[str, float]:
        """Return what is to be known of connections, under the names of Kafka's metrics."""
        return {
            "connection-count": self._links.open_count,
            "metadata-age": self.ports.clock.monotonic() - self._refreshed_at,
        }

    # Asking brokers

    async def call(
        self,
        node: int | Node,
        request: Any,
        *,
        version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """Ask a broker and wait for its answer; connects when needed, repeats nothing.

        `version` None is the newest that both know. Fails with ConnectionLost, NoBrokerReachable,
        RequestTimedOut (the connection is closed then), CorruptAnswer, UnsupportedVersion or
        ClientClosed; error codes inside the answer are the caller's to read. Cancelled, the answer
        is dropped when it comes.
        """
        lane = Lane.COORDINATION if request.KEY in COORDINATION_KEYS else Lane.DATA
        connection = await self._reach(node, lane)
        if version is None:
            version = connection.agreed_version(type(request))
        return await connection.send(request, version, timeout_ms=timeout_ms)

    async def connection(self, broker_id: int, lane: Lane = Lane.DATA) -> ClientConnection:
        """Return a connection to a broker for pipelining, a new one if needed.

        `connection.send(request, version)` returns a future and costs no task. Fails as `call`
        does. Cancelled, an attempt to connect goes on for whoever comes next.
        """
        self._check_open()
        link = self._links.known(broker_id, lane)
        broker = self.image.brokers.get(broker_id)
        if broker is not None:
            link = self._links.to(broker, lane, self.image.cluster_id)
        if link is None:
            self.request_refresh()
            raise ConnectionLost(f"broker {broker_id} is unknown")
        try:
            return await link.connected()
        except ConnectionLost:
            self.request_refresh()
            raise

    async def _reach(self, node: int | Node, lane: Lane) -> ClientConnection:
        if node is Node.CONTROLLER and self.image.controller_id in self.image.brokers:
            node = self.image.controller_id
        if isinstance(node, Node):
            return await self._any()
        return await self.connection(node, lane)

    async def _any(self) -> ClientConnection:
        self._check_open()
        return await self._links.any(self.image, bootstrap=self._may_rebootstrap)

    def version_of(self, broker_id: int, request_type: type[Any]) -> int:
        """Return the version agreed on with a broker that has been connected to.

        UnsupportedVersion names both ranges; ConnectionLost if it was never connected to.
        """
        for lane in Lane:
            link = self._links.known(broker_id, lane)
            if link is not None and link.connection is not None:
                return link.connection.agreed_version(request_type)
        raise ConnectionLost(f"broker {broker_id} has never been connected to")

    # Coordinators

    async def coordinator(self, kind: CoordinatorKind, key: str, deadline: float) -> int:
        """Return the broker that coordinates a key; remembered until it is forgotten.

        Fails as `retried` does. Cancelled, nothing is remembered.
        """
        known = self._coordinators.get((kind, key))
        if known is None:
            known = await retried(self, lambda: self._find_coordinator(kind, key), deadline)
            self._coordinators[kind, key] = known
        return known

    def forget_coordinator(
        self, kind: CoordinatorKind, key: str, broker_id: int | None = None
    ) -> None:
        """Look for the coordinator again next time, unless it is another one by now."""
        known = self._coordinators.get((kind, key))
        if known is not None and broker_id in (None, known):
            del self._coordinators[kind, key]

    async def _find_coordinator(self, kind: CoordinatorKind, key: str) -> int:
        connection = await self._any()
        version = connection.agreed_version(FindCoordinatorRequest)
        answer = await connection.send(coordinator_request(kind, key, version), version)
        found = read_coordinator(answer, version)
        if found.broker_id not in self.image.brokers:
            brokers = {**self.image.brokers, found.broker_id: found}
            self._set_image(self.image._replace(brokers=brokers))
        return found.broker_id


def _broker(endpoint: Endpoint) -> BrokerImage:
    return BrokerImage(endpoint.node_id, Address(endpoint.host, endpoint.port), endpoint.rack)
