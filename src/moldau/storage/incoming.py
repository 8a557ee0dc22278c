"""Validation of produced batches by a leader, before the append.

A producer may send one batch per partition. `examine` runs on the event loop and checks its header
and its checksum. Usually nothing else is to do, and the producer's bytes go to the file unchanged.
Otherwise

- for LogAppendTime `examine` rewrites the header;
- work on every record must not run on the event loop, unless the records are few and uncompressed:
  conversion of old formats, compression with the topic's codec, the check for missing keys in a
  compacted topic, and the check of single timestamps if the header's are out of range. `examine`
  then returns a `Rework`, which `rework` executes in another process.

A refusal has Kafka's error code. The records are not checked otherwise: a batch with a valid header
and checksum may have a wrong count or wrong timestamps. This module knows no log, no offsets and no
clock.
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
"""Produce 3 and later has one batch of magic 2; earlier versions have old messages (KIP-98)."""

FIRST_VERSION_WITH_ZSTD = 7
"""The first Produce version with zstd (KIP-110)."""

RECORDS_LOOKED_AT_HERE = 16
"""Up to so many uncompressed records are checked on the event loop: faster than handing them to
another process."""

_MAGIC_POSITION = PEEK_SIZE - 1
_NEVER_FROM_CLIENTS = CONTROL_BIT | APPEND_TIME_BIT
_TOPIC_CODECS = {"uncompressed": Codec.NONE} | {codec.label: codec for codec in Codec if codec}
"""By `compression.type`. `producer` is missing: it leaves a batch unchanged."""


class RefusedUnseen(ApiError):  # noqa: N818 - it names what happened
    """A batch is refused without a look at the log, so the answer has no log start offset.

    Other refusals have it: a producer with an unknown id or sequence sees from it whether its
    records were deleted (KIP-360).
    """


class Incoming(NamedTuple):
    """A batch that can be appended."""

    header: BatchHeader
    batch: Buffer
    """Exactly the bytes that the header describes."""


class Rework(NamedTuple):
    """Work on single records before a batch can be appended; it can be pickled."""

    config: LogConfig
    now_ms: int


def examine(
    records: Buffer | None, config: LogConfig, now_ms: int, produce_version: int
) -> Incoming | Rework:
    """Check the bytes that a producer sent for one partition; ApiError refuses them.

    Returns a batch ready to append, or a Rework to pass to `rework` with the same bytes.
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
    """Execute a Rework; ApiError refuses the records. For `Executor.compute`."""
    config = task.config
    try:
        batch = _in_wanted_form(records, config)
        header = parse_header(batch)
    except BatchTooLarge as error:
        raise _too_much(error) from error
    except CorruptRecords as error:
        # A batch of magic 2 has passed its checksum: it was sent like this, not damaged later.
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
        # The records are unreadable, or none has the timestamp in the header: blame the batch.
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"The batch tells of timestamps from {header.base_timestamp} to"
            f" {header.max_timestamp}, which is out of range",
        )


def _in_wanted_form(records: bytes, config: LogConfig) -> bytes:
    """Return one batch of magic 2 with the topic's codec; unchanged if it already is one."""
    codec = _TOPIC_CODECS.get(config.compression_type)
    level = None if codec is None else _level(codec, config)
    if records[_MAGIC_POSITION] != MAGIC:
        return up_convert(records, codec, level)
    if codec is None or parse_header(records).codec is codec:
        return records
    return recompress(records, codec, level)


def _check_old(records: Buffer, config: LogConfig, produce_version: int) -> None:
    """Accept messages of magic 0 and 1 only in the Produce versions that had them."""
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
    """Parse the header of the batch; check its size, its checksum and its fields."""
    try:
        header = parse_header(records)
    except CorruptRecords:
        raise _without_header(records) from None
    # Fields by position: this runs for every batch, and attribute access would cost more.
    base_offset, length, _, _, crc, attributes, delta, _, _, producer, epoch, sequence, count = (
        header
    )
    size = LENGTH_END + length
    if size != len(records):
        raise _wrong_size(size, len(records))
    # Before the checksum: a batch that is too large must not cost a pass over all its bytes.
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
    """Return the error for a header that is inconsistent, or that no client may send."""
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
    """Return the error on which Java's producer splits a batch and sends the parts."""
    return ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error))


def _without_header(records: Buffer) -> ApiError:
    """Return the error for an impossible length, or for a batch that is incomplete."""
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
    """Set the leader's time in the header if the topic has LogAppendTime."""
    if config.message_timestamp_type == "CreateTime":
        return incoming
    header, parts = with_append_time(incoming.header, incoming.batch, now_ms)
    return Incoming(header, b"".join(parts))
