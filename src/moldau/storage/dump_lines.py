"""The output lines of the dump tool, exactly as Kafka's tool prints them.

`CurrentForm` is that of Kafka 4: a line per batch, followed by an indented line per record.
`OldForm` is that of Kafka 1.1: a line per batch or a line per record. Scripts parse both, so their
inconsistent spelling is kept. This module formats values and does not read files.
"""

from __future__ import annotations

from typing import Protocol

from moldau.base.errors import CorruptRecords, ProtocolError
from moldau.base.ids import NO_OFFSET
from moldau.records.batch import BatchHeader
from moldau.records.control import ControlType
from moldau.records.legacy import Message
from moldau.storage.dump_decoders import Contents
from moldau.storage.inspection import InspectedBatch, InspectedRecord
from moldau.storage.metadata_json import control_record_text
from moldau.storage.producers import NO_SEQUENCE, Producer, RememberedBatch


class LineFormat(Protocol):
    """The output format of every kind of line."""

    shows_batches_of_records: bool
    """Whether a batch has a line of its own when its records are printed."""

    def start(self, base_offset: int) -> str: ...
    def batch(self, batch: InspectedBatch) -> str: ...
    def record(self, batch: InspectedBatch, record: InspectedRecord) -> str: ...
    def contents(self, contents: Contents) -> str: ...
    def producer(self, producer: Producer) -> str: ...
    def empty_index(self, path: str) -> str | None: ...
    def gaps(self, path: str, pairs: list[tuple[int, int]]) -> list[str]: ...


class CurrentForm:
    """Kafka 4's lines."""

    shows_batches_of_records = True

    def start(self, base_offset: int) -> str:
        return f"Log starting offset: {base_offset}"

    def batch(self, batch: InspectedBatch) -> str:
        header = batch.header
        if isinstance(header, Message):
            head = f"offset: {header.offset}"
        else:
            horizon = header.base_timestamp if header.has_delete_horizon else NO_OFFSET
            head = (
                f"{_offsets(header)} count: {header.count} {_producer(header)} "
                f"isControl: {_bool(header.control)} deleteHorizonMs: {_optional_long(horizon)}"
            )
        return (
            f"{head} position: {batch.position} {_time_name(batch)}: {batch.max_timestamp} "
            f"size: {batch.size} magic: {header.magic} compresscodec: {_codec_name(batch)} "
            f"crc: {batch.crc} isvalid: {_bool(batch.valid)}"
        )

    def record(self, batch: InspectedBatch, record: InspectedRecord) -> str:
        line = (
            f"| offset: {record.offset} {_time_name(batch)}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
        )
        if record.crc is not None:
            return f"{line} isValid: {_bool(_valid(batch, record))} crc: {record.crc}"
        return f"{line} sequence: {record.sequence} {_header_keys(record)}{_control(record)}"

    def contents(self, contents: Contents) -> str:
        return _key(contents) + _payload(contents)

    def producer(self, producer: Producer) -> str:
        line = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: "
            f"{_optional_long(producer.transaction_first_offset)} "
            f"lastTimestamp: {producer.last_timestamp}"
        )
        if not producer.batches:
            return line
        last = producer.batches[-1]
        return (
            f"{line} firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
            f"lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} "
            f"timestamp: {last.timestamp}"
        )

    def empty_index(self, path: str) -> str | None:
        return f"{path} is empty."

    def gaps(self, path: str, pairs: list[tuple[int, int]]) -> list[str]:
        lines = [f"  {before} is followed by {after}" for before, after in pairs]
        return [f"Non-consecutive offsets in {path}", *lines]


