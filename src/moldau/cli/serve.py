"""`moldau serve`: one broker in the foreground, from its settings to its last checkpoint.

This is where the real ports are chosen: the machine's clock, disk, sockets and processes.
"""

from __future__ import annotations

import moldau.cli.plain_asyncio  # noqa: F401 - before anything imports asyncio

# isort: split
import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from moldau.base.checks import install_crash_hook
from moldau.base.clock import SystemClock, system_random
from moldau.base.errors import UserError
from moldau.base.executor import Executor
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Address
from moldau.cli.broker_options import broker_options, read_settings
from moldau.cli.frame.failures import reason_of
from moldau.observe.logs import FORMATS, LEVELS, configure_logging
from moldau.observe.loop_lag import watch_loop
from moldau.server.broker import Broker
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.stores import node_store, node_zookeeper
from moldau.server.workers.executor import PoolExecutor
from moldau.storage.disk import Disk
from moldau.transport.sockets import SocketBuffers, SocketNetwork

if TYPE_CHECKING:
    from moldau.cli.service_manager import ServiceManager
    from moldau.observe.monitoring import Health, MonitoringPort

logger = logging.getLogger(__name__)

LOOPBACK_PREFIXES = ("127.", "::ffff:127.")
LOOPBACK_V6 = "::1"
"""Addresses that only this machine reaches. Names are resolved before they are bound."""

CRASH_VARIABLE = "MOLDAU_CRASH_AT"
KILLED = 137
"""The status a shell shows for a process ended by SIGKILL, which a crash point imitates."""


@click.command()
@broker_options
@click.option("--log-level", type=click.Choice(list(LEVELS)), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(FORMATS), default="text", show_default=True)
def serve(log_level: str, log_format: str, **options: Any) -> None:
    """Start a broker and run it until SIGTERM or Ctrl-C.

    Prints `ready HOST:PORT` once it accepts requests. A second signal ends it at once.
    """
    configure_logging(log_level, log_format)
    serve_until_signal(read_settings(**options))


def serve_until_signal(settings: BrokerSettings) -> None:
    """Run a broker in this process, which is its own."""
    _raise_descriptor_limit()
    _arm_crash_point(os.environ.get(CRASH_VARIABLE))
    manager = _service_manager()

    async def tell_ready(address: Address) -> None:
        click.echo(f"ready {address}")
        if manager is not None:
            manager.ready(address)

    def tell_stopping() -> None:
        if manager is not None:
            manager.stopping()

    asyncio.run(run_broker(settings, tell_ready, tell_stopping))


def _service_manager() -> ServiceManager | None:
    """Find the process that wants to know when this one serves, as systemd does."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    # Imported here: other brokers do not need it.
    from moldau.cli.service_manager import ServiceManager  # noqa: PLC0415

    return ServiceManager.of(os.environ, os.getpid())


def make_network(
    settings: BrokerSettings, executor: Executor | None, memory: MemoryBudget
) -> SocketNetwork:
    """Make the network of a broker: for its clients, and to other brokers."""
    return SocketNetwork(
        executor,
        accepted=SocketBuffers(
            settings.socket_send_buffer_bytes, settings.socket_receive_buffer_bytes
        ),
        opened=SocketBuffers(receive=settings.replica_socket_receive_buffer_bytes),
        backlog=settings.socket_listen_backlog_size,
        memory=memory,
    )


async def run_broker(
    settings: BrokerSettings,
    on_ready: Callable[[Address], Awaitable[None]],
    on_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    `on_ready` is called once it accepts requests, `on_stopping` before it ends.
    """
    executor, cleaner = PoolExecutor(), PoolExecutor(thread_count=1)
    memory = settings.memory_budget()
    ports = Ports(
        clock=SystemClock(),
        random=system_random(),
        files=Disk(),
        network=make_network(settings, executor, memory),
        executor=executor,
        cleaner=cleaner,
        make_store=node_store,
        boot_id=_boot_id(),
        memory=memory,
    )
    broker = Broker(await _with_broker_id(settings, ports), ports)
    stop = asyncio.Event()
    _on_signals(stop)
    ticking = None
    watched = _open_monitoring(broker)
    try:
        if not await _start_unless(stop, broker):
            return
        # What is there now lives as long as the broker: collections need not walk it. Looking for
        # the little garbage in it would keep the first clients waiting.
        gc.freeze()
        _warn_of_open_listeners(broker)
        ticking = asyncio.create_task(watch_loop(broker.parts.metrics.lag))
        if watched is not None:
            watched.health.obstacle = None
        await on_ready(broker.bound[0][1])
        await broker.run_until(stop)
    finally:
        if ticking is not None:
            ticking.cancel()
        if watched is not None:
            watched.health.obstacle = "stopping"
        on_stopping()
        await broker.stop()
        await cleaner.close()
        await executor.close()
        if watched is not None:
            watched.port.close()


