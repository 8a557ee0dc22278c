"""Rewriting records from one form to another: the per-record work a broker cannot avoid.

Bytes in, bytes out, plain functions that pickle: the broker runs them in a worker process, so that
its event loop never waits for them. Offsets written here are those a batch has, or 0 up for what a
producer sends; giving out offsets is the log's business.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.base.limits import CONVERTED_BATCH_BYTES, INFLATED_BATCH_BYTES, RECORDS_PER_BATCH
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import (
    CODEC_BITS,
    MAGIC,
    PEEK_SIZE,
    BatchSpan,
    crc_ok,
    iter_batches,
    pack_batch,
    parse_header,
    peek,
)
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec, compress
from moldau.records.legacy import iter_messages, message_set, read_message, unwrapped
from moldau.records.record import check_count, iter_records, payload_of


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
        room = INFLATED_BATCH_BYTES - builder.size
        count_room = max(0, RECORDS_PER_BATCH - builder.count)
        for record in unwrapped(message, limit=room, count_limit=count_room):
            builder.append(record.timestamp, record.key, record.value)
    return builder.build()


class Converted(NamedTuple):
    """What became of the first batches in a buffer."""

    messages: bytes
    consumed: int
    """Bytes of the buffer that were converted, or left out."""
    inflated: int
    """What they grew to on the way, which is a measure of the work."""
    needed: int
    """The size of the first batch if it is cut, else 0."""


def down_convert(batches: Buffer, magic: int, limit: int = INFLATED_BATCH_BYTES) -> Converted:
    """Make messages of batches for an old Fetch: magic 0 for versions 0 and 1, 1 for 2 and 3.

    Stops once the batches so far have grown to the limit, before a batch that is cut at the end,
    and before one that cannot be converted; if that is the first, raises why.

    Headers and control batches have no old form and are left out. What is old enough already is
    kept as it is.
    """
    messages = bytearray()
    consumed = inflated = 0
    try:
        for span in iter_batches(batches, allow_cut=True):
            converted, size = _down_converted(batches, span, magic)
            messages += converted
            consumed += span.size
            inflated += size
            if inflated >= limit:
                break
    except (CorruptRecords, ApiError):
        if not consumed:
            raise
    needed = peek(batches)[1] if not consumed and len(batches) >= PEEK_SIZE else 0
    return Converted(bytes(messages), consumed, inflated, needed)


def _down_converted(batches: Buffer, span: BatchSpan, magic: int) -> tuple[Buffer, int]:
    """Convert one batch; also say what it grew to."""
    if span.magic <= magic:
        return memoryview(batches)[span.position : span.position + span.size], span.size
    if span.magic < MAGIC:
        message = read_message(batches, span)
        inner = unwrapped(message, limit=CONVERTED_BATCH_BYTES, count_limit=RECORDS_PER_BATCH)
        content = message_set(inner, magic, message.codec)
        return content, max(span.size, sum(len(each.value or b"") for each in inner))
    if not crc_ok(batches, span.position, span.size):
        raise CorruptRecords(f"the batch at offset {span.base_offset} does not match its checksum")
    header = parse_header(batches, span.position)
    if header.control:
        return b"", span.size
    if header.codec is Codec.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "records compressed with zstd need Fetch version 10 or newer",
        )
    check_count(header)
    payload = payload_of(header, batches, span.position, limit=CONVERTED_BATCH_BYTES)
    records = iter_records(header, payload)
    content = message_set(records, magic, header.codec, timestamp_type=header.timestamp_type)
    return content, max(span.size, len(payload))
