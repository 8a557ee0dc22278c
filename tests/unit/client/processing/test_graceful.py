"""Signals: the first asks for an orderly end, the second insists."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from moldau.client.processing import graceful


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_cancels(number):
    async def main():
        asked = asyncio.Event()
        with graceful(asked.set):
            os.kill(os.getpid(), number)
            await asked.wait()
            os.kill(os.getpid(), number)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()

    asyncio.run(main())


def test_the_handlers_that_were_there_before_are_put_back():
    async def main():
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        with graceful(lambda: None):
            assert signal.getsignal(signal.SIGTERM) != before[0]
        return before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    assert asyncio.run(main())
