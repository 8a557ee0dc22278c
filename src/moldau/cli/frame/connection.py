"""How a command finds its cluster: from options, files, the environment and profiles.

Where several speak of a setting, the one nearer to the user wins:

    -b, -X                      what was typed
    --command-config FILE       Kafka's client.properties, as it is
    --profile NAME              named on the command line
    MOLDAU_BOOTSTRAP_SERVERS    the environment
    the profile in use          MOLDAU_PROFILE, or `moldau profile use`
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from moldau.base.errors import ConfigError
from moldau.base.properties import parse_properties
from moldau.cli.frame.arguments import parse_pairs
from moldau.cli.frame.failures import reason_of
from moldau.cli.frame.profiles import PROFILE_VARIABLE, load_profiles
from moldau.cli.operations.connecting import SERVERS, SERVERS_VARIABLE, has_setting

Command = TypeVar("Command", bound=Callable[..., Any])

NEVER_LEFT_OUT = ("ssl.", "sasl.", "security.")
"""Settings that a command must understand: without them it would talk to the wrong side."""

CLIENT_LOGGERS = ("moldau.client", "moldau.engine")
"""Where a client logs: what it does itself, and what its connections do."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What the user said about the cluster."""

    bootstrap_servers: str | None = None
    settings: tuple[str, ...] = ()
    """`key=value` each."""
    command_config: Path | None = None
    profile: str | None = None

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> Connection:
        """Take the options of `connection_options` out of a command's parameters."""
        return cls(
            parameters.pop("bootstrap_servers", None),
            tuple(parameters.pop("settings", None) or ()),
            parameters.pop("command_config", None),
            parameters.pop("profile", None),
        )

    def for_client(self, kind: type) -> dict[str, Any]:
        """Return the settings a client is made with: `AsyncAdmin(**connection.for_client(...))`.

        A file may be shared with other programs: what it sets that this client does not have is
        left out, and said. What was typed has to fit.
        """
        # Who types a command wants to hear at once that nobody is there.
        merged: dict[str, Any] = {"client.id": "moldau-cli", "bootstrap.timeout.ms": 0}
        for source, settings in self._shared():
            for name, value in settings.items():
                if has_setting(kind, name) or name.startswith(NEVER_LEFT_OUT):
                    merged[name] = value
                else:
                    click.echo(f"moldau: {source}: {name} is not used here", err=True)
        return merged | self._typed()

    def _shared(self) -> list[tuple[str, Mapping[str, str]]]:
        """Return what others wrote down, the weakest first."""
        found: list[tuple[str, Mapping[str, str]]] = []
        if self.profile is None:
            profiles = load_profiles()
            name = os.environ.get(PROFILE_VARIABLE) or profiles.current
            if name:
                found.append((f"profile {name}", profiles.of(name)))
        if servers := os.environ.get(SERVERS_VARIABLE):
            found.append((SERVERS_VARIABLE, {SERVERS: servers}))
        if self.profile is not None:
            found.append((f"profile {self.profile}", load_profiles().of(self.profile)))
        if self.command_config is not None:
            found.append((str(self.command_config), read_properties(self.command_config)))
        return found

    def _typed(self) -> dict[str, str]:
        typed = pairs(self.settings)
        if self.bootstrap_servers is not None:
            typed[SERVERS] = self.bootstrap_servers
        return typed


def pairs(texts: tuple[str, ...], option: str = "-X") -> dict[str, str]:
    """Read `key=value` texts; the names of settings may be written with underscores too."""
    return {key.strip().replace("_", "."): value for key, value in parse_pairs(texts, option)}


def read_properties(path: Path) -> dict[str, str]:
    """Read a client.properties file."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {reason_of(error)}") from error


def connection_options(command: Command) -> Command:
    """Give a command the options that say where the cluster is."""
    for option in (
        click.option("--profile", metavar="NAME", help="Use this profile."),
        click.option(
            "--command-config",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Settings file: Kafka's client.properties.",
        ),
        click.option(
            "-X",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set one client setting; repeatable.",
        ),
        click.option(
            "-b",
            "--bootstrap-servers",
            "--bootstrap",
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help=f"Brokers to connect to [env {SERVERS_VARIABLE}, profile, localhost:9092].",
        ),
    ):
        command = option(command)
    return command


def hide_client_warnings() -> None:
    """Let a client log errors only: the command says by itself what does not get through."""
    for name in CLIENT_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
