"""The controller's part for brokers and replicas: who is alive, who leads, who holds what.

It owns the brokers' sessions while this broker is the active controller. What follows from a
heartbeat, an ISR, a session that ended is decided by pure functions; this part tells them the time
and how far brokers have read, and commits what they return.

Whoever runs the controller calls `check_sessions`, `elect_preferred_leaders` and
`elect_unclean_leaders` from time to time, only while it is the active one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from moldau.base.clock import Clock
from moldau.base.ids import BrokerId, PartitionKey, TopicId
from moldau.cluster import brokers, elections, reassignment
from moldau.cluster.broker_arrivals import brokers_changed
from moldau.cluster.broker_sessions import BrokerSessions, SessionKey
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.controlled_shutdown import answer_shutdown_request
from moldau.cluster.controller_queue import ControllerQueue
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.cluster.directory_assignments import (
    DirectoryAnswer,
    ReplicaDirectory,
    assign_directories,
)
from moldau.cluster.elections import ElectionAnswer
from moldau.cluster.failed_replicas import FailedReplicas
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer, answer_heartbeat
from moldau.cluster.image import MetadataImage
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal, alter_partitions
from moldau.cluster.model import Broker
from moldau.cluster.reassignment import ReassignmentAnswer, WantedReplicas
from moldau.cluster.steps import Step, Stepwise
from moldau.cluster.store import MetadataStore

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What a node's settings say of its controller."""

    session_timeout_s: float = 9.0
    unclean_elections: bool = False
    """What holds for topics that do not say, in a cluster that does not either."""
    own_broker_id: BrokerId | None = None
    """The broker in this process; None on a node that is only a controller."""
    leader_imbalance_percentage: int = 0
    """Partitions of a broker that others may lead before it leads them again, of a hundred. For a
    cluster on ZooKeeper; with a quorum no imbalance is left, as in Kafka."""


