"""What every collector has: options, a producer, a state file, and its end at a signal.

Here the real ports are chosen: the machine's files and clock. What is collected and what becomes of
it is the collectors' own business.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from moldau.cli.frame.completion import complete_topics
from moldau.cli.frame.connection import Connection, connection_options, hide_client_warnings
from moldau.cli.frame.durations import Seconds
from moldau.cli.frame.texts import safe
from moldau.cli.produce import CODECS
from moldau.client.processing import graceful
from moldau.client.producer import AsyncProducer
from moldau.collect.complaints import Complaints
from moldau.collect.outlet import SETTINGS, Producer, connect
from moldau.collect.running import until_stopped
from moldau.collect.state import StateFile
from moldau.storage.disk import Disk

Command = Callable[..., None]


def duration_option(name: str, default: str, text: str) -> Callable[[Command], Command]:
    """Give a command an option that is a duration."""
    return click.option(
        name, type=Seconds(), default=default, show_default=True, metavar="DURATION", help=text
    )


def collector_options(command: Command) -> Command:
    """Give a command what every collector has."""
    for option in (
        duration_option("--grace", "10s", "How long to wait for acknowledgements at the end."),
        click.option("-z", "--compression", type=click.Choice(CODECS), help="Compress batches."),
        click.option("--host", default=socket.gethostname, help="The name of this host [its own]."),
        click.option(
            "-t",
            "--topic",
            required=True,
            shell_complete=complete_topics,
            help="The topic to send to.",
        ),
    ):
        command = option(command)
    return connection_options(command)


# Running


async def run_collector(
    producer: Producer, complaints: Complaints, work: Callable[[asyncio.Event], Awaitable[None]]
) -> None:
    """Run a collector until it ends, or until the first signal, which ends it in order."""
    _raise_descriptor_limit()
    hide_client_warnings()
    stop = asyncio.Event()
    with graceful(stop.set):
        try:
            await until_stopped(stop, connect(producer, complaints))
            if not stop.is_set():
                await work(stop)
        finally:
            await producer.close(timeout=0)


def producer_of(options: dict[str, Any], request_size: int = 0) -> Producer:
    """Make the producer that the options ask for, whose requests may be so large."""
    settings: dict[str, Any] = {**SETTINGS, **Connection.of(options).for_client(AsyncProducer)}
    if options["compression"] is not None:
        settings["compression.type"] = options["compression"]
    if request_size > 1_048_576:
        settings.setdefault("max.request.size", request_size)
    return AsyncProducer(**settings)


def _raise_descriptor_limit() -> None:
    """Take as many descriptors as the system lets us: every file that is followed needs one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def state_file(path: Path) -> Iterator[StateFile]:
    """Keep a file of positions to ourselves."""
    state = StateFile(Disk(), str(path.absolute()))
    try:
        yield state
    finally:
        state.close()


def whole_paths(patterns: Iterable[str]) -> list[str]:
    """Name files by their whole paths: these are what records are known by."""
    return [str(Path(pattern).absolute()) for pattern in patterns]


def say(text: str) -> None:
    """Say something to who looks at the terminal."""
    printable = safe(text).encode(errors="backslashreplace").decode()
    click.echo(f"moldau: {printable}", err=True)
