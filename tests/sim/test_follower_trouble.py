"""Leaders whose answers are rotten, unknown or garbage: followers rest, and say it once."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from kits.replication_kit import lines_of, play
from kits.slicing import finished
from moldau.protocol.messages.data import (
    FetchResponse,
)

GARBLED = {
    "noise": lambda number: struct.pack(">ii", 104, number) + b"\xa5" * 100,
    "another request's": lambda number: struct.pack(">ii", 104, number + 7) + bytes(100),
    "no size": lambda number: struct.pack(">ii", -5, number),
    "too large": lambda number: struct.pack(">ii", 2**31 - 1, number) + bytes(1000),
    "without an end": lambda number: struct.pack(">ii", 1 << 30, number) + bytes(1000),
    "with more behind it": lambda number: struct.pack(">ii", 4, number) * 100,
}


@pytest.mark.parametrize("position", [*range(16), 16, 21, 23, 27, 40, 57])
def test_a_header_that_rots_at_the_leader_makes_no_busy_loop(position):
    """Offset, length and epoch lie outside of the checksum."""

    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        first = scene[1].append(b"1" * 100)
        for number in range(4):
            scene[1].append(b"%d" % number * 100)
        log = scene[1].partition().log
        batch = log.read(first.last_offset + 1, 1, log.log_end_offset).regions[0]
        scene[1].disk.flip_bit(log.active.path, batch.position + position)
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        assert len(scene[1].requests) < 40

    play(work)


def test_a_corrupt_batch_is_told_once():
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"2" * 100)
        scene[1].flip_bit_in_last_batch()
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        (line,) = [one for one in heard if "corrupt batch" in one]
        assert line.startswith("t-0: a corrupt batch at offset 0 from leader 1, fetched again")

    with lines_of("moldau.replication", logging.WARNING) as heard:
        play(work)


@pytest.mark.parametrize("what", GARBLED)
def test_a_leader_that_answers_garbage_is_given_up_for_a_while_each_time(what):
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"1")
        scene[1].garbled = GARBLED[what]
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(100)
        assert 2 < len(scene[1].requests) < 150
        scene[1].garbled = None
        await scene.until_equal()
        return [line for line in heard if "cannot fetch from broker 1" in line]

    with lines_of("moldau.replication", logging.WARNING) as heard:
        assert len(play(work)) == 1


def of_the_answer(told, error):
    told.error_code = error


def of_a_partition(told, error):
    told.responses[0].partitions[0].error_code = error


@pytest.mark.parametrize("garble", [of_the_answer, of_a_partition])
@pytest.mark.parametrize("error", [9999, -7, 56])
def test_an_error_that_nobody_knows_or_that_lasts_is_told_once(garble, error):
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"1")
        fetch, is_wrong = scene[1].fetch, True

        def garbled(request, context):
            told = finished(fetch(request, context))
            if is_wrong and isinstance(told, FetchResponse) and told.responses:
                garble(told, error)
            return told

        scene[1].fetch = garbled
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        assert 5 < len(scene[1].requests) < 20
        assert len(scene.lines.errors) <= 1
        is_wrong = False
        await scene.until_equal()

    play(work)
