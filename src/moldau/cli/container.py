"""What the container image runs: a broker that is set up as in the `apache/kafka` image.

Settings come from `KAFKA_*` variables and from a file in the folder that is mounted at
`/mnt/shared/config`; the variables win. With `CLUSTER_ID` new directories are formatted for that
cluster before the start, as that image does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import moldau.cli.plain_asyncio  # noqa: F401 - before anything imports asyncio

# isort: split
from moldau.base.errors import MoldauError, UserError
from moldau.cli.broker_options import load_settings, read_file
from moldau.cli.frame.failures import complain, reason_of
from moldau.cli.kafka.storage import format_directories
from moldau.cli.serve import serve_until_signal
from moldau.observe.logs import configure_logging
from moldau.server.configuration.settings import BrokerSettings

FILE: Final = Path("/mnt/shared/config/server.properties")
CLUSTER_VARIABLE: Final = "CLUSTER_ID"
LISTENER_VARIABLES: Final = ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")

DEFAULTS: Final = {
    "log.dirs": "/var/lib/moldau",  # the volume of the image
    "moldau.metrics.listen": "0.0.0.0:9404",  # the image's health check asks there
}
REACHED_FROM_HOST: Final = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}
"""Where nothing is said of listeners: for clients on the machine that publishes the port."""


def main() -> None:
    """Run a broker until SIGTERM; what goes wrong is one line on stderr and a status."""
    configure_logging("info", "text")
    try:
        settings = container_settings(FILE, os.environ)
        if cluster_id := os.environ.get(CLUSTER_VARIABLE):
            _format(settings, cluster_id)
        serve_until_signal(settings)
    except MoldauError as error:
        sys.exit(complain(error))


def container_settings(file: Path, environ: Mapping[str, str]) -> BrokerSettings:
    """Read the mounted file if there is one, and the environment."""
    text = read_file(file) if file.exists() else None
    has_listeners = text is not None or any(name in environ for name in LISTENER_VARIABLES)
    defaults = DEFAULTS if has_listeners else {**DEFAULTS, **REACHED_FROM_HOST}
    return load_settings(text, {}, environ=environ, defaults=defaults)


def _format(settings: BrokerSettings, cluster_id: str) -> None:
    try:
        format_directories(settings, cluster_id)
    except OSError as error:
        where = ", ".join(settings.log_dirs)
        raise UserError(f"cannot format {where}: {reason_of(error)}") from error


if __name__ == "__main__":
    main()