class OldForm:
    """Kafka 1.1's lines."""

    shows_batches_of_records = False

    def start(self, base_offset: int) -> str:
        return f"Starting offset: {base_offset}"

    def batch(self, batch: InspectedBatch) -> str:
        header = batch.header
        if isinstance(header, Message):
            head = f"offset: {header.offset}"
        else:
            head = f"{_offsets(header)} {_producer(header)}"
        return (
            f"{head} position: {batch.position} {_time_name(batch)}: {batch.max_timestamp} "
            f"isvalid: {_bool(batch.valid)} size: {batch.size} magic: {header.magic} "
            f"compresscodec: {_codec_name(batch).upper()} crc: {batch.crc}"
        )

    def record(self, batch: InspectedBatch, record: InspectedRecord) -> str:
        header = batch.header
        line = (
            f"offset: {record.offset} position: {batch.position} "
            f"{_time_name(batch)}: {record.timestamp} isvalid: {_bool(_valid(batch, record))} "
            f"keysize: {_size(record.key)} valuesize: {_size(record.value)} "
            f"magic: {header.magic} compresscodec: {_codec_name(batch).upper()}"
        )
        if record.crc is not None:
            return f"{line} crc: {record.crc}"
        assert isinstance(header, BatchHeader)
        return (
            f"{line} producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"sequence: {record.sequence} isTransactional: {_bool(header.transactional)} "
            f"{_header_keys(record)}{_control(record)}"
        )

    def contents(self, contents: Contents) -> str:
        return "" if contents.payload is None else _key(contents) + _payload(contents)

    def producer(self, producer: Producer) -> str:
        last = producer.batches[-1] if producer.batches else None
        if last is None:
            last = RememberedBatch(NO_SEQUENCE, NO_OFFSET, 0, producer.last_timestamp)
        first_offset = producer.transaction_first_offset
        transaction = f"Some({first_offset})" if first_offset >= 0 else "None"
        return (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: {transaction} "
            f"firstSequence: {last.last_sequence - last.offset_delta} "
            f"lastSequence: {last.last_sequence} lastOffset: {last.last_offset} "
            f"offsetDelta: {last.offset_delta} timestamp: {last.timestamp}"
        )

    def empty_index(self, path: str) -> str | None:  # noqa: ARG002 - the other form names it
        return None

    def gaps(self, path: str, pairs: list[tuple[int, int]]) -> list[str]:
        lines = [f"  {before} is followed by {after}" for before, after in reversed(pairs)]
        return [f"Non-consecutive offsets in :{path}", *lines]


def _offsets(header: BatchHeader) -> str:
    return f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"


def _producer(header: BatchHeader) -> str:
    return (
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_bool(header.transactional)}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional_long(value: int) -> str:
    return f"OptionalLong[{value}]" if value >= 0 else "OptionalLong.empty"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _header_keys(record: InspectedRecord) -> str:
    return f"headerKeys: [{','.join(record.header_keys)}]"


def _valid(batch: InspectedBatch, record: InspectedRecord) -> bool:
    """Return whether a record's checksum matches; only an unwrapped old message has its own."""
    return batch.valid or record.crc != batch.crc


def _time_name(batch: InspectedBatch) -> str:
    if batch.header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.append_time else "CreateTime"


def _codec_name(batch: InspectedBatch) -> str:
    try:
        return batch.header.codec.label
    except CorruptRecords:
        return "unknown"


def _control(record: InspectedRecord) -> str:
    if record.marker is not None:
        kind = ControlType.ABORT if record.marker.aborted else ControlType.COMMIT
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {record.marker.coordinator_epoch}"
    number = record.control_type
    if number is None:
        return ""
    try:
        text = control_record_text(number, record.value)
    except ProtocolError as error:
        text = f"Error at {record.offset}, skipping. {error}"
    if text is not None:
        return f" {text}"
    known = number in ControlType.__members__.values()
    return f" controlType: {ControlType(number).name if known else 'UNKNOWN'}({number})"


def _key(contents: Contents) -> str:
    return "" if contents.key is None else f" key: {contents.key}"


def _payload(contents: Contents) -> str:
    return "" if contents.payload is None else f" payload: {contents.payload}"
