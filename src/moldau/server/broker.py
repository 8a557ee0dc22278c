"""The broker: where every part is made once, handed its ports, started and stopped in order.

Start: log directories are locked and ports taken, before anything is changed; then the metadata
store is opened, logs are loaded, this broker is registered and the partitions it holds are served;
only then is what has connected meanwhile answered. Stop is the way back: no new connections, the
registration given back, logs flushed and closed, the mark of a clean stop last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from moldau.base.clock import Clock, Random
from moldau.base.errors import StorageError, UserError
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import BrokerId, random_uuid
from moldau.base.network import Address, Listener, Network
from moldau.cluster.brokers import Registration, register_broker, retire_broker
from moldau.cluster.embedded import EmbeddedStore
from moldau.cluster.model import Endpoint as AdvertisedEndpoint
from moldau.cluster.store import Decisions, StoreFailed
from moldau.observe.requests import RequestMetrics
from moldau.observe.traffic import Traffic
from moldau.replication.partitions import Partitions
from moldau.server.connections import Connections
from moldau.server.dispatch import Dispatcher
from moldau.server.dynamic_config import DynamicConfigs
from moldau.server.housekeeping import Chore, Housekeeping, keep_doing
from moldau.server.replicas import Replicas
from moldau.server.routes import make_routes
from moldau.server.settings import BrokerSettings
from moldau.storage.flushing import Flusher
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
"""How soon a closed segment is synced, and how exactly `flush.ms` is kept."""

IDLE_LOOKS_PER_PERIOD = 10
"""An idle connection is closed at most a tenth late."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world, as this broker is given it."""

    clock: Clock
    random: Random
    files: Files
    network: Network
    executor: Executor
    boot_id: str = ""


class Broker:
    """One broker. `start`, then `run_until`, then `stop`, all on one event loop."""

    def __init__(self, settings: BrokerSettings, ports: Ports) -> None:
        self.settings = settings
        self._ports = ports
        self.broker_id = BrokerId(settings.node_id)
        self.metrics = RequestMetrics()
        self.traffic = Traffic()
        self.partitions = Partitions()
        self.logs = LogManager(Resources(ports.files, ports.clock, ports.random), settings.log_dirs)
        self.store = EmbeddedStore(
            ports.files,
            settings.log_dirs,
            self.broker_id,
            ports.clock,
            ports.random,
            metadata_directory=settings.metadata_log_dir,
            executor=ports.executor,
        )
        self.flusher = Flusher(ports.executor)
        self.decisions = Decisions(self.store)
        self.configs = DynamicConfigs(settings, lambda: self.store.image, self.broker_id)
        self.replicas = Replicas(
            self.broker_id, self.partitions, self.logs, self.traffic, self.config_of
        )
        routes, unsupported = make_routes(self, ports)
        self.connections = Connections(
            Dispatcher(routes, ports.clock, unsupported),
            frame_limit=settings.socket_request_max_bytes,
            count_max=settings.max_connections,
            per_host_max=settings.max_connections_per_ip,
            host_overrides=settings.max_connections_per_ip_overrides,
        )
        self._housekeeping = Housekeeping(
            self.logs,
            self.partitions,
            self.flusher,
            ports.clock,
            ports.executor,
            producer_expiration_ms=settings.producer_id_expiration_ms,
        )
        self._listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._registered = False

    @property
    def addresses(self) -> list[Address]:
        """Where this broker listens, in the order of the settings."""
        return [listener.address for listener in self._listeners]

    def storage_failed(self, error: StorageError) -> None:
        """Take a log directory out of use; the rest of the broker lives on."""
        self._housekeeping.storage_failed(error)

    # Starting

    async def start(self) -> None:
        """Return once requests are answered; UserError says why it cannot be."""
        for line in self.settings.warnings:
            logger.warning("%s", line)
        self.store.log_directories = tuple(self.logs.lock())
        await self._listen()
        await self.store.start()
        self._load_logs()
        await self._register()
        await self.replicas.begin(self.store.image)
        self.store.subscribe(self.replicas.changed)
        self._tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("replicas", self.replicas.run()),
                *((chore.name, keep_doing(chore)) for chore in self._chores()),
            )
        ]
        self.connections.begin()
        logger.info(
            "broker %d of cluster %s serves %d partitions at %s",
            self.broker_id,
            self.store.image.cluster_id,
            len(self.partitions),
            ", ".join(str(address) for address in self.addresses),
        )

    def _load_logs(self) -> None:
        image = self.store.image
        for error in self.logs.open(image.cluster_id, self.broker_id, self._ports.boot_id):
            logger.error("log directory offline: %s", error)
        reports = self.logs.load(lambda topic: self.config_of(image.topic_config(topic)))
        for key, report in reports.items():
            logger.info("recovered %s: %s", key, report)

    def config_of(self, own: Mapping[str, str]) -> LogConfig:
        """Return what a topic's own configs come to here and now."""
        return self.configs.topic_log_config(own)

    async def _listen(self) -> None:
        """Open every port; a connection is accepted at once and answered when all is ready."""
        for endpoint in self.settings.endpoints:
            try:
                listener = await self._ports.network.listen(
                    endpoint.host, endpoint.port, self.connections.acceptor(endpoint)
                )
            except OSError as error:
                where = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
                raise UserError(f"cannot listen on {where}: {error.strerror or error}") from error
            self._listeners.append(listener)

    async def _register(self) -> None:
        """Say in the metadata that this broker is here, and where it is reached."""
        registration = Registration(
            self.broker_id,
            random_uuid(self._ports.random),
            tuple(
                AdvertisedEndpoint(
                    endpoint.name,
                    endpoint.advertised_host,
                    endpoint.advertised_port or listener.address.port,
                    endpoint.security_protocol,
                )
                for endpoint, listener in zip(self.settings.endpoints, self._listeners, strict=True)
            ),
            tuple(
                directory.identity.directory_id
                for directory in self.logs.directories
                if not directory.offline and directory.identity.directory_id is not None
            ),
            self.settings.rack,
        )
        try:
            await self.decisions.commit(lambda image: register_broker(image, registration))
        except StoreFailed as error:
            raise UserError(f"cannot register broker {self.broker_id}: {error}") from error
        self._registered = True

    def _chores(self) -> list[Chore]:
        settings, chores = self.settings, self._housekeeping
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
        ]

    async def _close_idle(self) -> None:
        idle_s = self.settings.connections_max_idle_ms / 1000
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
        await self._cancel_tasks()
        if self._registered:
            await self._sign_off()
        self.connections.close_all()
        await self.store.close()
        if self._registered:
            await self._housekeeping.close_logs(self._broker_epoch())
            logger.info("broker %d has stopped", self.broker_id)
        else:
            self.logs.release()

    async def _sign_off(self) -> None:
        """Give the registration back; without a disk to write it on, the logs are closed anyway."""
        try:
            await self.decisions.commit(lambda image: retire_broker(image, self.broker_id))
        except StoreFailed as error:
            logger.warning("broker %d cannot sign off: %s", self.broker_id, error)

    def _broker_epoch(self) -> int:
        broker = self.store.image.brokers.get(self.broker_id)
        return -1 if broker is None else broker.epoch

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
