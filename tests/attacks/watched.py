"""A real broker under watch: what an attack costs it, and whether others notice.

The broker itself measures how long its event loop was held up, and tells it on its metrics page.
Its memory is read from the kernel. A healthy client writes and reads all the while.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafka_harness.moldau_node import COMPILED
from kafka_harness.ports import free_port
from kits.metrics_page import scrape
from process.attack import Healthy, healthy_client
from process.raw_client import RawClient
from process.serving import Serving

MIB = 1 << 20
MEMORY_LIMIT = 400 * MIB
"""What the broker and its workers may occupy under any attack."""
STALL_GOAL_MS = 100
"""How long the loop may be held up on an idle machine; printed, because machines are shared."""

SAMPLE_INTERVAL_S = 0.02
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "max.connections.per.ip.overrides": "127.0.0.1:10000",
}
"""One shard each, so that an attack on one group meets all others. And whoever alters the limit of
connections for an address does not lock out those who come after."""


@dataclass
class Watched:
    """One broker, and the most memory it was seen with."""

    broker: Serving
    page: str
    healthy: Healthy
    controller_port: int | None = None
    """Of a broker that listens for other nodes too."""
    sampled_peak: int = 0
    problems: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> tuple[str, int]:
        return self.broker.host, self.broker.port

    def client(self) -> RawClient:
        """Return a new connection."""
        return RawClient(self.address)

    def controller_client(self) -> RawClient:
        """Return a new connection to the listener of the controller."""
        assert self.controller_port is not None
        return RawClient((self.broker.host, self.controller_port))

    def sample(self) -> None:
        """Look at the memory until the end; what the kernel remembers leaves workers out."""
        while not self._stop.wait(SAMPLE_INTERVAL_S):
            with contextlib.suppress(OSError):
                self.sampled_peak = max(self.sampled_peak, self.broker.resident_size())

    def end(self) -> None:
        self._stop.set()

    def toll(self) -> Toll:
        """Return what the broker has suffered so far."""
        stall = scrape(self.page)["moldau_event_loop_lag_max_seconds", (("since", "start"),)]
        problems = list(self.problems)
        if "Traceback" in self.broker.errors:
            problems.append("a traceback in the log")
        problems += [f"a healthy client failed: {error!r}" for error in self.healthy.trouble]
        peak = max(self.sampled_peak, self.broker.resident_peak())
        if peak > MEMORY_LIMIT:
            problems.append(f"{peak // MIB} MiB of memory, the limit is {MEMORY_LIMIT // MIB}")
        return Toll(peak, stall, self.healthy.slowest_s, problems)


@dataclass(frozen=True)
class Toll:
    """What an attack has cost."""

    peak_bytes: int
    stall_s: float
    slowest_s: float
    """The slowest round of a healthy client: a write and a read."""
    problems: list[str]

    def __str__(self) -> str:
        return (
            f"memory {self.peak_bytes // MIB} MiB, longest stall of the loop "
            f"{self.stall_s * 1000:.0f} ms, slowest healthy round {self.slowest_s * 1000:.0f} ms"
        )


@contextlib.contextmanager
def watched_broker(
    directory: Path,
    *,
    compiled: bool = False,
    settings: Mapping[str, str] | None = None,
    is_voter: bool = False,
) -> Iterator[Watched]:
    """Run a broker of one form with a healthy client beside whatever is done to it."""
    page = f"127.0.0.1:{free_port()}"
    controller_port = free_port() if is_voter else None
    overrides = {**SETTINGS, "moldau.metrics.listen": page, **(settings or {})}
    if is_voter:
        overrides |= _voter_settings(f"127.0.0.1:{controller_port}")
    environ = {"PYTHONPATH": str(COMPILED)} if compiled else None
    with Serving(directory, overrides=overrides, environ=environ) as broker:
        with RawClient((broker.host, broker.port)) as client:
            assert client.create_topic("healthy") == 0
        with healthy_client(broker) as healthy:
            watched = Watched(broker, page, healthy, controller_port)
            thread = threading.Thread(target=watched.sample, daemon=True)
            thread.start()
            try:
                yield watched
                healthy.check()
            finally:
                watched.end()
                thread.join()


def _voter_settings(controller: str) -> dict[str, str]:
    """Return the settings of a node that others can join."""
    return {
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
