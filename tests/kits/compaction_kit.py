"""What tests of compaction share: keyed batches, and a cleaning done at once, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kits.log_kit import KEY, NOW_MS, Broker, region_bytes
from moldau.base.ids import PartitionKey
from moldau.records.batch import iter_batches, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.control import EndTransactionMarker, end_transaction_marker
from moldau.records.record import Record, read_records
from moldau.storage.compaction.swap import Cleaning, Limits
from moldau.storage.compaction.work import CleaningOutcome, begin, go_on
from moldau.storage.log import Log
from moldau.storage.producers import Origin
from moldau.storage.topic_config import LogConfig

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=700,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=1000,
)
LIMITS = Limits(key_bytes=1 << 20, chunk_bytes=256)

Pair = tuple[bytes | None, bytes | None]


def keyed_batch(
    pairs: Sequence[Pair],
    *,
    codec: Codec = Codec.NONE,
    timestamps: Sequence[int] | int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """Build a batch of keys and values; one timestamp serves all records."""
    builder = BatchBuilder(
        codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
    )
    for number, (key, value) in enumerate(pairs):
        stamp = timestamps if isinstance(timestamps, int) else timestamps[number]
        builder.append(stamp, key, value, [("header", b"%d" % number)] if number % 2 else [])
    return builder.build()


def write(log: Log, *pairs: Pair, codec: Codec = Codec.NONE, timestamp: int = NOW_MS) -> int:
    """Append one batch; return its first offset."""
    batch = keyed_batch(pairs, codec=codec, timestamps=timestamp)
    return log.append(batch, parse_header(batch), 0, Origin.CLIENT).base_offset


def start_cleaning(
    broker: Broker,
    key: PartitionKey = KEY,
    *,
    stable: int | None = None,
    limits: Limits = LIMITS,
) -> Cleaning:
    """Prepare to clean all that may be cleaned, durable up to its end."""
    log = broker.log(key)
    broker.flush(log)
    dirt = broker.manager.dirt(key, log.log_end_offset if stable is None else stable)
    return broker.manager.prepare_cleaning(key, dirt, limits)


def finish_cleaning(
    broker: Broker,
    cleaning: Cleaning,
    key: PartitionKey = KEY,
    *,
    between: Callable[[], None] = lambda: None,
) -> CleaningOutcome:
    """Go through all steps here and now, and through everything that follows them."""
    step = begin(cleaning.plan, 1)
    while step.outcome is None:
        if step.group is not None:
            cleaning.swap_in(step.group)
        between()
        step = go_on(cleaning.plan.token, 1)
    cleaning.sync()
    broker.manager.cleaned(key, step.outcome.end_offset)()
    return step.outcome


def clean(
    broker: Broker,
    key: PartitionKey = KEY,
    *,
    stable: int | None = None,
    limits: Limits = LIMITS,
) -> CleaningOutcome:
    """Roll the log and clean what may be cleaned."""
    cleaning = start_cleaning(broker, key, stable=stable, limits=limits)
    return finish_cleaning(broker, cleaning, key)


def roll_and_clean(
    broker: Broker, key: PartitionKey = KEY, *, limits: Limits = LIMITS
) -> CleaningOutcome:
    """Clean all that there is."""
    broker.log(key).roll()
    return clean(broker, key, limits=limits)


def records(log: Log) -> list[Record]:
    """Read every data record of every batch, in order, as the files hold them."""
    found: list[Record] = []
    for segment in log.segments:
        for batch in segment.batches():
            header = batch.header
            if header is not None and not header.control:
                content = segment.handle().read(batch.position, batch.size)
                found += read_records(content)
    return found


def committed(log: Log, offset: int | None = None) -> list[Record]:
    """Read as a `read_committed` consumer does: fetch by fetch, leaving aborted records out."""
    position = log.log_start_offset if offset is None else offset
    unstable = log.first_unstable_offset
    end = log.log_end_offset if unstable is None else unstable
    found: list[Record] = []
    while position < end:
        read = log.read(position, 300, end)
        content = region_bytes(read)
        if not content:
            break
        waiting = sorted(log.aborted_transactions(position, read), key=lambda one: one.first_offset)
        aborted: set[int] = set()
        for span in iter_batches(content, allow_cut=True):
            header = parse_header(content, span.position)
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            batch = content[span.position : span.position + span.size]
            if header.control:
                if end_transaction_marker(batch) == EndTransactionMarker(True, 0):
                    aborted.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in aborted):
                found += [one for one in read_records(batch) if one.offset >= position]
            next_offset = header.next_offset
        position = next_offset
    return found


def final_map(log: Log) -> dict[bytes, bytes]:
    """What a `read_committed` consumer who reads everything knows at the end."""
    state: dict[bytes, bytes] = {}
    for record in committed(log):
        assert record.key is not None
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """List offset, key and value of every data record."""
    return [(record.offset, record.key, record.value) for record in records(log)]
