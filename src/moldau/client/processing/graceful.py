"""An orderly shutdown on SIGTERM and Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def graceful(
    stop: Callable[[], object], *, signals: Sequence[signal.Signals] = SIGNALS
) -> Iterator[None]:
    """Call `stop` on the first signal, and cancel the task in the block on the second.

        with graceful(workers.stop):
            await workers.run()

    Use it in the main thread, where Python delivers signals. It restores the previous signal
    handlers at the end.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    asked = False

    def handle(number: signal.Signals) -> None:
        nonlocal asked
        if asked:
            logger.warning("%s again: ending without finishing", number.name)
            task.cancel()
            return
        asked = True
        logger.info("%s: finishing what is under way", number.name)
        stop()

    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        loop.add_signal_handler(number, handle, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
