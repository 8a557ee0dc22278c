"""What both faces of the admin share: one signature, and when there is somebody to ask.

`Calls` is what the calls of every area see of a face.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping

from moldau.client.errors import ClientClosed, InvalidState
from moldau.client.settings import accepts_kafka_names, name_of
from moldau.client.statistics import Metrics
from moldau.engine.arguments import checks_arguments
from moldau.engine.asking import Asking
from moldau.engine.cluster import Cluster
from moldau.engine.one_client import OneClient
from moldau.engine.ports import ClientPorts, system_ports
from moldau.engine.settings import DEFAULT_SERVERS, ConnectionSettings, Servers, at_least, pick


class Calls(ABC):
    """What the calls of every area stand on; the face says where the asking comes from."""

    def __init_subclass__(cls) -> None:
        """Have every call of an area check its arguments, so that none can forget to."""
        for name, function in list(vars(cls).items()):
            if not name.startswith("_") and inspect.iscoroutinefunction(function):
                setattr(cls, name, checks_arguments(function))

    @property
    @abstractmethod
    def _asking(self) -> Asking:
        """Return the way to brokers; InvalidState or ClientClosed while there is none."""


class AdminFace(OneClient):
    """The settings; the faces add how they wait."""

    _running: Asking | None = None
    _is_closed = False

    @accepts_kafka_names
    def __init__(
        self,
        bootstrap_servers: Servers = DEFAULT_SERVERS,
        *,
        default_api_timeout_ms: int = 60_000,
        client_id: str = "",
        bootstrap_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        socket_connection_setup_timeout_ms: int = 10_000,
        socket_connection_setup_timeout_max_ms: int = 30_000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        metadata_recovery_strategy: str = "rebootstrap",
        metadata_recovery_rebootstrap_trigger_ms: int = 300_000,
        connections_max_idle_ms: int = 300_000,
        receive_buffer_bytes: int = 65_536,
        send_buffer_bytes: int = 131_072,
        client_dns_lookup: str = "use_all_dns_ips",
        security_protocol: str = "PLAINTEXT",
        version_ceilings: Mapping[int, int] | None = None,
        _ports: ClientPorts | None = None,
    ) -> None:
        """Check the settings; raises ConfigError. It does not connect yet.

        `default_api_timeout_ms` is the timeout of calls without a `timeout_ms`.
        """
        values = {name: value for name, value in locals().items() if name != "self"}
        at_least(0, "default_api_timeout_ms", default_api_timeout_ms)
        values["version_ceilings"] = version_ceilings or {}
        values["client_id"] = name_of(client_id)
        values["allow_auto_create_topics"] = False  # looking at a topic must not make it
        self._connection_settings = pick(ConnectionSettings, values)
        self._default_api_timeout_ms = default_api_timeout_ms
        self._ports = _ports or system_ports(self._connection_settings)

    async def _opened(self) -> Asking:
        """Find the cluster; on the event loop that will own what is made."""
        cluster = Cluster(self._connection_settings, self._ports)
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        return Asking(cluster, self._default_api_timeout_ms)

    def metrics(self) -> Metrics:
        """Return metrics under Kafka's names; empty before `start`."""
        return {} if self._running is None else self._running.cluster.metrics()

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed("the admin has been closed")

    @property
    def _asking(self) -> Asking:
        self._check_not_closed()
        if self._running is None:
            raise InvalidState("the admin has not been started", advice="Use it in a `with` block.")
        return self._running
