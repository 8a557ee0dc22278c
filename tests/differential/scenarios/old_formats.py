"""Messages of magic 0 and 1: Produce 0-2 and Fetch 0-3, which Kafka 4 no longer serves."""

from __future__ import annotations

from differential.batches import TIME, batch, fetch, patched, produce
from differential.peer import Peer
from moldau.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest
from moldau.records.batch import iter_batches, parse_header
from moldau.records.compression import Codec
from moldau.records.legacy import iter_messages, message_set
from moldau.records.record import Record, read_records

LAST_PRODUCE, LAST_FETCH = 2, 3


def produced(peer: Peer) -> None:
    for version in peer.versions(ProduceRequest, last=LAST_PRODUCE):
        cases = _message_sets(1 if version == LAST_PRODUCE else 0)
        _send_each(peer, version, peer.topic(f"t{version}", len(cases)), cases)
        compacted = peer.topic(f"c{version}", len(cases), cleanup_policy="compact")
        _send_each(peer, version, compacted, cases)
        stamping = peer.topic(f"s{version}", message_timestamp_type="LogAppendTime")
        peer.ask("stamped", produce(peer, stamping, cases["plain"]), version)
        small = peer.topic(f"m{version}", max_message_bytes="100")
        peer.ask("too large", produce(peer, small, cases["plain"]), version)
        peer.ask("unknown topic", produce(peer, "nowhere", cases["plain"]), version)
        peer.ask("acks 2", produce(peer, stamping, cases["plain"], acks=2), version)


def fetched(peer: Peer) -> None:
    if not peer.versions(FetchRequest, last=LAST_FETCH):
        return
    topic = peer.topic("t")
    for values in ((b"a",), (b"b", None), (b"d", b"e", b"f"), (b"x" * 3000,)):
        peer.call(produce(peer, topic, batch(*values)))
    for version in peer.versions(FetchRequest, last=LAST_FETCH):
        for offset in (0, 1, 2, 4, 6, 7, 8, -1):
            _fetch(peer, f"at {offset}", topic, offset, version)
        for limit in (0, 1, 30, 60, 150):
            for offset in (0, 6):
                what = f"partition max {limit} at {offset}"
                _fetch(peer, what, topic, offset, version, partition_max_bytes=limit)
                _fetch(peer, f"max {limit} at {offset}", topic, offset, version, max_bytes=limit)
        _fetch(peer, "unknown topic", "nowhere", 0, version)


def _fetch(peer: Peer, what: str, topic: str, offset: int, version: int, **limits: int) -> None:
    """Fetch, and compare what a consumer sees.

    Kafka converts while it sends: it leaves out what lies before the offset, and fills up the size
    it has announced with the beginning of a message that has no end.
    """
    answer = peer.call(fetch(peer, topic, offset, **limits), version)
    (partition,) = answer.responses[0].partitions
    seen = iter_messages(partition.records or b"", allow_cut=True)
    peer.note(f"{what}: messages v{version}", [each for each in seen if each.offset >= offset])
    partition.records = None
    peer.note_answer(f"{what} v{version}", answer)


def _message_sets(magic: int) -> dict[str, bytes]:
    records = [Record(n, TIME + n if magic else -1, b"k%d" % n, b"v%d" % n) for n in range(3)]
    bare = [record._replace(key=None) for record in records]
    plain = message_set(records, magic)
    return {
        "plain": plain,
        "null keys": message_set(bare, magic),
        "null values": message_set([record._replace(value=None) for record in records], magic),
        "gzip": message_set(records, magic, Codec.GZIP),
        "snappy": message_set(records, magic, Codec.SNAPPY),
        "two wrappers": message_set(records, magic, Codec.GZIP) * 2,
        "wrong checksum": patched(plain, 12, b"\1\2\3\4"),
        "cut": plain[:-1],
        "cut in the first": plain[:20],
        "empty": b"",
        "magic 3": patched(plain, 16, b"\3"),
        "codec 5": message_set(records[:1], magic)[:17] + b"\5" + plain[18:],
    }


def _send_each(peer: Peer, version: int, topic: str, cases: dict[str, bytes]) -> None:
    for partition, (what, records) in enumerate(cases.items()):
        peer.ask(f"{topic}: {what}", produce(peer, topic, records, partition=partition), version)
        answer = peer.call(fetch(peer, topic, partition=partition), peer.newest(FetchRequest))
        peer.note(f"{topic}: {what}, stored", _stored(answer))


def _stored(answer: FetchResponse) -> list[tuple[object, ...]]:
    """Read batches but for what a compressor decides: sizes and checksums."""
    (partition,) = answer.responses[0].partitions
    data = bytes(partition.records or b"")
    found = []
    for span in iter_batches(data):
        header = parse_header(data, span.position)._replace(length=0, crc=0)
        found.append((header, list(read_records(data, span.position))))
    return found


SCENARIOS = (produced, fetched)
