"""One event loop owns a client of asyncio: used elsewhere, it would wait for ever."""

from __future__ import annotations

import asyncio

from moldau.engine.errors import InvalidState


def check_loop(owner: asyncio.AbstractEventLoop, client: str) -> None:
    """Refuse a call that does not come from the event loop a client was started in."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is owner:
        return
    where = "outside of the event loop" if running is None else "in another event loop than the one"
    raise InvalidState(
        f"the {client} is used {where} that it was started in",
        advice="Start, use and close it within one asyncio.run().",
    )
