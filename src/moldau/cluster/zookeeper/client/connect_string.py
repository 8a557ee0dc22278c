"""The setting `zookeeper.connect`: the servers of an ensemble, and the chroot behind the last one.

host1:2181,host2:2181,[::1]:2181/kafka/production
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.base.errors import ConfigError
from moldau.base.texts import shorten

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
    if any(name in {"", ".", ".."} or not name.isprintable() for name in names):
        raise _wrong(text, f"{slash}{path} is not a path")
    return ConnectString(servers, "".join(f"/{name}" for name in names))


def _parse_server(server: str, text: str) -> tuple[str, int]:
    if server.startswith("["):
        host, _, rest = server[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = server.partition(":")
    if colon not in {"", ":"} or not _may_be_host(host):
        raise _wrong(text, f"{server!r} names no host")
    if not colon:
        return host, DEFAULT_PORT
    is_number = port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX))
    if not is_number or not 0 < int(port) <= PORT_MAX:
        raise _wrong(text, f"{port!r} is not a port")
    return host, int(port)


def _may_be_host(host: str) -> bool:
    """Tell whether it can be looked up: kazoo's thread would end with a traceback otherwise."""
    try:
        host.encode("idna")
    except UnicodeError:  # such as two dots in a row
        return False
    return bool(host) and host.isprintable() and " " not in host


def _wrong(text: str, reason: str) -> ConfigError:
    told = f"zookeeper.connect={shorten(text)}: {shorten(reason)}"
    told = told if told.isprintable() else ascii(told)[1:-1]
    return ConfigError(f"{told}; write host:port,host:port/chroot")
