"""What a whole broker says of folders that are gone and bytes that have rotted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kits.broker_bench import simulate


class Warnings(logging.Handler):
    """Keeps the lines that a broker says at WARN."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def warnings_of_moldau() -> Iterator[list[str]]:
    """Keep what is warned of in a block."""
    logger, heard = logging.getLogger("moldau"), Warnings()
    logger.addHandler(heard)
    try:
        yield heard.lines
    finally:
        logger.removeHandler(heard)


async def started_warnings(bench) -> list[str]:
    """Start a broker and return what it warns of meanwhile."""
    with warnings_of_moldau() as lines:
        await bench.broker.start()
    return lines


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


def test_a_broker_that_is_told_to_scrub_finds_what_has_rotted():
    async def work(bench):
        await bench.broker.start()
        await bench.create()
        for number in range(8):
            await bench.produce(b"%d" % number * 1000)
        bench.broker.disk.flip_bit("/data/t-0/00000000000000000000.log", 300)
        with warnings_of_moldau() as lines:
            await asyncio.sleep(2.0)
        return lines

    (line,) = simulate(work, **{"log.scrub.interval.ms": "1500"})
    assert "t-0/00000000000000000000.log is damaged at position 0" in line
    assert simulate(work) == []
