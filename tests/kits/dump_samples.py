"""Small partition folders, the same bytes every time, for whoever compares dumps of them.

`write_samples` makes a sound folder with every kind of batch, one of old messages, one with damage
in its log, one with damage in its indexes, a metadata log, and one of each coordinator's topic. The
texts in
`tests/unit/storage/dumps` are what Kafka's own tools (4.3.1 and 1.1.1) print for them.
"""

import struct
from pathlib import Path

from moldau.coordination.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupValue,
    MemberValue,
    OffsetKey,
)
from moldau.coordination.transactions.records import (
    TransactionLogKey,
    TransactionLogPartitions,
    TransactionLogValue,
)
from moldau.protocol.compiler import encode
from moldau.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)
from moldau.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
    VoterVersionFeature,
)
from moldau.protocol.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from moldau.protocol.wire import uvarint
from moldau.records.batch import APPEND_TIME_BIT, DELETE_HORIZON_BIT, pack_batch, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.records.control import (
    ControlType,
    EndTransactionMarker,
    control_batch,
    end_transaction_batch,
)
from moldau.records.legacy import message_set
from moldau.records.record import Record
from moldau.storage.indexes import AbortedTransaction, encode_aborted
from moldau.storage.producer_snapshot import format_snapshot
from moldau.storage.producers import ProducerStates

TIME = 1_700_000_000_000
ID = bytes(range(16))
STEM = "0" * 20

GZIPPED_RECORDS = bytes.fromhex(
    "1f8b0800000000000203b360606060cad6aaca2c28484d5140a51800e70b3a7f1d000000"
)
"""The record "zipped zipped zipped ", squeezed once: another zlib may do it otherwise."""

SOUND, OLD, DAMAGED, MISLED = "sound-0", "old-0", "damaged-0", "misled-0"
METADATA = "__cluster_metadata-0"
OFFSETS, TRANSACTIONS = "__consumer_offsets-0", "__transaction_state-0"


def built(base_offset, *records, **settings):
    """Make a batch of (time after TIME, key, value, headers)."""
    builder = BatchBuilder(base_offset=base_offset, **{"leader_epoch": 0, **settings})
    for delta, key, value, *headers in records:
        builder.append(TIME + delta, key, value, headers)
    return builder.build()


def changed(batch, **fields):
    """Give a batch other header fields and seal it again."""
    return pack_batch(parse_header(batch)._replace(**fields), batch[61:])


def marker(offset, *, aborted, coordinator_epoch):
    sign = EndTransactionMarker(aborted, coordinator_epoch)
    return end_transaction_batch(sign, 9, 0, TIME, base_offset=offset, leader_epoch=0)


def sound_batches():
    """One batch of every kind; offsets 11 to 13 and 16, 17 are compacted away."""
    numbered = {"producer_id": 9, "producer_epoch": 0}
    gzipped = changed(built(4, (0, b"k", b"x")), attributes=int(Codec.GZIP))
    emptied = built(11, (0, b"k", b"v"), **numbered, base_sequence=5)[:61]
    return [
        built(0, (0, None, b"hello")),
        built(
            1,
            (0, b"k1", b"v1", ("h1", b"x"), ("h2", None)),
            (5, b"k2", None),
            (3, None, b""),
            producer_id=7,
            producer_epoch=1,
            base_sequence=10,
            leader_epoch=3,
        ),
        pack_batch(parse_header(gzipped)._replace(leader_epoch=3), GZIPPED_RECORDS),
        changed(
            built(5, (0, b"k", b"append time"), leader_epoch=3),
            attributes=APPEND_TIME_BIT,
            max_timestamp=TIME + 9999,
        ),
        built(
            6,
            (0, b"k", b"txn"),
            (0, b"k", b"txn"),
            **numbered,
            base_sequence=2**31 - 1,
            transactional=True,
            leader_epoch=3,
        ),
        changed(marker(8, aborted=True, coordinator_epoch=5), leader_epoch=3),
        changed(marker(9, aborted=False, coordinator_epoch=6), leader_epoch=3),
        changed(
            emptied,
            leader_epoch=3,
            last_offset_delta=2,
            count=0,
            base_timestamp=-1,
            max_timestamp=-1,
        ),
        changed(built(14, (0, b"k", None), leader_epoch=4), attributes=DELETE_HORIZON_BIT),
        built(15, (0, "\u017e".encode(), b"\xff\xfe no UTF-8"), leader_epoch=4),
        built(18, (0, b"gap", b"gap"), leader_epoch=4),
    ]


