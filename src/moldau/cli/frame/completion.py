"""Completing words in a shell: commands and options by click, names by asking the cluster.

    source <(moldau completion bash)

A shell waits while it completes, so the cluster is given half a second. Whatever goes wrong means
that there is nothing to offer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import click

from moldau.cli.frame import client
from moldau.cli.frame.connection import Connection
from moldau.cli.frame.lazy import COMPLETE_VARIABLE
from moldau.cli.frame.profiles import load_profiles

SHELLS = ("bash", "zsh", "fish", "powershell")
PATIENCE_MS = 500

logger = logging.getLogger(__name__)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    r"""Print what makes a shell complete the words of this command.

    \b
    bash         echo 'source <(moldau completion bash)' >> ~/.bashrc
    zsh          echo 'source <(moldau completion zsh)' >> ~/.zshrc
    fish         moldau completion fish > ~/.config/fish/completions/moldau.fish
    powershell   moldau completion powershell >> $PROFILE
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - used here only

    from moldau.cli.frame import powershell  # noqa: PLC0415 - as above

    powershell.register()
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "moldau", COMPLETE_VARIABLE).source())


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer the topics there are; internal ones to who begins to write them."""
    del parameter

    async def names(admin: client.AsyncAdmin) -> Iterable[str]:
        return await admin.list_topics(include_internal=incomplete.startswith("_"))

    return _offered(context, incomplete, names)


def complete_groups(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer the groups there are."""
    del parameter

    async def names(admin: client.AsyncAdmin) -> Iterable[str]:
        return [group.group_id for group in await admin.list_groups()]

    return _offered(context, incomplete, names)


def complete_profiles(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Offer the profiles there are."""
    del context, parameter
    return [name for name in load_profiles().settings if name.startswith(incomplete)]


def _offered(
    context: click.Context,
    incomplete: str,
    names: Callable[[client.AsyncAdmin], Awaitable[Iterable[str]]],
) -> list[str]:
    import asyncio  # noqa: PLC0415 - completing a verb runs no loop

    async def ask(settings: dict[str, Any]) -> list[str]:
        async with asyncio.timeout(PATIENCE_MS / 1000), client.AsyncAdmin(**settings) as admin:
            return [name for name in await names(admin) if name.startswith(incomplete)]

    try:
        connection = Connection.of(dict(context.params))
        return asyncio.run(ask(connection.for_client(client.AsyncAdmin)))
    except Exception:
        logger.debug("nothing to offer", exc_info=True)
        return []
