"""What a leader does with produced bytes before they are appended.

`examine` looks at the header of the one batch that a producer may send per partition, checks it and
its checksum, and says what is left to do. Nearly always that is nothing: the producer's bytes
become the file's bytes. The rest is

- LogAppendTime: the header alone is rewritten, here and now;
- work on every record, which must not run on the event loop: old formats are converted, a codec
  that is not the topic's is changed, the keys of a compacted topic are looked at, and the records
  of a batch with a wrong timestamp, to name the bad ones (unless they are few). `examine` then
  returns a `Rework`, and `rework` does it, in another process.

What is refused is refused with the error Kafka gives for it, and nothing has changed. The records
themselves are not looked at otherwise: a batch whose header and checksum are right is taken at
its word on its timestamps and its count. This module knows no log, no offsets and no clock.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.errors import BatchTooLarge, CorruptRecords
from moldau.base.files import Buffer
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    CONTROL_BIT,
    LENGTH_END,
    MAGIC,
    PEEK_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_ok,
    parse_header,
    peek,
    with_append_time,
)
from moldau.records.compression import Codec
from moldau.records.conversion import recompress, up_convert
from moldau.records.record import check_count
from moldau.storage.record_checks import append_time_refused, check_records, has_wrong_time
from moldau.storage.topic_config import LogConfig

FIRST_VERSION_OF_BATCHES = 3
"""Produce 3 and later carry one batch of magic 2, earlier ones carry old messages (KIP-98)."""

FIRST_VERSION_WITH_ZSTD = 7
"""A client that speaks no Produce 7 cannot know zstd (KIP-110)."""

RECORDS_LOOKED_AT_HERE = 16
"""So many records without a codec are looked at on the spot, in less time than it takes to hand
them to another process."""

_MAGIC_POSITION = PEEK_SIZE - 1
_NEVER_FROM_CLIENTS = CONTROL_BIT | APPEND_TIME_BIT
_TOPIC_CODECS = {"uncompressed": Codec.NONE} | {codec.label: codec for codec in Codec if codec}
"""By `compression.type`; not here is `producer`, which leaves a batch as it came."""


class RefusedUnseen(ApiError):  # noqa: N818 - it names what happened
    """Records are refused before the log is asked, so the answer tells nothing of the log.

    Other refusals tell where the log starts: a producer that is told of an unknown id or sequence
    learns from it whether its records were deleted (KIP-360).
    """


class Incoming(NamedTuple):
    """A batch that can be appended."""

    header: BatchHeader
    batch: Buffer
    """Exactly the bytes that the header describes."""


class Rework(NamedTuple):
    """Work on single records that must be done before a batch can be appended; it pickles."""

    config: LogConfig
    now_ms: int


def examine(
    records: Buffer | None, config: LogConfig, now_ms: int, produce_version: int
) -> Incoming | Rework:
    """Check what a producer sent for one partition and say what it needs; ApiError refuses it.

    The answer is ready to be appended, or a Rework, which goes with the same bytes to `rework`.
    """
    if not records:
        raise RefusedUnseen(ErrorCode.INVALID_RECORD, "there is no record batch")
    if len(records) < PEEK_SIZE or records[_MAGIC_POSITION] != MAGIC:
        _check_old(records, config, produce_version)
        return Rework(config, now_ms)
    header = _checked_header(records, config)
    codec = header.attributes & CODEC_BITS
    if codec:
        _check_codec(codec, produce_version)
    if _TOPIC_CODECS.get(config.compression_type, codec) != codec:
        return _rework_of(header, config, now_ms)
    if config.compacts or has_wrong_time(header, config, now_ms):
        if codec or header.count > RECORDS_LOOKED_AT_HERE:
            return _rework_of(header, config, now_ms)
        _check_each(records, header, config, now_ms)
    return _stamped(Incoming(header, records), config, now_ms)


def _rework_of(header: BatchHeader, config: LogConfig, now_ms: int) -> Rework:
    try:
        check_count(header)
    except BatchTooLarge as error:
        raise _too_much(error) from error
    return Rework(config, now_ms)


def rework(records: bytes, task: Rework) -> Incoming:
    """Do what a Rework asks for; ApiError refuses the records. Made for `Executor.compute`."""
    config = task.config
    try:
        batch = _in_wanted_form(records, config)
        header = parse_header(batch)
    except BatchTooLarge as error:
        raise _too_much(error) from error
    except CorruptRecords as error:
        # A version 2 batch has passed its checksum: what is wrong inside was sent that way.
        new = records[_MAGIC_POSITION] == MAGIC
        code = ErrorCode.INVALID_RECORD if new else ErrorCode.CORRUPT_MESSAGE
        raise ApiError(code, str(error)) from error
    if config.compacts or has_wrong_time(header, config, task.now_ms):
        _check_each(batch, header, config, task.now_ms)
    if header.size > config.max_message_bytes:
        raise _too_large(header.size, config)
    return _stamped(Incoming(header, batch), config, task.now_ms)


def _check_each(batch: Buffer, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Refuse records without a key in a compacted topic, and those with a wrong timestamp."""
    try:
        check_records(batch, config, now_ms)
    except BatchTooLarge as error:
        raise _too_much(error) from error
    except CorruptRecords as error:
        if not has_wrong_time(header, config, now_ms):
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    if has_wrong_time(header, config, now_ms):
        # No record has the time that the header tells of, or none can have it.
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"The batch tells of timestamps from {header.base_timestamp} to"
            f" {header.max_timestamp}, which is out of range",
        )