def positions(batches):
    starts = [0]
    for batch in batches:
        starts.append(starts[-1] + len(batch))
    return starts


def write_samples(root):
    """Make all the folders below this one."""
    for name in (SOUND, OLD, DAMAGED, MISLED, METADATA, OFFSETS, TRANSACTIONS):
        (Path(root) / name).mkdir()
    _write_sound(Path(root) / SOUND)
    _write_old(Path(root) / OLD)
    _write_damaged(Path(root) / DAMAGED)
    _write_misled(Path(root) / MISLED)
    _write_metadata(Path(root) / METADATA)
    _write_records(Path(root) / OFFSETS, [*offset_records(), *group_records()])
    _write_records(Path(root) / TRANSACTIONS, transaction_records())


def _write_sound(folder):
    batches = sound_batches()
    at = positions(batches)
    (folder / f"{STEM}.log").write_bytes(b"".join(batches))
    (folder / f"{STEM}.index").write_bytes(struct.pack(">4i", 3, at[1], 9, at[6]))
    (folder / f"{STEM}.timeindex").write_bytes(
        struct.pack(">qiqi", TIME + 5, 3, TIME + 9999, 5),
    )
    (folder / f"{STEM}.txnindex").write_bytes(encode_aborted([AbortedTransaction(9, 6, 8, 9)]))
    states = ProducerStates()
    for batch in batches:
        states.replay(parse_header(batch), batch)
    opened = built(19, (0, b"k", b"open"), producer_id=11, producer_epoch=2, transactional=True)
    states.replay(parse_header(opened), opened)
    states.get(11).batches.clear()
    (folder / f"{19:020d}.snapshot").write_bytes(format_snapshot(states))
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n3 1\n4 14\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")


def _write_old(folder):
    messages = [
        message_set([Record(0, -1, b"k", b"v")], 0),
        message_set([Record(1, TIME, None, b"v1")], 1),
        message_set([Record(2, TIME, b"append time", None)], 1, timestamp_type=1),
    ]
    (folder / f"{STEM}.log").write_bytes(b"".join(messages))


def _write_damaged(folder):
    good, bad = sound_batches()[0], bytearray(built(1, (0, None, b"x")))
    bad[-2] ^= 1
    after = built(2, (0, None, b"y"))
    (folder / f"{STEM}.log").write_bytes(good + bad + after + b"junk" * 6)
    torn = format_snapshot(ProducerStates())[:-1]
    (folder / f"{3:020d}.snapshot").write_bytes(torn)


def _write_misled(folder):
    batches = sound_batches()
    at = positions(batches)
    (folder / f"{STEM}.log").write_bytes(b"".join(batches))
    (folder / f"{STEM}.index").write_bytes(struct.pack(">4i", 4, at[1], 10, at[6]))
    (folder / f"{STEM}.timeindex").write_bytes(
        struct.pack(">qiqiqi", TIME + 4, 3, TIME + 3, 5, TIME + 9999, 6),
    )


