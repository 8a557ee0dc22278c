"""The broker: its parts started in order, its listeners, and its stop.

A controller alone is the same without what a broker has: it opens no listener for clients, loads no
logs and never registers as a broker.

Start: log directories are locked and ports taken, before anything is changed; then the metadata
store is opened, the controllership is claimed, logs are loaded, this broker is registered and the
partitions it holds are served; only then is what has connected meanwhile answered. Stop is the way
back: no new connections and no new requests, what is under way is finished, coordinators resign,
the registration is given back, logs are flushed and closed, the mark of a clean stop last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moldau.base.errors import MoldauError, StorageError, UserError
from moldau.base.ids import PartitionKey, random_uuid
from moldau.base.network import Address, Listener
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.model import Endpoint as AdvertisedEndpoint
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings, host_limits
from moldau.server.controller_routes import Row, make_controller_dispatcher
from moldau.server.handlers.produce_fast_path import PRODUCE_KEY
from moldau.server.network.connection import Connection
from moldau.server.network.connections import ConnectionLimits, Connections
from moldau.server.network.dispatch import Answer, Dispatcher
from moldau.server.network.listeners import Endpoint
from moldau.server.network.start_gate import BETWEEN_BROKERS, StartGate
from moldau.server.nodes.broker_channels import BrokerChannels
from moldau.server.nodes.cluster_chores import cluster_chores
from moldau.server.nodes.leader_hints import LeaderHints
from moldau.server.nodes.successors import SuccessorProduce
from moldau.server.parts import Parts, Ports
from moldau.server.routes import make_routes
from moldau.server.upkeep.housekeeping import Chore, keep_doing
from moldau.storage.recovery import Report

if TYPE_CHECKING:
    from moldau.server.quorum.quorum_parts import QuorumParts

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
"""How soon a closed segment is synced, and how exactly `flush.ms` is kept."""

STOP_PATIENCE_S = 5.0
"""How long a stop waits for requests that are being carried out."""

HANDOVER_S: Final = 0.1
"""How long a broker that leads nothing any more still answers, so that those who write to it are
told who leads now. A client of librdkafka whose connection just ends may look for a second."""

REGISTRATION_TIMEOUT: Final = "initial.broker.registration.timeout.ms"

CLUSTER_SIGN_OFF_S = 30.0
"""How long a stop waits until others lead; Kafka waits for five minutes."""

IDLE_LOOKS_PER_PERIOD = 10
"""An idle connection is closed at most two tenths late: a look is also how its last request is
dated."""


class Broker:
    """One broker. `start`, then `run_until`, then `stop`, all on one event loop."""

    def __init__(self, settings: BrokerSettings, ports: Ports) -> None:
        self.parts = parts = Parts(settings, ports)
        routes, unsupported = make_routes(parts)
        self._dispatcher = Dispatcher(routes, ports.clock, unsupported, parts.metrics.lag)
        self._gate = StartGate(self._dispatcher.handle, BETWEEN_BROKERS)
        """Only where brokers are elected. Elsewhere nobody is answered before the broker serves."""
        self.connections = Connections(
            self._dispatcher.handle if parts.elected is None else self._gate,
            frame_limit=settings.socket_request_max_bytes,
            limits=self._connection_limits,
        )
        self._has_begun = False
        self._listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._heartbeats: asyncio.Task[None] | None = None
        self._loading: asyncio.Future[dict[PartitionKey, Report]] | None = None
        self._failure: asyncio.Future[MoldauError] = asyncio.get_running_loop().create_future()
        """Done with the reason once this broker cannot follow its cluster any more."""
        # Where this node is a controller that others can reach:
        self._controller_listeners: list[Listener] = []
        self._controller_connections = Connections(
            self._answer_node,
            frame_limit=settings.socket_request_max_bytes,
            limits=self._connection_limits,
        )
        self._controller_dispatcher: Dispatcher | None = None
        parts.on_directories_lost = self._directories_lost
        self._successors: BrokerChannels | None = None
        """The ways to the brokers that lead next, once this one stops."""

    def _connection_limits(self) -> ConnectionLimits:
        """Return the limits in force: they may be changed while the broker runs."""
        values = self.parts.configs.broker_values
        return ConnectionLimits(
            values.integer("max.connections"),
            values.integer("max.connections.per.ip"),
            host_limits(values),
        )

    @property
    def addresses(self) -> list[Address]:
        """Where this broker listens, in the order of the settings."""
        return [listener.address for listener in self._listeners]

    @property
    def controller_addresses(self) -> list[Address]:
        """Where the controller in this process listens for other nodes."""
        return [listener.address for listener in self._controller_listeners]

    def abort_connections(self) -> None:
        """Break every connection, as the end of a process does."""
        for connections in (self.connections, self._controller_connections):
            connections.close_all()
            connections.close_all()  # asked twice, they do not send what is queued for them

    @property
    def bound(self) -> list[tuple[str, Address]]:
        """Every listener's name and where it is bound, those of the controller too."""
        settings = self.parts.settings
        names = [one.name for one in (*settings.endpoints, *settings.listeners.controller)]
        listeners = (*self._listeners, *self._controller_listeners)
        return [(name, one.address) for name, one in zip(names, listeners, strict=True)]

    @property
    def name(self) -> str:
        """How this node is called in messages."""
        role = "broker" if self.parts.settings.quorum.is_broker else "controller"
        return f"{role} {self.parts.broker_id}"

    # Starting

    async def start(self) -> None:
        """Return once requests are answered; UserError says why it cannot be."""
        for line in self.parts.settings.warnings:
            logger.warning("%s", line)
        usable_directories = self.parts.logs.lock()
        await self._listen()
        await self.parts.store.start(usable_directories)
        self.parts.store.on_failed(self._store_failed)
        if self.parts.quorum is not None:
            await self._join_quorum(self.parts.quorum)
        await self._read_metadata()
        self._open_directories()
        if self.parts.settings.quorum.is_broker:
            await self._begin_as_broker()
        self._tasks += [
            asyncio.create_task(keep_doing(chore), name=chore.name) for chore in self._chores()
        ]
        self._has_begun = True
        self._gate.open()
        self.connections.dispatch_by(self._dispatcher.handle)
        self.connections.begin()
        logger.info(
            "%s of cluster %s serves %d partitions at %s",
            self.name,
            self.parts.store.image.cluster_id,
            len(self.parts.partitions),
            ", ".join(str(address) for _name, address in self.bound),
        )

    async def _begin_as_broker(self) -> None:
        """Load the logs, become a member of the cluster and serve what it gives this broker."""
        await self._load_logs()
        self._run_for_election()
        await self._join()
        await self._serve_partitions()
        self._tasks += [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("replicas", self.parts.replicas.run()),
                ("cleaner", self.parts.compaction.run()),
                ("index repair", self.parts.index_repair.run()),
            )
        ]

    def _run_for_election(self) -> None:
        """Answer other brokers and try to be the controller, where brokers are elected.

        The first broker of a cluster can only join if it is the controller.
        """
        elected = self.parts.elected
        if elected is not None:
            self._tasks += [
                asyncio.create_task(elected.tenures.run(), name="tenures"),
                asyncio.create_task(elected.watches.run(), name="broker watches"),
                asyncio.create_task(elected.silent_leaders.run(), name="silent leaders"),
            ]
            self.connections.begin()

    async def _join_quorum(self, quorum: QuorumParts) -> None:
        """Take part in the quorum from now on: without this node there may be no majority.

        A voter that is alone leads already. It is the controller before others hear of it.
        """
        votes_alone = self.parts.settings.quorum.votes_alone
        if votes_alone:
            await self.parts.controller.claim()
        if self._controller_listeners:
            # Imported here: other brokers do not need it.
            from moldau.server.quorum.quorum_routes import quorum_rows  # noqa: PLC0415

            node, own = quorum.store.node, quorum.node_id
            self._answer_nodes(quorum_rows(node, own, has_elections=not votes_alone))
        quorum.begin()
        self._tasks += [
            asyncio.create_task(quorum.run_for_controller(), name="controllership"),
            asyncio.create_task(quorum.watches.run(), name="broker watches"),
        ]

    def _answer_nodes(self, metadata: Sequence[Row]) -> None:
        self._controller_dispatcher = make_controller_dispatcher(
            self.parts, self.parts.controller, metadata, tuple(self._dispatcher.routes.values())
        )
        self._controller_connections.begin()

    async def _read_metadata(self) -> None:
        """Wait for the whole metadata; UserError if no controller answers a broker for too long.

        A controller alone waits on: others may wait for its vote.
        """
        store, settings = self.parts.store, self.parts.settings
        patience_ms = settings.values.integer(REGISTRATION_TIMEOUT)
        reading = asyncio.ensure_future(store.caught_up())
        try:
            await asyncio.wait((reading,), timeout=patience_ms / 1000)
            # One that answers is waited for: it may have much to send.
            if not reading.done() and not store.has_heard_leader:
                where = ", ".join(str(address) for address in settings.quorum.controllers)
                problem = f"no controller has answered at {where} within {patience_ms} ms"
                if settings.quorum.is_broker:
                    raise UserError(f"{problem} ({REGISTRATION_TIMEOUT})")
                logger.warning("%s; this one waits for a majority", problem)
            await reading
        finally:
            reading.cancel()

    def _open_directories(self) -> None:
        cluster_id = self.parts.store.image.cluster_id
        for error in self.parts.logs.open(
            cluster_id, self.parts.broker_id, self.parts.ports.boot_id
        ):
            logger.error("log directory offline: %s", error)

    async def _load_logs(self) -> None:
        """Open the logs in a thread: a voter is asked for its vote meanwhile."""
        image, clock = self.parts.store.image, self.parts.ports.clock
        started_s = clock.monotonic()
        loading = self._loading = asyncio.ensure_future(
            self.parts.ports.executor.run(
                self.parts.logs.load,
                cache(lambda topic: self.parts.config_of(image.topic_config(topic))),
            )
        )
        reports = await asyncio.shield(loading)
        for key, report in reports.items():
            logger.debug("recovered %s: %s", key, report)
        if self.parts.logs.all_failed:
            self._directories_lost()
            self._raise_failure()
        if reports:
            _log_recovery(tuple(reports.values()), clock.monotonic() - started_s)

    async def _serve_partitions(self) -> None:
        """Serve what the metadata gives this broker, and follow it from then on.

        Subscribed first: metadata may change while the partitions are begun.
        """
        parts, store = self.parts, self.parts.store
        store.subscribe(parts.replicas.changed)
        store.subscribe(parts.configs_changed)
        parts.coordinators.follow(store)
        parts.follow_cordons()
        unreadable = () if parts.elected is None else parts.elected.store.unreadable_topics
        await parts.replicas.begin(store.image, unreadable)

    async def _listen(self) -> None:
        """Open every port; a connection is accepted at once and answered when all is ready."""
        for endpoint in self.parts.settings.endpoints:
            self._listeners.append(await self._open_port(endpoint, self.connections))
        for endpoint in self.parts.settings.listeners.controller:
            listener = await self._open_port(endpoint, self._controller_connections)
            self._controller_listeners.append(listener)

    async def _open_port(self, endpoint: Endpoint, connections: Connections) -> Listener:
        try:
            return await self.parts.ports.network.listen(
                endpoint.host, endpoint.port, connections.acceptor(endpoint)
            )
        except OSError as error:
            where = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
            raise UserError(f"cannot listen on {where}: {error.strerror or error}") from error

    def _answer_node(self, connection: Connection, frame: memoryview) -> Answer:
        assert self._controller_dispatcher is not None  # nothing is read before it is there
        return self._controller_dispatcher.handle(connection, frame)

    async def _join(self) -> None:
        """Become a member of the cluster, and wait until the controller lets this broker serve."""
        registration = BrokerRegistration(
            self.parts.broker_id,
            self._incarnation_id(),
            tuple(
                AdvertisedEndpoint(
                    endpoint.name,
                    endpoint.advertised_host,
                    endpoint.advertised_port or listener.address.port,
                    endpoint.security_protocol,
                )
                for endpoint, listener in zip(
                    self.parts.settings.endpoints, self._listeners, strict=True
                )
            ),
            self.parts.logs.directory_ids,
            self.parts.settings.rack,
            self.parts.logs.last_broker_epoch,
            self.parts.store.image.cluster_id,
        )
        membership = self.parts.membership
        await self._unless_failed(membership.register(registration))
        self._heartbeats = asyncio.create_task(membership.run(), name="heartbeats")
        await self._unless_failed(membership.unfenced())

    def _incarnation_id(self) -> bytes:
        """Return the incarnation of this life: that of the last one if it never was in service.

        One that was in service has an epoch that its disk had no room to keep. One that had other
        log directories had replicas that are gone.
        """
        logs = self.parts.logs
        incarnation_id = logs.incarnation_id()
        known = self.parts.store.image.brokers.get(self.parts.broker_id)
        if known is None or known.incarnation_id != incarnation_id:
            return incarnation_id
        is_unchanged = known.fenced and set(known.log_directories) == set(logs.directory_ids)
        return incarnation_id if is_unchanged else random_uuid(self.parts.ports.random)

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for the controller to let this broker in; UserError if it never will.

        Neither would happen once the metadata is followed no more, or heartbeats have ended.
        """
        working = asyncio.ensure_future(work)
        heartbeats = () if self._heartbeats is None else (self._heartbeats,)
        try:
            await asyncio.wait(
                (working, self._failure, *heartbeats), return_when=asyncio.FIRST_COMPLETED
            )
            self._raise_failure()
            for task in (*heartbeats, working):
                if task.done():
                    await task
        finally:
            working.cancel()

    def _raise_failure(self) -> None:
        if self._failure.done():
            error = self._failure.result()
            raise UserError(str(error)) from error

    def _store_failed(self, error: MoldauError) -> None:
        """End this broker: it would serve what others have decided otherwise long since."""
        if not self._failure.done():
            self._failure.set_result(error)
        if self._heartbeats is not None:
            self._heartbeats.cancel()

    def _directories_lost(self) -> None:
        """End this broker, as Kafka's ends: it has nothing to serve any more."""
        paths = ", ".join(self.parts.settings.log_dirs)
        if not self._failure.done():
            self._failure.set_result(StorageError(paths, "all log directories have failed"))

    def _chores(self) -> list[Chore]:
        settings = self.parts.settings
        idle_s = settings.connections_max_idle_ms / 1000
        return [
            Chore("idle connections", idle_s / IDLE_LOOKS_PER_PERIOD, self._close_idle),
            *cluster_chores(settings, self.parts.controller, self.parts.replicas),
            *(self._log_chores() if settings.quorum.is_broker else ()),
        ]

    def _log_chores(self) -> list[Chore]:
        settings, chores = self.parts.settings, self.parts.housekeeping
        return [
            Chore("retention", settings.log_retention_check_interval_ms / 1000, chores.retain),
            Chore("flush", FLUSH_INTERVAL_S, chores.flush),
            Chore(
                "checkpoints",
                settings.log_flush_offset_checkpoint_interval_ms / 1000,
                chores.checkpoint,
            ),
            Chore(
                "producer expiry",
                settings.producer_id_expiration_check_interval_ms / 1000,
                chores.expire_producers,
            ),
            *self._scrub_chore(),
        ]

    def _scrub_chore(self) -> list[Chore]:
        """Have segments checked if that was asked for."""
        interval_s = self.parts.settings.log_scrub_interval_ms / 1000
        return [Chore("scrub", interval_s, self.parts.scrubber.scrub)] if interval_s else []

    async def _close_idle(self) -> None:
        idle_s = self.parts.settings.connections_max_idle_ms / 1000
        before = asyncio.get_running_loop().time() - idle_s
        self.connections.close_idle(before)
        self._controller_connections.close_idle(before)

    # Running and stopping

    async def run_until(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; a task of ours that ends before is a bug, and is raised."""
        waiting = asyncio.create_task(stop.wait())
        tasks = [*self._tasks, *([] if self._heartbeats is None else [self._heartbeats])]
        try:
            ends: list[asyncio.Future[Any]] = [waiting, self._failure, *tasks]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self._raise_failure()
        for task in tasks:
            if task.done():
                await task

    async def stop(self) -> None:
        """Stop in order, from wherever the start had got to."""
        membership = self.parts.membership
        # Not by its state: one that registers again has served, and has logs to close.
        is_member = membership.broker_epoch >= 0
        if is_member and self.parts.settings.quorum.kind is not NodeKind.ALONE:
            # Clients are served until others lead: they find them by asking here.
            self._send_writes_on()
            if await self._sign_off(CLUSTER_SIGN_OFF_S):
                await asyncio.sleep(HANDOVER_S)
        await self._leave_quorum()
        for listener in (*self._listeners, *self._controller_listeners):
            listener.close()
        await self.connections.finish(STOP_PATIENCE_S)
        # Before a broker that is alone signs off: nobody is to be told that nobody leads now.
        await self._cancel_tasks()
        await self.parts.fetchers.close()
        await self.parts.coordinators.close()
        await self.parts.runtimes.close()
        if is_member and self.parts.settings.quorum.kind is NodeKind.ALONE:
            await self._sign_off(STOP_PATIENCE_S)
        await self._end_heartbeats()
        await self.parts.isr_proposals.close()
        await self.parts.directory_reports.close()
        self.connections.close_all()
        self._dispatcher.close()
        await self._stop_serving_nodes()
        if self.parts.quorum is not None:
            await self.parts.quorum.close()
        await self.parts.store.close()
        for channels in (self.parts.channels, self._successors):
            if channels is not None:
                await channels.close()
        if is_member:
            await self.parts.housekeeping.close_logs(membership.records_epoch)
        else:
            await self._release_logs()
        if self._has_begun:
            logger.info("%s has stopped", self.name)

    async def _release_logs(self) -> None:
        """Give the directories to others, once no thread reads them any more."""
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        self.parts.logs.release()

    def _send_writes_on(self) -> None:
        """Have the next leaders take what clients write here before they have noticed."""
        parts = self.parts
        calls = self._successors = parts.open_broker_channels(
            "successors", round(STOP_PATIENCE_S * 1000)
        )
        self._dispatcher.answer_by(
            PRODUCE_KEY,
            lambda handler: SuccessorProduce(
                handler, calls, LeaderHints(parts.image), parts.broker_id, parts.ports.clock
            ),
        )

    async def _leave_quorum(self) -> None:
        """Hand the metadata over while others can still ask: a leader is told of by its answers.

        From here on this node must not be elected: it would not become the controller any more.
        One that votes alone has nobody to hand over to, and signs off as a broker first.
        """
        quorum = self.parts.quorum
        if quorum is not None and not self.parts.settings.quorum.votes_alone:
            await quorum.close()
            await self.parts.store.close()

    async def _stop_serving_nodes(self) -> None:
        await self._controller_connections.finish(STOP_PATIENCE_S)
        self._controller_connections.close_all()
        if self._controller_dispatcher is not None:
            self._controller_dispatcher.close()

    async def _end_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)

    async def _sign_off(self, patience_s: float) -> bool:
        """Leave all partitions and tell whether others lead them.

        Without a controller, or its disk, the logs are closed anyway.
        """
        if self._heartbeats is None or self._heartbeats.done():
            return False
        if await self.parts.membership.sign_off(patience_s):
            return True
        logger.warning("broker %d stops before the controller knows", self.parts.broker_id)
        return False

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


def _log_recovery(reports: Sequence[Report], elapsed_s: float) -> None:
    """Say in one line what came of the last stop, which was none."""
    logger.info(
        "recovered %d partitions in %.1f s: %d segments checked, %d bytes and %d segments cut",
        len(reports),
        elapsed_s,
        sum(report.recovered_segments for report in reports),
        sum(report.cut_bytes for report in reports),
        sum(report.removed_segments for report in reports),
    )