def _in_wanted_form(records: bytes, config: LogConfig) -> bytes:
    """Make one batch of magic 2 in the topic's codec, unless it is one already."""
    codec = _TOPIC_CODECS.get(config.compression_type)
    level = None if codec is None else _level(codec, config)
    if records[_MAGIC_POSITION] != MAGIC:
        return up_convert(records, codec, level)
    if codec is None or parse_header(records).codec is codec:
        return records
    return recompress(records, codec, level)


def _check_old(records: Buffer, config: LogConfig, produce_version: int) -> None:
    """Let messages of magic 0 and 1 pass that a producer of their time sent."""
    if len(records) < PEEK_SIZE:
        raise _not_one_batch(f"{len(records)} bytes are too few for one")
    try:
        _, _, magic = peek(records)
    except CorruptRecords as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if produce_version >= FIRST_VERSION_OF_BATCHES:
        raise RefusedUnseen(
            ErrorCode.INVALID_RECORD,
            f"Produce {produce_version} does not take records of magic {magic}",
        )
    if len(records) > config.max_message_bytes:
        raise _too_large(len(records), config)


def _checked_header(records: Buffer, config: LogConfig) -> BatchHeader:
    """Read the header of the one batch there is, and make sure of its bytes and its claims."""
    try:
        header = parse_header(records)
    except CorruptRecords:
        raise _without_header(records) from None
    # Fields by position: this runs for every batch, and names cost more than the comparisons.
    base_offset, length, _, _, crc, attributes, delta, _, _, producer, epoch, sequence, count = (
        header
    )
    size = LENGTH_END + length
    if size != len(records):
        raise _wrong_size(size, len(records))
    if size > config.max_message_bytes:
        raise _too_large(size, config)
    if not crc_ok(records, 0, size):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the batch is not {crc}")
    if (
        count != delta + 1
        or count <= 0
        or base_offset
        or attributes & _NEVER_FROM_CLIENTS
        or (sequence < 0 or epoch < 0 if producer >= 0 else attributes & TRANSACTIONAL_BIT)
    ):
        raise _false_claim(header)
    return header


def _false_claim(header: BatchHeader) -> ApiError:
    """Say what in a header contradicts itself, or is not a client's to say."""
    if header.count != header.last_offset_delta + 1 or header.count <= 0:
        return ApiError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.count} records cannot end at delta {header.last_offset_delta}",
        )
    if header.base_offset:
        return ApiError(
            ErrorCode.INVALID_RECORD,
            f"a producer counts its batch from offset 0, not from {header.base_offset}",
        )
    if header.control:
        return ApiError(ErrorCode.INVALID_RECORD, "clients write no control records")
    if header.append_time:
        return append_time_refused(header.count)
    if header.producer_id >= 0:
        return ApiError(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} with epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}",
        )
    return ApiError(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")


def _check_codec(codec: int, produce_version: int) -> None:
    if codec > Codec.ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has number {codec}")
    if codec == Codec.ZSTD and produce_version < FIRST_VERSION_WITH_ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce {produce_version} cannot carry zstd"
        )


def _too_large(size: int, config: LogConfig) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{size} bytes are more than max.message.bytes, {config.max_message_bytes}",
    )


def _too_much(error: BatchTooLarge) -> ApiError:
    """Refuse with the error on which Java's producer splits a batch and sends the parts."""
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error))


def _without_header(records: Buffer) -> ApiError:
    """Tell a batch whose length cannot be from one that ends too soon."""
    try:
        _, size, _ = peek(records)
    except CorruptRecords as error:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    return _wrong_size(size, len(records))


def _wrong_size(size: int, available: int) -> ApiError:
    if size > available:
        return _not_one_batch(f"of its {size} bytes there are only {available}")
    return _not_one_batch(f"{available - size} bytes follow the first")


def _not_one_batch(what: str) -> ApiError:
    return RefusedUnseen(ErrorCode.INVALID_RECORD, f"one batch per partition; {what}")


def _level(codec: Codec, config: LogConfig) -> int | None:
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def _stamped(incoming: Incoming, config: LogConfig, now_ms: int) -> Incoming:
    """Give a batch the leader's time where the topic asks for it."""
    if config.message_timestamp_type == "CreateTime":
        return incoming
    header, parts = with_append_time(incoming.header, incoming.batch, now_ms)
    return Incoming(header, b"".join(parts))