class BrokerController(ControllerQueue):
    """Answers brokers, and those who ask where replicas and leaders should be."""

    def __init__(self, store: MetadataStore, clock: Clock, settings: ControllerSettings) -> None:
        super().__init__(store)
        self._clock = clock
        self._settings = settings
        self._sessions = BrokerSessions(settings.session_timeout_s)
        self._failed_replicas = FailedReplicas()

    def _activated(self) -> None:
        """Start all sessions anew, except that of the broker in this process.

        That broker is not alive without the controller. Its session would only keep it from
        registering again after a crash, for as long as a session lasts.
        """
        others = (
            broker
            for broker in self._store.image.brokers.values()
            if broker.id != self._settings.own_broker_id
        )
        self._sessions.restart(others, self._clock.monotonic())

    async def decide(self, decide: Callable[[MetadataImage], Stepwise[T]]) -> T:
        """Commit a decision and return its answer."""
        answers: list[T] = []

        def remember(image: MetadataImage) -> Generator[Step, None, None]:
            answers.append((yield from decide(image)))

        await self._commit(remember)
        return answers[-1]

    # Brokers

    async def register_broker(self, registration: BrokerRegistration) -> int:
        def decide(image: MetadataImage) -> Stepwise[int]:
            existing = image.brokers.get(registration.broker_id)
            has_session = existing is not None and self._sessions.is_valid(
                SessionKey(existing.id, existing.epoch), self._clock.monotonic()
            )
            return brokers.register_broker(
                image,
                registration,
                has_session=has_session,
                unclean_by_default=self._settings.unclean_elections,
            )

        return await self.decide(decide)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        key = SessionKey(heartbeat.broker_id, heartbeat.broker_epoch)
        image = self._current_image()
        brokers.registered_broker(image, *key)
        # Noted before it waits in the queue: a long decision must not end anybody's session.
        self._sessions.contact(key, heartbeat.metadata_offset, self._clock.monotonic())

        def decide(image: MetadataImage) -> Stepwise[HeartbeatAnswer]:
            return answer_heartbeat(
                image,
                heartbeat,
                is_shutdown_seen=self._sessions.is_shutdown_seen(key, image.active_brokers()),
                unclean_by_default=self._settings.unclean_elections,
            )

        answer = await self.decide(decide)
        self._note_shutdown(key)
        if answer.should_shut_down:
            # It is fenced, and has said that it ends: its successor need not wait for its session.
            self._sessions.forget(key)
        return answer

    def _note_shutdown(self, key: SessionKey) -> None:
        image = self._store.image
        broker = image.brokers.get(key.broker_id)
        if broker is not None and broker.epoch == key.broker_epoch:
            if broker.fenced:
                self._sessions.end_shutdown(key)
            elif broker.in_controlled_shutdown:
                self._sessions.begin_shutdown(key, image.version - 1)

    async def follow_brokers(
        self, live: Mapping[BrokerId, Broker], may_lack_records: Collection[BrokerId]
    ) -> None:
        """Take over which brokers are alive, where something else knows that (ZooKeeper)."""
        gone = self._store.image.brokers.keys() - live.keys()
        await self._commit(
            lambda image: brokers_changed(
                image,
                live,
                may_lack_records,
                unclean_by_default=self._settings.unclean_elections,
            )
        )
        for broker_id in sorted(gone):
            logger.warning("broker %d has left: its node in ZooKeeper is gone", broker_id)

    async def shut_down_broker(self, broker_id: BrokerId, broker_epoch: int) -> list[PartitionKey]:
        """Move a broker's leaders away, and return what it still leads (ControlledShutdown)."""
        answer = await self.decide(
            lambda image: answer_shutdown_request(image, broker_id, broker_epoch)
        )
        return list(answer.still_led)

    async def lose_replicas(
        self, broker_id: BrokerId, broker_epoch: int, replicas: Collection[tuple[TopicId, int]]
    ) -> None:
        """Take replicas out whose log directory has failed."""
        lost = frozenset(replicas)

        def decide(image: MetadataImage) -> Iterable[Step]:
            brokers.registered_broker(image, broker_id, broker_epoch)
            self._failed_replicas.add(broker_id, broker_epoch, lost)
            return brokers.lose_replicas(
                image, broker_id, lost, unclean_by_default=self._settings.unclean_elections
            )

        await self._commit(decide)

    def keep_replicas(self, broker_id: BrokerId, replicas: Collection[tuple[TopicId, int]]) -> None:
        """Note replicas that a broker can read, also if it could not before."""
        self._failed_replicas.remove(broker_id, replicas)

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        await self._commit(
            lambda image: brokers.unregister_broker(
                image, broker_id, unclean_by_default=self._settings.unclean_elections
            )
        )

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ProducerIdBlock:
        def decide(image: MetadataImage) -> Stepwise[ProducerIdBlock]:
            broker = brokers.registered_broker(image, broker_id, broker_epoch)
            allocated = brokers.allocate_producer_ids(image, broker)
            yield allocated
            return ProducerIdBlock(image.next_producer_id, allocated.next_producer_id)

        return await self.decide(decide)

    # Partitions

    async def alter_partitions(
        self, broker_id: BrokerId, broker_epoch: int, proposals: Sequence[IsrProposal]
    ) -> list[IsrAnswer]:
        return await self.decide(
            lambda image: alter_partitions(
                image,
                broker_id,
                broker_epoch,
                proposals,
                unclean_by_default=self._settings.unclean_elections,
                failed=self._failed_replicas,
            )
        )

    async def assign_directories(
        self, broker_id: BrokerId, broker_epoch: int, replicas: Sequence[ReplicaDirectory]
    ) -> list[DirectoryAnswer]:
        return await self.decide(
            lambda image: assign_directories(
                image,
                broker_id,
                broker_epoch,
                replicas,
                unclean_by_default=self._settings.unclean_elections,
            )
        )

    async def elect_leaders(
        self, wanted: Mapping[str, Iterable[int]] | None, *, preferred: bool
    ) -> list[ElectionAnswer]:
        return await self.decide(
            lambda image: elections.elect_leaders(image, wanted, preferred=preferred)
        )

    async def alter_reassignments(
        self, wanted: Sequence[WantedReplicas], *, may_change_replica_count: bool = True
    ) -> list[ReassignmentAnswer]:
        return await self.decide(
            lambda image: reassignment.alter_reassignments(
                image,
                wanted,
                may_change_replica_count=may_change_replica_count,
                unclean_by_default=self._settings.unclean_elections,
            )
        )

    # From time to time

    async def check_sessions(self) -> BrokerId | None:
        """Fence one broker whose session has ended; return it. Kafka checks every 1/8 session."""
        self._active()
        overdue = self._sessions.take_overdue(self._clock.monotonic())
        if overdue is None:
            return None
        fenced: BrokerId | None = None

        def decide(image: MetadataImage) -> Iterable[Step]:
            nonlocal fenced
            fenced = None
            broker = image.brokers.get(overdue.broker_id)
            is_current = broker is not None and broker.epoch == overdue.broker_epoch
            # It may have been heard of while this waited in the queue.
            if not is_current or self._sessions.is_valid(overdue, self._clock.monotonic()):
                return ()
            fenced = overdue.broker_id
            return brokers.fence_broker(
                image, overdue.broker_id, unclean_by_default=self._settings.unclean_elections
            )

        await self._commit(decide)
        if fenced is not None:
            logger.warning("broker %d was fenced: its session has ended", fenced)
        return fenced

    async def fence_gone_broker(self, broker_id: BrokerId, broker_epoch: int) -> bool:
        """Fence a broker whose process is gone, without waiting for its session (ADR 0017).

        Return whether it was in service. If it was alive after all, its next heartbeat puts it
        into service again.
        """
        is_fenced = False

        def decide(image: MetadataImage) -> Iterable[Step]:
            nonlocal is_fenced
            broker = image.brokers.get(broker_id)
            is_fenced = broker is not None and broker.epoch == broker_epoch and not broker.fenced
            if not is_fenced:
                return ()
            self._sessions.forget(SessionKey(broker_id, broker_epoch))
            return brokers.fence_broker(
                image, broker_id, unclean_by_default=self._settings.unclean_elections
            )

        await self._commit(decide)
        return is_fenced

    async def elect_preferred_leaders(self) -> bool:
        """Move leaders back to preferred replicas; return whether to go on at once."""
        return await self.decide(
            lambda image: elections.elect_preferred_leaders(
                image, imbalance_percentage=self._settings.leader_imbalance_percentage
            )
        )

    async def elect_unclean_leaders(self) -> bool:
        """Elect leaders where there is none and any may be; return whether to go on at once."""
        return await self.decide(
            lambda image: elections.elect_unclean_leaders(
                image, unclean_by_default=self._settings.unclean_elections
            )
        )