async def _with_broker_id(settings: BrokerSettings, ports: Ports) -> BrokerSettings:
    """Return the settings; where a cluster on ZooKeeper may draw a broker's id, with that."""
    if settings.quorum.kind is not NodeKind.ELECTED or settings.values.is_set("node.id"):
        return settings
    # Imported here: other brokers do not need it.
    from moldau.server.zookeeper.drawn_ids import with_broker_id  # noqa: PLC0415

    return await with_broker_id(settings, ports.files, node_zookeeper(settings, ports))


async def _start_unless(stop: asyncio.Event, broker: Broker) -> bool:
    """Start a broker; tell whether it has started before it was told to stop.

    A start may wait for a controller for a minute.
    """
    starting = asyncio.create_task(broker.start())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
    if starting.cancelled():
        return False
    starting.result()
    return True


class _Monitoring(NamedTuple):
    """The port for those who watch the broker, and what it tells of its state."""

    port: MonitoringPort
    health: Health


def _open_monitoring(broker: Broker) -> _Monitoring | None:
    """Serve metrics and health if the settings name a place for them."""
    address = broker.parts.settings.metrics_listen
    if address is None:
        return None
    # Imported here: a broker without the port needs neither its time nor its memory.
    from moldau.observe.monitoring import Health, MonitoringPort  # noqa: PLC0415
    from moldau.observe.prometheus import metrics_page  # noqa: PLC0415
    from moldau.server.lifecycle.figures import figures_of  # noqa: PLC0415

    health = Health()
    pages = {
        "/metrics": health.while_ready(metrics_page(figures_of(broker))),
        "/healthz": health.healthz,
        "/readyz": health.readyz,
    }
    try:
        return _Monitoring(MonitoringPort(address.host, address.port, pages), health)
    except OSError as error:
        raise UserError(f"cannot serve metrics on {address}: {reason_of(error)}") from error


def _warn_of_open_listeners(broker: Broker) -> None:
    """Say once that strangers can reach the broker, if they can."""
    open_to_all = [
        f"{name}://{address}"
        for name, address in broker.bound
        if address.host != LOOPBACK_V6 and not address.host.startswith(LOOPBACK_PREFIXES)
    ]
    if open_to_all:
        logger.warning(
            "%s can be reached from other machines without authentication: every client can read, "
            "write and delete everything. Listen on 127.0.0.1, or restrict access with a firewall",
            ", ".join(open_to_all),
        )


def _on_signals(stop: asyncio.Event) -> None:
    """Let the first signal end the broker in order, and the second at once."""

    def handle(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, handle, number)


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as the system lets us: each connection needs one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _boot_id() -> str:
    """Name this boot of the kernel; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _arm_crash_point(spec: str | None) -> None:
    """End the process as `kill -9` would at the n-th visit of a crash point, for tests."""
    if not spec:
        return
    name, _, count = spec.partition(":")
    left = int(count or 1)

    def hit(point: str) -> None:
        nonlocal left
        if point == name:
            left -= 1
            if not left:
                os._exit(KILLED)

    install_crash_hook(hit)
