"""What every command that talks to a cluster shares: its connection, its end, its exit status.

A property file (`--command-config`) holds Kafka's own client settings. What such files carry for
Java alone (class names, metric reporters) is left out; a misspelt setting is refused, which is
kinder than Kafka's warning among a hundred lines.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau import __version__
from moldau.base.errors import MoldauError, UserError
from moldau.base.properties import parse_properties
from moldau.cli.frame import client
from moldau.cli.frame.failures import INTERRUPTED
from moldau.cli.kafka.options import Option, OptionError, OptionParser, Options, text
from moldau.cli.operations.connecting import (
    SERVERS,
    has_setting,
    run_with_admin,
)

if TYPE_CHECKING:
    from moldau.cli.kafka.console import Console

KAFKA_RELEASE: Final = "4.3.1"
"""The release whose commands these are; scripts read the first word of `--version`."""

BOOTSTRAP_SERVER: Final = text(
    "bootstrap-server", "server to connect to", "Brokers to begin with: host:port, with commas.",
    former=("broker-list", "b"),
)  # fmt: skip
COMMAND_CONFIG: Final = text(
    "command-config", "config file", "A file with settings for the client.",
    former=("admin.config", "consumer.config", "producer.config", "config", "c"),
)  # fmt: skip
ZOOKEEPER: Final = text(
    "zookeeper", "hosts",
    "A ZooKeeper in which the brokers are registered: host:port, with commas, /chroot.",
)  # fmt: skip
BOOTSTRAP_CONTROLLER: Final = text(
    "bootstrap-controller", "controller to connect to",
    "Understood and refused: brokers are asked, never controllers.", former=("C",),
)  # fmt: skip
"""Of the commands that Kafka lets ask its controllers too (KIP-919)."""


class CommandFailed(UserError):  # noqa: N818 - it names what happened
    """A command cannot do what was asked: its line is printed as it is, the status is 1."""


class Finished(Exception):  # noqa: N818 - not an error
    """A command is done before it has begun: the version or the help was asked for."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def main(name: str, arguments: Sequence[str], console: Console) -> int:
    """Run the command of a module to its end; return its exit status."""
    module = importlib.import_module(name)
    try:
        status: int = module.main(arguments, console)
    except Finished as done:
        status = done.status
    except OptionError as error:
        console.warn(f"{error}\n{error.usage}".rstrip("\n"))
        status = 1
    except MoldauError as error:
        console.warn(str(error))
        status = 1
    except KeyboardInterrupt:
        status = INTERRUPTED
    return _flushed(console, status)


def _flushed(console: Console, status: int) -> int:
    """Write out what is left; who reads a pipe may be gone, as `head` is, and that is no error."""
    try:
        console.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), console.stdout.fileno())
    return status


def parse(parser: OptionParser, arguments: Sequence[str], about: str, console: Console) -> Options:
    """Read a command line; print the help or the version where that is what was asked for."""
    if not arguments:
        raise OptionError(about, parser.usage())
    options = parser.parse(arguments)
    if options.has("help"):
        raise OptionError(about, parser.usage())
    if options.has("version"):
        console.say(version_line())
        raise Finished(0)
    return options


def version_line() -> str:
    """Return what `--version` prints."""
    return f"{KAFKA_RELEASE} (Moldau {__version__})"


def cluster_options() -> tuple[Option, ...]:
    """Return the options by which every command finds its cluster."""
    return (BOOTSTRAP_SERVER, COMMAND_CONFIG, ZOOKEEPER)


def client_settings(
    options: Options, console: Console, *, servers: str = "bootstrap-server"
) -> dict[str, Any]:
    """Return the settings of a client, by Kafka's names, for what the command line says."""
    settings: dict[str, Any] = {}
    if (file := options.value("command-config")) is not None:
        settings.update(read_properties(file))
    settings.update(key_values(options, "command-property"))
    if options.has(servers):
        settings[SERVERS] = options.text(servers)
    elif options.has("zookeeper"):
        settings[SERVERS] = servers_in_zookeeper(options.text("zookeeper"), console)
    return settings


def key_values(options: Options, name: str) -> dict[str, str]:
    """Return the `key=value` pairs an option was given, where the command has such an option."""
    if not options.knows(name):
        return {}
    pairs = (given.partition("=") for given in options.values(name))
    return {key: value for key, _, value in pairs}


def require_cluster(options: Options) -> None:
    """Refuse a command line that does not say where the cluster is."""
    if not names_cluster(options):
        options.require("bootstrap-server")


def names_cluster(options: Options) -> bool:
    """Tell whether a command line says where the cluster is."""
    if options.has(BOOTSTRAP_CONTROLLER.name):
        raise CommandFailed(
            "Brokers are asked here, never controllers: name one with --bootstrap-server instead of"
            " --bootstrap-controller"
        )
    return options.has("bootstrap-server") or options.has("zookeeper")


def read_properties(file: str) -> dict[str, str]:
    """Read a file of settings; CommandFailed if it cannot be."""
    try:
        return parse_properties(Path(file).read_text(encoding="latin-1"))
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise CommandFailed(f"{file}: {error}") from None


def servers_in_zookeeper(connect: str, console: Console) -> str:
    """Return the brokers that are registered in a ZooKeeper; CommandFailed if none is found."""
    from moldau.cli.zookeeper.live_brokers import (  # noqa: PLC0415 - few commands need it
        live_broker_addresses,
    )

    try:
        servers = ",".join(live_broker_addresses(connect))
    except UserError as error:
        raise CommandFailed(
            f"--zookeeper: {error}. Use --bootstrap-server to name brokers instead."
        ) from None
    console.warn(f"--zookeeper {connect}: clients ask brokers now, here {servers}")
    return servers


def fitting(kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the settings of other kinds of clients, which a shared file may hold.

    Commands write and read bytes, so serializers are left out too. A setting that no client has
    stays, and the client refuses it.
    """
    return {
        name: value
        for name, value in settings.items()
        if not name.endswith("serializer")
        and (
            has_setting(kind, name)
            or not (has_setting(client.Consumer, name) or has_setting(client.Producer, name))
        )
    }


def with_admin(
    options: Options,
    console: Console,
    work: Callable[[client.AsyncAdmin], Awaitable[None]],
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Have work done by an admin; return 0. `settings` come before those of the command line."""
    given = client_settings(options, console) | dict(settings or {})
    run_with_admin(fitting(client.AsyncAdmin, given), work)
    return 0


def what_of(error: MoldauError) -> str:
    """Return what a broker said, without the advice that is for programmers."""
    return getattr(error, "what", "") or str(error)
