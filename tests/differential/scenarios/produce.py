"""Produce: what is taken, what is refused, and with which words."""

from __future__ import annotations

import time

from differential.batches import TIME, batch, changed, fetch, patched, produce
from differential.peer import NO_TOPIC_ID, STRANGE_TOPIC_ID, Peer
from moldau.protocol.messages.data import (
    FetchRequest,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.batch import HEADER_SIZE
from moldau.records.compression import Codec

PRODUCER = 4_000_000
"""Ids from here on are nobody's: brokers take any from an idempotent producer."""
LAST_SEQUENCE = 2**31 - 1


def ordinary(peer: Peer) -> None:
    topic = peer.topic("t", 2)
    for acks in (-1, 1):
        peer.ask_all(f"acks {acks}", produce(peer, topic, batch(), acks=acks), first=3)
    for version in peer.versions(ProduceRequest, 3):
        peer.client.send(produce(peer, topic, batch(), acks=0, partition=1), version)
    peer.until(lambda: peer.end_offset(topic, 1) == len(peer.versions(ProduceRequest, 3)), "acks 0")
    peer.ask_all("acks 2", produce(peer, topic, batch(), acks=2), first=3)
    peer.ask_all("acks -2", produce(peer, topic, batch(), acks=-2), first=3)
    peer.ask_all("negative timeout", produce(peer, topic, batch(), timeout_ms=-5), first=3)
    peer.ask_all("two partitions", _several(peer, topic, 0, 1), first=3)
    peer.ask_all("one good, one unknown", _several(peer, topic, 0, 7), first=3)
    peer.ask_all("one partition twice", _several(peer, topic, 0, 0), first=3)
    peer.ask_all("nothing", ProduceRequest(acks=-1, timeout_ms=100), first=3)
    peer.note("end", peer.end_offset(topic))


def refused_without_answer(peer: Peer) -> None:
    topic = peer.topic("t")
    for version in peer.versions(ProduceRequest, 3):
        bad = patched(batch(), HEADER_SIZE + 2, b"\xff")
        peer.ask(f"acks 0, bad checksum {version}", produce(peer, topic, bad, acks=0), version)
        unknown = produce(peer, "nowhere", batch(), acks=0, topic_id=STRANGE_TOPIC_ID)
        peer.ask(f"acks 0, unknown topic {version}", unknown, version)


def unknown_places(peer: Peer) -> None:
    topic = peer.topic("t")
    nowhere = produce(peer, "nowhere", batch(), topic_id=STRANGE_TOPIC_ID)
    peer.ask_all("unknown topic", nowhere, first=3)
    peer.ask_all("no topic", produce(peer, "", batch(), topic_id=NO_TOPIC_ID), first=3)
    peer.ask_all("invalid topic", produce(peer, "a/b", batch(), topic_id=NO_TOPIC_ID), first=3)
    peer.ask_all("unknown partition", produce(peer, topic, batch(), partition=9), first=3)
    peer.ask_all("negative partition", produce(peer, topic, batch(), partition=-1), first=3)


def malformed(peer: Peer) -> None:
    """Null records are left out: Kafka never answers them."""
    good = batch(b"one", b"two")
    wrong = {
        "empty records": b"",
        "a few bytes": b"\0" * 10,
        "zeros": b"\0" * 80,
        "two batches": good + good,
        "trailing bytes": good + b"\0" * 3,
        "cut": good[:-1],
        "cut in the header": good[:40],
        "wrong checksum": patched(good, 17, b"\1\2\3\4"),
        "changed record": patched(good, HEADER_SIZE + 8, b"\7"),
        "magic 3": patched(good, 16, b"\3"),
        "magic -1": patched(good, 16, b"\xff"),
        "magic 1": patched(good, 16, b"\1"),
        "length too small": patched(good, 8, b"\0\0\0\5"),
        "length one less": patched(good, 8, (len(good) - 13).to_bytes(4)),
        "length one more": patched(good, 8, (len(good) - 11).to_bytes(4)),
        "length negative": patched(good, 8, b"\xff\xff\xff\xff"),
        "base offset 7": patched(good, 0, (7).to_bytes(8)),
        "leader epoch 9": patched(good, 12, (9).to_bytes(4)),
        "count 0": changed(good, count=0),
        "count 1": changed(good, count=1),
        "count 3": changed(good, count=3),
        "count -1": changed(good, count=-1),
        "last delta 5": changed(good, last_offset_delta=5),
        "last delta -1": changed(good, last_offset_delta=-1),
        "count 3 and last delta 2": changed(good, count=3, last_offset_delta=2),
        "no record": changed(good, count=0, last_offset_delta=-1)[:HEADER_SIZE],
        "codec 5": changed(good, attributes=5),
        "codec 7": changed(good, attributes=7),
        "said to be gzip": changed(good, attributes=1),
        "append time bit": changed(good, attributes=8),
        "control bit": batch(b"v", control=True),
        "unused bits": changed(good, attributes=0x4080),
        "delete horizon bit": changed(good, attributes=0x40),
        "max timestamp wrong": changed(good, max_timestamp=TIME + 5),
        "max timestamp none": changed(good, max_timestamp=-1),
        "base timestamp negative": batch(times=(-5,)),
        "no timestamp": batch(times=(-1,)),
    }
    topic = peer.topic("t", len(wrong))
    _send_each(peer, topic, wrong)


def wrong_on_compacted(peer: Peer) -> None:
    """Records of compacted topics are looked at one by one, so more is found."""
    good = batch(b"one", b"two")
    wrong = {
        "good": good,
        "null key": batch(key=None),
        "empty key": batch(key=b""),
        "tombstone": batch(None),
        "gzip": batch(b"v" * 99, codec=Codec.GZIP),
        "gzip, null key": batch(b"v" * 99, key=None, codec=Codec.GZIP),
        "count 1": changed(good, count=1, last_offset_delta=0),
        "count 3": changed(good, count=3, last_offset_delta=2),
        "said to be gzip": changed(good, attributes=1),
        "changed record": changed(good[:-6] + b"\x7f" * 6),
        "max timestamp wrong": changed(good, max_timestamp=TIME + 5),
    }
    topic = peer.topic("t", len(wrong), cleanup_policy="compact")
    _send_each(peer, topic, wrong)


def codecs(peer: Peer) -> None:
    topic = peer.topic("t")
    for codec in Codec:
        records = batch(b"v" * 200, b"w" * 200, codec=codec)
        peer.ask_all(codec.name, produce(peer, topic, records), first=3)
    damaged = batch(b"v" * 200, codec=Codec.GZIP)
    peer.ask_all("damaged gzip", produce(peer, topic, changed(damaged[:-9] + b"\0" * 9)), first=3)
    for chosen in ("gzip", "uncompressed", "zstd"):
        other = peer.topic(chosen, compression_type=chosen)
        for codec in Codec:
            records = batch(b"v" * 200, b"w" * 200, codec=codec)
            for version in _some(peer, ProduceRequest, first=7):
                peer.ask(f"{codec.name} to {chosen}", produce(peer, other, records), version)
        answer = peer.call(fetch(peer, other), peer.newest(FetchRequest))
        stored = bytes(answer.responses[0].partitions[0].records)
        peer.note(f"codecs in {chosen}", [each & 7 for each in _attributes(stored)])


def sizes(peer: Peer) -> None:
    topic = peer.topic("t", max_message_bytes="1000")
    for size in (1000, 1001):
        padding = size - len(batch(b"")) - 2
        records = batch(b"x" * padding)
        peer.note(f"size {size}", len(records))
        peer.ask_all(f"{size} bytes", produce(peer, topic, records), first=3)
    packed = batch(b"x" * 5000, codec=Codec.GZIP)
    peer.ask_all("large but packed", produce(peer, topic, packed), first=3)


def times(peer: Peer) -> None:
    now = int(time.time() * 1000)
    hour = 3_600_000
    topic = peer.topic(
        "t", message_timestamp_before_max_ms=str(hour), message_timestamp_after_max_ms=str(hour)
    )
    cases = {
        "now": (now,),
        "too old": (now - 2 * hour,),
        "too new": (now + 2 * hour,),
        "second too new": (now, now + 2 * hour),
        "no time": (-1,),
    }
    for what, given in cases.items():
        records = batch(*[b"v"] * len(given), times=given)
        peer.ask_all(what, produce(peer, topic, records), first=3)
    plain = peer.topic("plain")
    peer.ask_all("a day ahead", produce(peer, plain, batch(times=(now + 25 * hour,))), first=3)
    peer.ask_all("of 1970", produce(peer, plain, batch(times=(1,))), first=3)
    stamping = peer.topic("stamping", message_timestamp_type="LogAppendTime")
    peer.ask_all("stamped", produce(peer, stamping, batch(b"a", b"b")), first=3)
    bit = changed(batch(), attributes=8)
    peer.ask_all("stamped already", produce(peer, stamping, bit), first=3)
    packed = batch(b"v" * 99, codec=Codec.LZ4)
    peer.ask_all("stamped, packed", produce(peer, stamping, packed), first=3)
    peer.ask_all("stamped, far ahead", produce(peer, stamping, batch(times=(now * 2,))), first=3)


def sequences(peer: Peer) -> None:
    for version in _some(peer, ProduceRequest, first=3):
        topic = peer.topic(f"t{version}")

        def send(what: str, producer: int, epoch: int, sequence: int, count: int = 1) -> None:
            values = [b"v"] * count
            records = batch(*values, producer=(PRODUCER + producer, epoch, sequence))
            peer.ask(what, produce(peer, topic, records), version)  # noqa: B023 - called at once

        send("first", 0, 0, 0, 3)
        send("next", 0, 0, 3, 2)
        send("duplicate of the last", 0, 0, 3, 2)
        send("duplicate of the first", 0, 0, 0, 3)
        send("overlapping", 0, 0, 2, 3)
        send("same start, other count", 0, 0, 3, 1)
        send("gap", 0, 0, 9)
        for number in range(6):
            send(f"more {number}", 0, 0, 5 + number)
        send("duplicate too old to remember", 0, 0, 0, 3)
        send("older epoch later", 1, 5, 0)
        send("older epoch", 1, 4, 1)
        send("newer epoch, sequence not 0", 1, 6, 3)
        send("newer epoch", 1, 6, 0)
        send("unknown producer begins at 7", 2, 0, 7)
        send("unknown producer goes on at 8", 2, 0, 8)
        send("up to the wrap", 3, 0, LAST_SEQUENCE - 1, 2)
        send("behind the wrap", 3, 0, 0)
        send("across the wrap, begin", 4, 0, LAST_SEQUENCE - 1)
        send("across the wrap", 4, 0, LAST_SEQUENCE, 3)
        send("after the wrap", 4, 0, 2)
        send("negative sequence", 5, 0, -1)
        send("negative epoch", 6, -1, 0)
        peer.note(f"end {version}", peer.end_offset(topic))


def without_a_transaction(peer: Peer) -> None:
    topic = peer.topic("t")
    bare = batch(transactional=True)
    peer.ask_all("transactional without producer", produce(peer, topic, bare), first=3)


def producer_ids(peer: Peer) -> None:
    new = InitProducerIdRequest(None, 60_000)
    peer.until(lambda: peer.call(new).error_code == 0, "producer ids are given")
    for version in peer.versions(InitProducerIdRequest):
        given = []
        for _ in range(2):
            answer = peer.call(new, version)
            given.append(answer.producer_id)
            answer.producer_id = 0
            peer.note(f"new {len(given)} v{version}", str(answer))
        peer.note(f"next id v{version}", given[1] - given[0])
    peer.ask_all("empty transactional id", InitProducerIdRequest("", 60_000))
    peer.ask_all("epoch without id", InitProducerIdRequest(None, 60_000, producer_epoch=3), first=3)


def _several(peer: Peer, topic: str, *partitions: int) -> ProduceRequest:
    data = [PartitionProduceData(partition, batch()) for partition in partitions]
    topics = [TopicProduceData(topic, peer.topic_id(topic), data)]
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)


