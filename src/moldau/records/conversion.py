"""Rewriting records from one form to another: the per-record work a broker cannot avoid.

Bytes in, bytes out, plain functions that pickle: the broker runs them in a worker process, so that
its event loop never waits for them. Offsets written here are those a batch has, or 0 up for what a
producer sends; giving out offsets is the log's business.
"""

from __future__ import annotations

from collections import deque

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.base.limits import INFLATED_BATCH_BYTES
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import (
    CODEC_BITS,
    MAGIC,
    BatchSpan,
    crc_ok,
    iter_batches,
    pack_batch,
    parse_header,
)
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress
from moldau.records.legacy import iter_messages, message_set, read_message, unwrapped
from moldau.records.record import iter_records, payload_of


def recompress(batch: Buffer, codec: Codec, level: int | None = None) -> bytes:
    """Compress a version 2 batch anew, as `compression.type` asks.

    Its records are read once to be sure of them and then kept byte for byte, so offsets,
    timestamps, headers and the producer's numbers are those of before.
    """
    header = parse_header(batch)
    payload = payload_of(header, batch)
    deque(iter_records(header, payload), maxlen=0)
    attributes = header.attributes & ~CODEC_BITS | codec
    return pack_batch(header._replace(attributes=attributes), compress(codec, payload, level))


def up_convert(messages: Buffer, codec: Codec | None = None, level: int | None = None) -> bytes:
    """Make one version 2 batch of the messages of a Produce request of version 0 to 2.

    Without a codec, the last one the messages themselves used, as Kafka decides it.
    """
    outer = list(iter_messages(messages))
    if not outer:
        raise CorruptRecords("no message in a message set")
    if codec is None:
        codec = next((each.codec for each in reversed(outer) if each.codec), Codec.NONE)
    builder = BatchBuilder(codec, level)
    for message in outer:
        # One limit for all wrappers together: many small bombs are one large one.
        for record in unwrapped(message, limit=INFLATED_BATCH_BYTES - builder.size):
            builder.append(record.timestamp, record.key, record.value)
    return builder.build()


def down_convert(batches: Buffer, magic: int) -> bytes:
    """Make messages of batches for an old Fetch: magic 0 for versions 0 and 1, 1 for 2 and 3.

    Headers and control batches have no old form and are left out, and so is a batch cut at the
    end. What is old enough already is kept as it is.
    """
    return b"".join(
        memoryview(batches)[span.position : span.position + span.size]
        if span.magic <= magic
        else _down_converted(batches, span, magic)
        for span in iter_batches(batches, allow_cut=True)
    )


def _down_converted(batches: Buffer, span: BatchSpan, magic: int) -> bytes:
    if span.magic < MAGIC:
        message = read_message(batches, span)
        return message_set(unwrapped(message), magic, message.codec)
    if not crc_ok(batches, span.position, span.size):
        raise CorruptRecords(f"the batch at offset {span.base_offset} does not match its checksum")
    header = parse_header(batches, span.position)
    if header.control:
        return b""
    if header.codec is Codec.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "records compressed with zstd need Fetch version 10 or newer",
        )
    records = list(iter_records(header, payload_of(header, batches, span.position)))
    if not records:
        return b""
    return message_set(records, magic, header.codec, timestamp_type=header.timestamp_type)
