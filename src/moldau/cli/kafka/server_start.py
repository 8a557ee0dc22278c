"""`kafka-server-start`: a broker from a properties file, in the foreground or as a daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed, version_line
from moldau.cli.kafka.running_servers import registered

USAGE: Final = (
    "USAGE: kafka-server-start.sh [-daemon] server.properties [--override property=value]*"
)
OUTPUT: Final = "kafkaServer.out"


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    words = list(arguments)
    if not words or words[0] in ("-h", "--help"):
        raise CommandFailed(USAGE)
    if words[0] in ("--version", "-version"):
        console.say(version_line())
        return 0
    as_daemon = words[0] == "-daemon"
    if as_daemon:
        words.pop(0)
    if not words:
        raise CommandFailed(USAGE)
    if as_daemon:
        _start_daemon(words)
        return 0
    return _serve(words[0], words[1:])


def _serve(config: str, rest: Sequence[str]) -> int:
    from moldau.cli.serve import serve  # noqa: PLC0415 - a daemon's parent needs no broker

    with registered():
        try:
            serve.main(
                ["--config", config, *rest], prog_name="kafka-server-start", standalone_mode=False
            )
        except click.ClickException as error:
            raise CommandFailed(error.format_message()) from None
    return 0


def _start_daemon(words: Sequence[str]) -> None:
    """Start the same command away from the terminal, its output in a file as Kafka's is."""
    with open_daemon_output(OUTPUT) as output:
        subprocess.Popen(  # noqa: S603 - the user's own words, to the user's own command
            [sys.executable, "-m", "moldau", "kafka-server-start", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def open_daemon_output(name: str) -> BinaryIO:
    """Open the file for the output of a daemon; CommandFailed if that is not possible."""
    file = Path(os.environ.get("LOG_DIR") or "logs") / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("ab")
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error.strerror}") from None
