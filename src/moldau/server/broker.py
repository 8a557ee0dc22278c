"""The broker: its parts started in order, its listeners, and its stop.

Start: log directories are locked and ports taken, before anything is changed; then the metadata
store is opened, the controllership is claimed, logs are loaded, this broker is registered and the
partitions it holds are served; only then is what has connected meanwhile answered. Stop is the way
back: no new connections and no new requests, what is under way is finished, coordinators resign,
the registration is given back, logs are flushed and closed, the mark of a clean stop last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from moldau.base.errors import UserError
from moldau.base.ids import random_uuid
from moldau.base.network import Address, Listener
from moldau.cluster.brokers import BrokerRegistration
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.model import Endpoint as AdvertisedEndpoint
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError
from moldau.server.configuration.settings import BrokerSettings, host_limits
from moldau.server.network.connections import ConnectionLimits, Connections
from moldau.server.network.dispatch import Dispatcher
from moldau.server.parts import Parts, Ports
from moldau.server.routes import make_routes
from moldau.server.upkeep.housekeeping import Chore, keep_doing
from moldau.storage.recovery import Report

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
"""How soon a closed segment is synced, and how exactly `flush.ms` is kept."""

STOP_PATIENCE_S = 5.0
"""How long a stop waits for requests that are being carried out."""

SIGN_OFF_TRIES = 20
SIGN_OFF_PAUSE_S = 0.05
"""How often a broker that stops asks whether its partitions are led by others, and known to be."""

IDLE_LOOKS_PER_PERIOD = 10
"""An idle connection is closed at most two tenths late: a look is also how its last request is
dated."""


class Broker:
    """One broker. `start`, then `run_until`, then `stop`, all on one event loop."""

    def __init__(self, settings: BrokerSettings, ports: Ports) -> None:
        self.parts = parts = Parts(settings, ports)
        routes, unsupported = make_routes(parts)
        self._dispatcher = Dispatcher(routes, ports.clock, unsupported, parts.metrics.lag)
        self.connections = Connections(
            self._dispatcher.handle,
            frame_limit=settings.socket_request_max_bytes,
            limits=self._connection_limits,
        )
        self._listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._registered = False

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

    # Starting

    async def start(self) -> None:
        """Return once requests are answered; UserError says why it cannot be."""
        for line in self.parts.settings.warnings:
            logger.warning("%s", line)
        usable_directories = self.parts.logs.lock()
        await self._listen()
        await self.parts.store.start(usable_directories)
        await self.parts.controller.claim()
        self._load_logs()
        await self._register()
        await self.parts.replicas.begin(self.parts.store.image)
        self.parts.store.subscribe(self.parts.replicas.changed)
        self.parts.coordinators.follow(self.parts.store)
        self._tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("replicas", self.parts.replicas.run()),
                ("cleaner", self.parts.compaction.run()),
                ("index repair", self.parts.index_repair.run()),
                *((chore.name, keep_doing(chore)) for chore in self._chores()),
            )
        ]
        self.connections.begin()
        logger.info(
            "broker %d of cluster %s serves %d partitions at %s",
            self.parts.broker_id,
            self.parts.store.image.cluster_id,
            len(self.parts.partitions),
            ", ".join(str(address) for address in self.addresses),
        )

    def _load_logs(self) -> None:
        image = self.parts.store.image
        for error in self.parts.logs.open(
            image.cluster_id, self.parts.broker_id, self.parts.ports.boot_id
        ):
            logger.error("log directory offline: %s", error)
        clock = self.parts.ports.clock
        started_s = clock.monotonic()
        reports = self.parts.logs.load(
            lambda topic: self.parts.config_of(image.topic_config(topic))
        )
        for key, report in reports.items():
            logger.debug("recovered %s: %s", key, report)
        if reports:
            _log_recovery(tuple(reports.values()), clock.monotonic() - started_s)

    async def _listen(self) -> None:
        """Open every port; a connection is accepted at once and answered when all is ready."""
        for endpoint in self.parts.settings.endpoints:
            try:
                listener = await self.parts.ports.network.listen(
                    endpoint.host, endpoint.port, self.connections.acceptor(endpoint)
                )
            except OSError as error:
                where = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
                raise UserError(f"cannot listen on {where}: {error.strerror or error}") from error
            self._listeners.append(listener)

    async def _register(self) -> None:
        """Say in the metadata that this broker is here, and where it is reached."""
        registration = BrokerRegistration(
            self.parts.broker_id,
            random_uuid(self.parts.ports.random),
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
            tuple(
                directory.identity.directory_id
                for directory in self.parts.logs.directories
                if not directory.offline and directory.identity.directory_id is not None
            ),
            self.parts.settings.rack,
            self._previous_epoch(),
        )
        try:
            await self.parts.requests.register_broker(registration)
            await self._heartbeat()
        except (ApiError, StoreFailed) as error:
            raise UserError(f"cannot register broker {self.parts.broker_id}: {error}") from error
        self._registered = True

    def _previous_epoch(self) -> int:
        """Return the epoch of the last start; -1 if what was acknowledged since may be lost.

        A process that was killed has lost nothing: what it wrote is in the page cache.
        """
        lost = any(directory.power_lost for directory in self.parts.logs.directories)
        return -1 if lost else self.parts.broker_epoch()

    async def _heartbeat(self, *, want_shut_down: bool = False) -> HeartbeatAnswer:
        """Tell the controller that this broker is there, and what it wants."""
        return await self.parts.requests.heartbeat(
            Heartbeat(
                self.parts.broker_id,
                self.parts.broker_epoch(),
                self.parts.store.image.version - 1,
                want_shut_down=want_shut_down,
            )
        )

    def _chores(self) -> list[Chore]:
        settings, chores = self.parts.settings, self.parts.housekeeping
        idle_s = settings.connections_max_idle_ms / 1000
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
            Chore("idle connections", idle_s / IDLE_LOOKS_PER_PERIOD, self._close_idle),
            *self._scrub_chore(),
        ]

    def _scrub_chore(self) -> list[Chore]:
        """Have segments checked if that was asked for."""
        interval_s = self.parts.settings.log_scrub_interval_ms / 1000
        return [Chore("scrub", interval_s, self.parts.scrubber.scrub)] if interval_s else []

    async def _close_idle(self) -> None:
        idle_s = self.parts.settings.connections_max_idle_ms / 1000
        self.connections.close_idle(asyncio.get_running_loop().time() - idle_s)

    # Running and stopping

    async def run_until(self, stop: asyncio.Event) -> None:
        """Serve until told to stop; a task of ours that ends before is a bug, and is raised."""
        waiting = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([waiting, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        for task in self._tasks:
            if task.done():
                await task

    async def stop(self) -> None:
        """Stop in order, from wherever the start had got to."""
        for listener in self._listeners:
            listener.close()
        await self.connections.finish(STOP_PATIENCE_S)
        await self._cancel_tasks()
        await self.parts.coordinators.close()
        await self.parts.runtimes.sender.close()
        if self._registered:
            await self._sign_off()
        self.connections.close_all()
        self._dispatcher.close()
        await self.parts.store.close()
        if self._registered:
            await self.parts.housekeeping.close_logs(self.parts.broker_epoch())
            logger.info("broker %d has stopped", self.parts.broker_id)
        else:
            self.parts.logs.release()

    async def _sign_off(self) -> None:
        """Leave all partitions; without a disk to write it on, the logs are closed anyway."""
        try:
            for _ in range(SIGN_OFF_TRIES):
                if (await self._heartbeat(want_shut_down=True)).should_shut_down:
                    return
                await asyncio.sleep(SIGN_OFF_PAUSE_S)
        except (ApiError, StoreFailed) as error:
            logger.warning("broker %d cannot sign off: %s", self.parts.broker_id, error)
        else:
            logger.warning("broker %d stops before others know", self.parts.broker_id)

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
