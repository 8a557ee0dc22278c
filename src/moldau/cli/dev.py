"""`moldau dev`: a broker to throw away, for trying things out and for tests of other programs.

It takes a free port and a folder of its own, says where it is, and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from moldau.base.errors import UserError
from moldau.base.network import Address
from moldau.cli.broker_options import load_settings
from moldau.cli.frame.arguments import parse_pairs
from moldau.cli.serve import run_broker
from moldau.client.admin import AsyncAdmin, NewTopic
from moldau.observe.logs import LEVELS, configure_logging

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""One person's consumers come alone: a group that waits three seconds for others only annoys."""


@click.command()
@click.option("--topics", metavar="NAME[:PARTITIONS],...", help="Topics to begin with.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on [a free one]."
)
@click.option(
    "--override", multiple=True, metavar="KEY=VALUE", help="Override one setting; repeatable."
)
@click.option("--log-level", type=click.Choice(list(LEVELS)), default="warn", show_default=True)
def dev(topics: str | None, port: int, override: tuple[str, ...], log_level: str) -> None:
    r"""Start a throw-away broker and run it until Ctrl-C, when all it holds is deleted.

    Prints one line, `BOOTSTRAP=HOST:PORT`, once it accepts requests and the topics are there.

    \b
    moldau dev --topics orders:3,returns
    """
    wanted = new_topics(topics or "")
    configure_logging(log_level, "text")
    with tempfile.TemporaryDirectory(prefix="moldau-dev-", ignore_cleanup_errors=True) as folder:
        keys = SETTINGS | dict(parse_pairs(override, "--override")) | {
            "log.dirs": str(Path(folder) / "data"),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }  # fmt: skip

        async def announce(address: Address) -> None:
            await _create(str(address), wanted)
            click.echo(f"BOOTSTRAP={address}")
            click.echo(f"Its data is in {folder}; Ctrl-C ends the broker and deletes it.", err=True)

        asyncio.run(run_broker(load_settings(None, keys), announce))


def new_topics(text: str) -> list[NewTopic]:
    """Read `a:3,b`; UserError if it cannot be."""
    found: dict[str, NewTopic] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, count = part.partition(":")
        if not name or (colon and not (count.isdecimal() and int(count) > 0)):
            raise UserError(f"--topics {part}: expected NAME or NAME:PARTITIONS")
        if name in found:
            raise UserError(f"--topics: {name} is named twice")
        found[name] = NewTopic(name, int(count) if colon else None)
    return list(found.values())


async def _create(address: str, topics: Sequence[NewTopic]) -> None:
    if topics:
        async with AsyncAdmin(address) as admin:
            (await admin.create_topics(topics)).or_raise()
