"""Converting for an old Fetch: as much as fits, at least one batch, every error in its turn."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from moldau.base.executor import WorkerLost, WorkTooLong
from moldau.base.files import NEVER_CUT, FileRegion
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.records import record as records_module
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.legacy import iter_messages, unwrapped
from moldau.server.fetch import conversion as fetch_conversion
from moldau.server.fetch.conversion import FetchConversion

KIB = 1024


class Held(NamedTuple):
    """A file in memory."""

    content: bytes
    path: str = "/data/t-0/0.log"
    intact_end: int = NEVER_CUT

    def read(self, position, size):
        return self.content[position : position + size]


class Broken(Held):
    """A file on a disk that fails."""

    def read(self, position, size):
        raise OSError(5, "Input/output error")


class HandExecutor:
    """Works in place, and notes how much it was given at a time."""

    def __init__(self, error=None):
        self.pieces = []
        self._error = error

    async def run(self, work, /, *args):
        return work(*args)

    async def compute(self, lane, work, data, *args):
        self.pieces.append(len(data))
        if self._error is not None:
            raise self._error
        return work(data, *args)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(fetch_conversion, "CONVERTED_FETCH_BYTES", 8 * KIB)
    monkeypatch.setattr(fetch_conversion, "CONVERTED_PIECE_BYTES", 2 * KIB)


def batch(offset, size, codec=Codec.NONE):
    builder = BatchBuilder(codec, base_offset=offset)
    builder.append(0, b"k", bytes(size))
    return builder.build()


def region(content, file_type=Held):
    return FileRegion(file_type(content), 0, len(content))


def converted(*partitions, executor=None, conversion=None, failures=None):
    """Convert an answer that has these regions for each partition; return the partitions."""
    parts = [
        FetchablePartitionResponse(index, records=tuple(regions))
        for index, regions in enumerate(partitions)
    ]
    response = FetchResponse(responses=[FetchableTopicResponse("t", partitions=parts)])
    failures = [] if failures is None else failures
    conversion = conversion or FetchConversion(executor or HandExecutor(), failures.append)
    asyncio.run(conversion.convert(response, 1))
    return parts


def offsets(part):
    return [
        record.offset for message in iter_messages(part.records) for record in unwrapped(message)
    ]


def codes(parts):
    return [ErrorCode(part.error_code).name for part in parts]


def test_what_fits_is_converted_whole_in_pieces():
    executor = HandExecutor()
    content = b"".join(batch(offset, 500) for offset in range(10))
    (part,) = converted([region(content)], executor=executor)
    assert offsets(part) == list(range(10))
    assert max(executor.pieces) == 2 * KIB
    assert len(executor.pieces) > 2


def test_several_regions_of_a_partition_follow_each_other():
    (part,) = converted([region(batch(0, 10)), region(batch(1, 10))])
    assert offsets(part) == [0, 1]


def test_a_partition_without_records_needs_nobody():
    executor = HandExecutor()
    parts = converted([], [], executor=executor)
    assert codes(parts) == ["NONE", "NONE"]
    assert executor.pieces == []


def test_a_batch_larger_than_a_piece_is_read_whole():
    executor = HandExecutor()
    content = batch(0, 5 * KIB)
    (part,) = converted([region(content)], executor=executor)
    assert offsets(part) == [0]
    assert executor.pieces == [2 * KIB, len(content)]


def test_a_batch_that_is_cut_at_the_end_of_a_region_is_left_out():
    whole, cut = batch(0, 100), batch(1, 100)[:-1]
    (part,) = converted([region(whole + cut)])
    assert offsets(part) == [0]
    (part,) = converted([region(cut)])
    assert (part.records, part.error_code) == (b"", 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_no_more_is_converted_than_fits_and_the_rest_is_empty(codec):
    content = b"".join(batch(offset, 3 * KIB, codec) for offset in range(10))
    first, second = converted([region(content)], [region(content)])
    assert offsets(first) == [0, 1, 2]
    assert (second.records, second.error_code) == (b"", 0)


def test_one_batch_is_converted_however_far_it_inflates():
    bombs = [[region(batch(0, 100 * KIB, Codec.GZIP))] for _ in range(3)]
    executor = HandExecutor()
    parts = converted(*bombs, executor=executor)
    assert [len(offsets(part)) for part in parts] == [1, 0, 0]
    assert len(executor.pieces) == 1


def test_every_partition_is_the_first_one_in_its_turn():
    conversion = FetchConversion(HandExecutor(), print)
    bombs = [[region(batch(0, 100 * KIB, Codec.GZIP))] for _ in range(3)]
    seen = [
        [len(offsets(part)) for part in converted(*bombs, conversion=conversion)] for _ in range(3)
    ]
    assert seen == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkTooLong("long"), "UNSUPPORTED_VERSION"),
        (WorkerLost("gone"), "NOT_LEADER_OR_FOLLOWER"),
    ],
)
def test_what_becomes_of_the_worker_is_told(error, code):
    parts = converted([region(batch(0, 10))], executor=HandExecutor(error))
    assert codes(parts) == [code]
    assert parts[0].records == b""


def test_too_many_records_are_not_converted(monkeypatch):
    builder = BatchBuilder(Codec.GZIP)
    for _ in range(3):
        builder.append(0, None, b"")
    monkeypatch.setattr(records_module, "RECORDS_PER_BATCH", 2)
    assert codes(converted([region(builder.build())])) == ["UNSUPPORTED_VERSION"]


def test_a_region_of_a_log_that_was_truncated_is_not_converted():
    cut = FileRegion(Held(batch(0, 100), intact_end=50), 0, len(batch(0, 100)))
    failures = []
    assert codes(converted([cut], failures=failures)) == ["NOT_LEADER_OR_FOLLOWER"]
    assert failures == []


def test_a_disk_that_fails_is_reported():
    failures = []
    parts = converted([region(batch(0, 10), Broken)], failures=failures)
    assert codes(parts) == ["KAFKA_STORAGE_ERROR"]
    assert [failure.path for failure in failures] == ["/data/t-0/0.log"]


def test_a_batch_that_cannot_be_converted_is_met_after_those_before_it():
    good, bad = batch(0, 10), batch(1, 10, Codec.ZSTD)
    mixed, failed, other = converted([region(good + bad)], [region(bad)], [region(good)])
    assert offsets(mixed) == [0]
    assert offsets(other) == [0]
    assert codes([mixed, failed, other]) == ["NONE", "UNSUPPORTED_COMPRESSION_TYPE", "NONE"]