def _some(peer: Peer, request: type, first: int) -> list[int]:
    """The oldest and the newest version: what does not depend on versions is asked in two."""
    versions = list(peer.versions(request, first))
    return sorted({versions[0], versions[-1]}) if versions else []


def _send_each(peer: Peer, topic: str, batches: dict[str, bytes]) -> None:
    """Send each to a partition of its own, and compare what was stored, byte for byte."""
    for partition, (what, records) in enumerate(batches.items()):
        for version in _some(peer, ProduceRequest, first=3):
            peer.ask(what, produce(peer, topic, records, partition=partition), version)
        version = peer.newest(FetchRequest)
        answer = peer.call(fetch(peer, topic, partition=partition), version)
        peer.note_answer(f"{what}, stored", answer)


def _attributes(stored: bytes) -> list[int]:
    found = []
    position = 0
    while position + HEADER_SIZE <= len(stored):
        found.append(int.from_bytes(stored[position + 21 : position + 23]))
        position += 12 + int.from_bytes(stored[position + 8 : position + 12])
    return found


SCENARIOS = (
    ordinary,
    refused_without_answer,
    unknown_places,
    malformed,
    wrong_on_compacted,
    codecs,
    sizes,
    times,
    sequences,
    without_a_transaction,
    producer_ids,
)
