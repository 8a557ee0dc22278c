"""The options that say how a broker is set up: `moldau serve` starts it, `moldau doctor` checks it.

Both read the same file, options and environment, so that what was checked is what will run.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from moldau.base.errors import ConfigError, UserError
from moldau.cli.frame.arguments import parse_pairs
from moldau.cli.frame.failures import reason_of
from moldau.server.configuration.settings import BrokerSettings

DEFAULTS = {"log.dirs": "moldau-data", "listeners": "PLAINTEXT://127.0.0.1:9092"}
"""Where a broker without a file keeps its logs and listens: beside the user, seen by nobody else.

With a file Kafka's defaults stand."""

OPTIONS = (
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="Settings file: Kafka's server.properties.",
    ),
    click.option("--data", type=click.Path(path_type=Path), help="Log directory [./moldau-data]."),
    click.option("--listen", metavar="HOST:PORT", help="Address to listen on [127.0.0.1:9092]."),
    click.option(
        "--override", multiple=True, metavar="KEY=VALUE", help="Override one setting; repeatable."
    ),
    click.option("--strict-config", is_flag=True, help="Refuse unknown keys instead of warning."),
)


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that `read_settings` takes."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def read_settings(
    config: Path | None,
    data: Path | None,
    listen: str | None,
    override: tuple[str, ...],
    strict_config: bool,
) -> BrokerSettings:
    """Read settings from the options of a command and the environment."""
    return load_settings(
        None if config is None else read_file(config),
        _overrides(override, data, listen),
        strict=strict_config,
    )


def load_settings(
    text: str | None,
    overrides: Mapping[str, str],
    *,
    strict: bool = False,
    environ: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Read settings from a file's text, single keys and the environment."""
    if defaults is None:
        defaults = DEFAULTS if text is None else {}
    return BrokerSettings.load(
        text,
        overrides,
        os.environ if environ is None else environ,
        defaults=defaults,
        strict=strict,
        read_file=lambda path: Path(path).read_text(encoding="utf-8"),
        host_name=socket.getfqdn,
    )


def read_file(config: Path) -> str:
    """Return the text of a properties file; ConfigError if it cannot be read."""
    try:
        return config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {config}: {reason_of(error)}") from error


def _overrides(pairs: tuple[str, ...], data: Path | None, listen: str | None) -> dict[str, str]:
    """Turn options into keys."""
    found = {}
    if data is not None:
        found["log.dirs"] = str(data)
    if listen is not None:
        if ":" not in listen:
            raise UserError(f"--listen {listen}: expected HOST:PORT")
        found["listeners"] = f"PLAINTEXT://{listen}"
        # What a file says of its own listeners would not fit this one.
        found["advertised.listeners"] = ""
        found["inter.broker.listener.name"] = ""
    return found | dict(parse_pairs(pairs, "--override"))
