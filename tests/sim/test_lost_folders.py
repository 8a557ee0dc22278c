"""A partition whose folder is gone is not made anew in silence."""

from __future__ import annotations

import asyncio
import logging

from kits.broker_bench import simulate


class Warnings(logging.Handler):
    """Keeps the lines that a broker says at WARN."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def started_warnings(bench) -> list[str]:
    """Start a broker and return what it warns of meanwhile."""
    logger, heard = logging.getLogger("moldau"), Warnings()
    logger.addHandler(heard)
    try:
        await bench.broker.start()
    finally:
        logger.removeHandler(heard)
    return heard.lines


def test_a_vanished_folder_is_said_with_what_it_held():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a", b"b", b"c")
        await bench.broker.stop()
        bench.broker.kill()
        bench.broker.disk.remove_folder("/data/t-0")
        lines = await started_warnings(bench)
        return lines, await bench.produce(b"new")

    lines, offset = simulate(work)
    (line,) = lines
    assert "t: no folder in any log directory for partition(s) 0; they begin empty" in line
    assert "0 held offsets below 3" in line
    assert offset == 0


def test_folders_that_are_there_are_no_news():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        await bench.produce(b"a")
        await asyncio.sleep(1.0)
        bench.broker.kill()
        return await started_warnings(bench)

    assert simulate(work) == []
