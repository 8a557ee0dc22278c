"""Making clients from settings, and running work with an admin.

Owns which settings a client has and the life of an admin. Does not know where settings come from,
nor what to say of one that a client does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from moldau.cli.frame import client

T = TypeVar("T")

SERVERS: Final = "bootstrap.servers"
SERVERS_VARIABLE: Final = "MOLDAU_BOOTSTRAP_SERVERS"


def has_setting(kind: type, name: str) -> bool:
    """Tell whether a kind of client has a setting, by Kafka's name for it."""
    return name.replace(".", "_") in inspect.signature(kind).parameters


def run_with_admin(
    settings: Mapping[str, Any], work: Callable[[client.AsyncAdmin], Awaitable[T]]
) -> T:
    """Have work done by an admin, and close it. Ctrl-C ends the work."""
    import asyncio  # noqa: PLC0415 - help runs no loop

    async def run() -> T:
        async with client.AsyncAdmin(**settings) as admin:
            return await work(admin)

    return asyncio.run(run())
