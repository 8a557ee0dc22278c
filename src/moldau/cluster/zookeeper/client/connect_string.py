"""The setting `zookeeper.connect`: the servers of an ensemble, and the chroot behind the last one.

host1:2181,host2:2181,[::1]:2181/kafka/production
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.base.errors import ConfigError

DEFAULT_PORT: Final = 2181
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ConnectString:
    """Where an ensemble is, and below which node a cluster keeps its own."""

    servers: tuple[tuple[str, int], ...]
    chroot: str
    """Empty, or a path without a slash at its end."""


def parse_connect_string(text: str) -> ConnectString:
    """Read the setting; ConfigError if there is a part that cannot be."""
    addresses, slash, path = text.strip().partition("/")
    servers = tuple(_parse_server(one.strip(), text) for one in addresses.split(","))
    names = path.rstrip("/").split("/") if path.rstrip("/") else []
    if any(name in {"", ".", ".."} for name in names):
        raise _wrong(text, f"{slash}{path} is not a path")
    return ConnectString(servers, "".join(f"/{name}" for name in names))


def _parse_server(server: str, text: str) -> tuple[str, int]:
    if server.startswith("["):
        host, _, rest = server[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = server.partition(":")
    if not host or colon not in {"", ":"}:
        raise _wrong(text, f"{server!r} names no host")
    if not colon:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise _wrong(text, f"{port!r} is not a port")
    return host, int(port)


def _wrong(text: str, reason: str) -> ConfigError:
    return ConfigError(f"zookeeper.connect={text}: {reason}; write host:port,host:port/chroot")
