"""What a broker with certain settings asks of its machine."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.server.configuration.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Port:
    """One port to listen on."""

    name: str
    host: str
    number: int


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """The parts of a broker's settings that concern the machine."""

    log_dirs: tuple[str, ...]
    segment_bytes: int
    ports: tuple[Port, ...]
    advertised_hosts: tuple[str, ...]
    """The names that clients and other brokers are told."""
    backlog: int
    request_memory_bytes: int
    """Memory for requests and answers; -1 if it is not limited."""
    is_on_zookeeper: bool


def plan_of(settings: BrokerSettings) -> BrokerPlan:
    """Pick out what concerns the machine."""
    listeners = (*settings.listeners.endpoints, *settings.listeners.controller)
    ports = [Port(f"listener {one.name}", one.host, one.port) for one in listeners]
    if settings.metrics_listen is not None:
        ports.append(Port("metrics", *settings.metrics_listen))
    metadata = (settings.metadata_log_dir,) if settings.metadata_log_dir else ()
    return BrokerPlan(
        log_dirs=tuple(dict.fromkeys((*settings.log_dirs, *metadata))),
        segment_bytes=settings.values.integer("log.segment.bytes"),
        ports=tuple(ports),
        advertised_hosts=tuple(dict.fromkeys(one.advertised_host for one in listeners)),
        backlog=settings.socket_listen_backlog_size,
        request_memory_bytes=settings.queued_max_request_bytes,
        is_on_zookeeper=settings.quorum.zookeeper is not None,
    )
