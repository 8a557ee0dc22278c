"""A node that is to vote, as its own configuration file and its metadata directory name it.

The file is that of the node itself, so the command runs where the node's disk is. Only what names
the voter is read, in Kafka's way: the file may be for a release of which we know less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from moldau.base.errors import UserError
from moldau.base.ids import uuid_bytes, uuid_text
from moldau.base.properties import parse_properties
from moldau.cli.frame import client

META_PROPERTIES: Final = "meta.properties"
SURE: Final = "Is this a valid controller configuration file?"
ENDPOINT: Final = re.compile(
    r"(?:(?P<listener>[A-Za-z0-9_.-]+)://)?"
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\[\]:/,\s]*)):(?P<port>[0-9]{1,5})"
)


class NewVoter(NamedTuple):
    """Everything by which a voter is added."""

    node_id: int
    directory_id: bytes
    endpoints: tuple[client.ControllerEndpoint, ...]


def read_new_voter(settings: Mapping[str, str]) -> NewVoter:
    """Read who a node is; UserError names what is missing. The words are Kafka's."""
    return NewVoter(
        _node_id(settings), _directory_id(_metadata_directory(settings)), _endpoints(settings)
    )


def parse_directory_id(text: str) -> bytes:
    """Read the id of a directory; ValueError says what is wrong with it."""
    found = uuid_bytes(text)
    # Base64 passes over characters that it does not know: a slip would name another directory.
    if uuid_text(found) != text.rstrip("="):
        raise ValueError(f"not a base64 id: {text!r}")
    return found


def parse_endpoint(text: str, listener: str) -> client.ControllerEndpoint:
    """Read `[LISTENER://]HOST:PORT`; `listener` is the name where none is given."""
    matched = ENDPOINT.fullmatch(text)
    if matched is None or not 0 < int(matched["port"]) < 65536:
        raise UserError(f"{text!r} is not an endpoint: expected HOST:PORT, or LISTENER://HOST:PORT")
    host = matched["bracketed"] or matched["host"]
    if not host:
        raise UserError(f"{text!r} has no host: other controllers need one")
    name = (matched["listener"] or listener).upper()
    return client.ControllerEndpoint(name, host, int(matched["port"]))


def _node_id(settings: Mapping[str, str]) -> int:
    given = settings.get("node.id")
    if given is None:
        raise UserError(f"node.id not found in configuration file. {SURE}")
    if not re.fullmatch(r"-?[0-9]+", given):
        raise UserError(f"node.id is no number in configuration file. {SURE}")
    if int(given) < 0:
        raise UserError(f"node.id was negative in configuration file. {SURE}")
    if "controller" not in settings.get("process.roles", ""):
        raise UserError(f"process.roles did not contain 'controller' in configuration file. {SURE}")
    return int(given)


def _metadata_directory(settings: Mapping[str, str]) -> str:
    directory = settings.get("metadata.log.dir") or next(_entries(settings, "log.dirs"), None)
    if directory is None:
        raise UserError(f"Neither metadata.log.dir nor log.dirs were found. {SURE}")
    return directory


def _directory_id(directory: str) -> bytes:
    path = Path(directory) / META_PROPERTIES
    try:
        found = parse_properties(path.read_text(encoding="latin-1")).get("directory.id")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"Unable to read meta.properties from {directory}: {reason}. Run this where the new"
            " controller is, once its directories are formatted."
        ) from None
    if found is None:
        raise UserError(f"No directory id found in {directory}")
    try:
        return parse_directory_id(found)
    except ValueError as error:
        raise UserError(f"{path}: directory.id: {error}") from None


def _endpoints(settings: Mapping[str, str]) -> tuple[client.ControllerEndpoint, ...]:
    """Return where the controller's listeners are: as they are advertised, else as they listen."""
    texts = [*_entries(settings, "listeners"), *_entries(settings, "advertised.listeners")]
    listeners = {text.partition("://")[0].upper(): text for text in texts}
    if "controller.listener.names" not in settings:
        raise UserError(f"controller.listener.names was not found. {SURE}")
    found = []
    for name in _entries(settings, "controller.listener.names"):
        text = listeners.get(name.upper())
        if text is None:
            raise UserError(
                f"Cannot find information about controller listener name: {name.upper()}"
            )
        # Kafka too takes a listener without a host to be reached on its own machine.
        found.append(parse_endpoint(text.replace("://:", "://localhost:"), name))
    return tuple(found)


def _entries(settings: Mapping[str, str], key: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in settings.get(key, "").split(",")))