def _write_metadata(folder):
    voters = [LeaderChangeVoter(1), LeaderChangeVoter(2)]
    voter = Voter(
        1, ID, [VoterEndpoint("CONTROLLER", "localhost", 60000)], VoterVersionFeature(0, 1)
    )
    controls = [
        (ControlType.LEADER_CHANGE, LeaderChangeMessage(0, 1, voters, voters[:1])),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(0, 1)),
        (ControlType.KRAFT_VOTERS, VotersRecord(0, [voter])),
        (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord(0, TIME)),
        (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(0)),
    ]
    endpoint = BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0)
    broker = RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=ID,
        broker_epoch=2**40,
        end_points=[endpoint],
        features=[BrokerFeature("kraft.version", 0, 1)],
        log_dirs=[ID],
    )
    partition = PartitionRecord(
        0, ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0, directories=[ID]
    )
    scram = UserScramCredentialRecord("user", 1, b"\xff\x00", b"stored", b"server", 4096)
    records = [
        (3, broker),
        (0, TopicRecord("na\u00efve", ID)),
        (1, partition),
        (0, ConfigRecord(2, "t", "retention.ms", None)),
        (2, PartitionChangeRecord(0, ID, isr=[], leader=-1, eligible_leader_replicas=[1])),
        (0, scram),
        (0, ClientQuotaRecord([QuotaEntity("user", None)], "request_percentage", 12.5)),
    ]
    batches = [
        control_batch(kind, encode(value, 0), TIME, base_offset=offset, leader_epoch=1)
        for offset, (kind, value) in enumerate(controls)
    ]
    framed = [
        (0, None, b"".join(map(uvarint, (1, value.KEY, version))) + encode(value, version))
        for version, value in records
    ]
    batches.append(built(len(batches), *framed, leader_epoch=1))
    (folder / f"{STEM}.log").write_bytes(b"".join(batches))


def _write_records(folder, records):
    """Write keys and values into one batch, and a marker behind it."""
    batch = built(0, *((0, key, value) for key, value in records))
    end = marker(len(records), aborted=False, coordinator_epoch=1)
    (folder / f"{STEM}.log").write_bytes(batch + end)


def numbered(number, message, version=None):
    """Put a number before a message: a record type or a version."""
    return struct.pack(">h", number) + encode(message, number if version is None else version)


def offset_records():
    """An offset in every version, one under the older type of key, tombstones, and the unknown."""
    key = numbered(1, OffsetKey("group", "na\u00efve", 7), 0)
    offset = CommittedOffset(42, 3, 'told "by"\n\x1f\\u001f', TIME, topic_id=ID)
    kept = CommittedOffset(43, -1, "", TIME + 1, TIME + 2)
    return [
        *((key, numbered(version, offset)) for version in range(5)),
        *((key, numbered(version, kept)) for version in (1, 4)),
        (numbered(0, OffsetKey("older", "t", 0), 0), numbered(0, offset)),
        (key, None),
        (numbered(2, GroupKey("gone"), 0), None),
        (numbered(99, GroupKey("future"), 0), b"\0\0"),
    ]


def group_records():
    """Groups of consumers and of others, in every version, with whatever members may send."""
    owned = [ConsumerProtocolTopicPartition("t", [0, 2])]
    subscription = ConsumerProtocolSubscription(["t", "u"], b"\xff\x01", owned, 5, "rack")
    assignment = ConsumerProtocolAssignment(owned, b"")
    members = [
        MemberValue(
            "m-1", "i-1", "c", "/h", 9, 8, numbered(3, subscription), numbered(0, assignment)
        ),
        MemberValue("m-2", None, "c", "/h", 9, 8, numbered(0, subscription), b""),
        MemberValue("m-3", None, "c", "/h", 9, 8, numbered(1, subscription)[:-1], b"\xff\xfe\0"),
    ]
    key = numbered(2, GroupKey("g"), 0)
    consumers = GroupValue("consumer", 5, "range", "m-1", TIME, members)
    others = GroupValue("connect", 6, "sessioned", "m-1", TIME, members[:1])
    empty = GroupValue("consumer", 7, None, None, TIME, [])
    return [
        *((key, numbered(version, consumers)) for version in range(5)),
        (key, numbered(3, others)),
        (key, numbered(3, empty)),
    ]


def transaction_records():
    """Transactional ids in every version, a tombstone, and the unknown."""
    key = numbered(0, TransactionLogKey("copier-1"), 0)
    partitions = [TransactionLogPartitions("a", [0, 1]), TransactionLogPartitions("b", [3])]
    open_one = TransactionLogValue(
        producer_id=7,
        previous_producer_id=5,
        next_producer_id=9,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=TIME,
        transaction_start_timestamp_ms=TIME - 1,
        client_transaction_version=2,
    )
    fresh = TransactionLogValue(producer_id=7, transaction_partitions=None)
    return [
        *((key, numbered(version, value)) for value in (open_one, fresh) for version in (0, 1)),
        (key, None),
        (numbered(8, TransactionLogKey("future"), 0), b"\0\0"),
    ]
