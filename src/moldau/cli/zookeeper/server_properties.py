"""The settings of a ZooKeeper server: what is read of its file before it is started.

ZooKeeper reads the file itself. Here only that is read which is needed to start the server and to
find it again: where it keeps its data, and where it answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.base.errors import UserError
from moldau.base.properties import format_properties, parse_properties

ANY_ADDRESS: Final = ("", "0.0.0.0", "::", "[::]")  # noqa: S104 - read, not bound
LOOPBACK: Final = "127.0.0.1"
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """The settings of one server."""

    file: Path
    overrides: Mapping[str, str]
    data: Path
    """Absolute."""
    address: tuple[str, int] | None
    """Where clients reach it on this machine; None if only encrypted, or named elsewhere."""
    is_ensemble_member: bool
    """Whether it serves only together with others."""

    @property
    def text(self) -> str:
        """The file, with the overrides in it."""
        return format_properties({**_read(self.file), **self.overrides})


def read_server_properties(file: Path, overrides: Mapping[str, str]) -> ServerProperties:
    """Read a file; UserError if a server cannot start from it."""
    values = {**_read(file), **overrides}
    if not values.get("dataDir"):
        raise UserError(f"{file}: dataDir is missing, the folder of the server's data")
    return ServerProperties(
        file.absolute(),
        overrides,
        Path(values["dataDir"]).absolute(),
        _address(file, values),
        any(name.startswith("server.") for name in values),
    )


def _address(file: Path, values: Mapping[str, str]) -> tuple[str, int] | None:
    port = values.get("clientPort")
    if port is None:
        return None
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise UserError(f"{file}: clientPort={port} is not a port")
    host = values.get("clientPortAddress", "")
    return (LOOPBACK if host in ANY_ADDRESS else host.strip("[]")), int(port)


def _read(file: Path) -> dict[str, str]:
    try:
        found = parse_properties(file.read_text(encoding="latin-1"))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"{file}: {error}") from None
    return {name: value.strip() for name, value in found.items()}
