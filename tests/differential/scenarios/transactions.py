"""Transactions: begun, filled, ended, fenced; their markers, and what tools are told of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from differential.batches import batch, produce
from differential.peer import Peer
from differential.scenarios.coordinators import GROUP, TRANSACTION, make_topic
from differential.transaction_kit import (
    FIRST_ADDING_BY_ITSELF,
    LAST_OF_CLIENTS,
    NO_PRODUCER,
    Transactional,
    note_partition,
    note_state,
)
from moldau.protocol.messages.data import ProduceRequest
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

MAX_TIMEOUT_MS = 900_000
FIRST_WITH_PRODUCER = 3
"""Of InitProducerId: a producer may raise the epoch it has (KIP-360)."""
NEWEST_END = 5


def versions(peer: Peer, request: type[Any], first: int = 0, last: int = 99) -> Iterator[int]:
    """Go through versions, once there is a coordinator of transactions."""
    for version in peer.versions(request, first, last):
        make_topic(peer, TRANSACTION)
        yield version


def initialised(peer: Peer) -> None:
    for version in versions(peer, InitProducerIdRequest):
        one = Transactional(peer, f"id-{version}")
        peer.ask("nameless", one.init_request(transactional_id=""), version)
        for timeout_ms in (0, -1, MAX_TIMEOUT_MS + 1):
            wrong = one.init_request(transaction_timeout_ms=timeout_ms)
            peer.ask(f"timeout {timeout_ms}", wrong, version)
        note_state(peer, f"refused {version}", one)
        one.init("new", version, transaction_timeout_ms=MAX_TIMEOUT_MS)
        note_state(peer, f"new {version}", one)
        one.init("again", version)
        note_state(peer, f"again {version}", one)
        long = Transactional(peer, f"\u00e4-{version}" + "x" * 300)
        long.init("long name", version)


def epochs_raised(peer: Peer) -> None:
    """A producer that comes with the id and epoch it has, or with others."""
    for version in versions(peer, InitProducerIdRequest, FIRST_WITH_PRODUCER):
        one = Transactional(peer, f"id-{version}")
        one.init("unknown id", version, producer_id=NO_PRODUCER, producer_epoch=3)
        one.init("first", version)
        first = (one.producer_id, one.epoch)
        one.init("with its own", version, producer_id=first[0], producer_epoch=first[1])
        one.init("tried again", version, producer_id=first[0], producer_epoch=first[1])
        one.init("once more", version, producer_id=one.producer_id, producer_epoch=one.epoch)
        now = (one.producer_id, one.epoch)
        for what, (producer_id, epoch) in {
            "stale": first,
            "early": (now[0], now[1] + 1),
            "other producer": (NO_PRODUCER, now[1]),
            "no epoch": (now[0], -1),
            "no id": (-1, now[1]),
            "negative": (-5, -5),
        }.items():
            request = one.init_request(producer_id=producer_id, producer_epoch=epoch)
            peer.ask(what, request, version)
        for what, (producer_id, epoch) in {
            "idempotent with its own": now,
            "idempotent, no epoch": (now[0], -1),
            "idempotent, no id": (-1, 0),
        }.items():
            request = InitProducerIdRequest(None, 60_000, producer_id, epoch)
            answer = peer.call(request, version)
            peer.names.given_producer(answer.producer_id)
            peer.note_answer(f"{what} v{version}", answer)
        note_state(peer, f"at last {version}", one)


def added(peer: Peer) -> None:
    """Partitions added by clients."""
    for version in versions(peer, AddPartitionsToTxnRequest, last=LAST_OF_CLIENTS):
        topic = peer.topic(f"t{version}", 3)
        other = peer.topic(f"u{version}")
        one = Transactional(peer, f"id-{version}")
        _ask_adding(peer, "unknown id", one, (topic, [0]), version=version)
        one.init(f"first for {version}")
        for what, topics in {
            "none": (),
            "no topic": (("nothing", [0]),),
            "no partition": ((topic, [0, 3]),),
            "negative partition": ((topic, [-1]),),
            "invalid topic": (("a/b", [0]),),
            "some not there": ((topic, [1]), ("nothing", [0])),
        }.items():
            _ask_adding(peer, what, one, *topics, version=version)
            note_state(peer, f"{what} {version}", one)
        for what, topics in {
            "one": ((topic, [0]),),
            "again and more": ((topic, [0, 2]), (other, [0])),
            "nothing new": ((other, [0]),),
            "internal": (("__transaction_state", [0]),),
        }.items():
            _ask_adding(peer, what, one, *topics, version=version)
            note_state(peer, f"{what} {version}", one)
        for what, changes in _wrong_producers(one).items():
            peer.ask(f"add, {what}", one.add_request((topic, [0]), **changes), version)
        one.end(f"at last {version}", NEWEST_END, committed=False)
        note_state(peer, f"at last {version}", one)


def _ask_adding(
    peer: Peer, label: str, one: Transactional, *topics: tuple[str, list[int]], version: int
) -> None:
    answer = peer.call(one.add_request(*topics), version)
    _in_order(answer.results_by_topic_v3_and_below)
    peer.note_answer(f"add {label} v{version}", answer)


def _in_order(results: list[Any]) -> None:
    results.sort(key=lambda topic: topic.name)
    for topic in results:
        topic.results_by_partition.sort(key=lambda one: one.partition_index)


def _wrong_producers(one: Transactional) -> dict[str, dict[str, Any]]:
    return {
        "no id": {"transactional_id": one.name + "x"},
        "nameless": {"transactional_id": ""},
        "other producer": {"producer_id": NO_PRODUCER},
        "negative producer": {"producer_id": -1},
        "early epoch": {"producer_epoch": one.epoch + 1},
        "stale epoch": {"producer_epoch": one.epoch - 1},
        "negative epoch": {"producer_epoch": -1},
    }


def verified(peer: Peer) -> None:
    """Partitions added and asked about by brokers, for many transactions at once.

    Kafka leaves a request for none unanswered.
    """
    for version in versions(peer, AddPartitionsToTxnRequest, LAST_OF_CLIENTS + 1):
        topic = peer.topic(f"t{version}", 2)
        one, two, three = (Transactional(peer, f"{name}-{version}") for name in "abc")
        one.init(f"one {version}")
        two.init(f"two {version}")
        one.add((topic, [0]))
        for what, wanted in {
            "verify": [_verify(one, topic, [0], only=True), _verify(two, topic, [0], only=True)],
            "verify more": [_verify(one, topic, [0, 1], only=True)],
            "verify none": [_verify(one, topic, [], only=True)],
            "unknown": [_verify(three, topic, [0], only=True)],
            "strange topic": [_verify(one, "nothing", [0], only=True)],
            "other producer": [_verify(one, topic, [0], only=True, producer_id=NO_PRODUCER)],
            "early": [_verify(one, topic, [0], only=True, producer_epoch=one.epoch + 1)],
            "stale": [_verify(one, topic, [0], only=True, producer_epoch=one.epoch - 1)],
            "nameless": [_verify(one, topic, [0], only=True, transactional_id="")],
            "add": [_verify(one, topic, [1], only=False), _verify(two, topic, [1], only=False)],
            "add unknown": [_verify(one, "nothing", [1], only=False)],
        }.items():
            answer = peer.call(AddPartitionsToTxnRequest(wanted), version)
            answer.results_by_transaction.sort(key=lambda each: each.transactional_id)
            for each in answer.results_by_transaction:
                _in_order(each.topic_results)
            peer.note_answer(f"{what} v{version}", answer)
            note_state(peer, f"{what} {version}", one, two)


def _verify(
    one: Transactional, topic: str, indexes: list[int], *, only: bool, **changes: Any
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(**{
        "transactional_id": one.name, "producer_id": one.producer_id,
        "producer_epoch": one.epoch, "verify_only": only,
        "topics": [AddPartitionsToTxnTopic(topic, indexes)], **changes,
    })  # fmt: skip


def ended(peer: Peer) -> None:
    """Every version of EndTxn, with something in the transaction and with nothing."""
    for version in versions(peer, EndTxnRequest):
        topic = peer.topic(f"t{version}")
        for committed in (True, False):
            about = f"{'commit' if committed else 'abort'} {version}"
            one = Transactional(peer, f"id-{about.replace(' ', '-')}")
            peer.ask(f"unknown, {about}", one.end_request(committed=committed), version)
            one.init(about)
            one.end(f"nothing, {about}", version, committed=committed)
            note_state(peer, f"nothing, {about}", one)
            one.add((topic, [0]))
            for what, changes in _wrong_producers(one).items():
                request = one.end_request(committed=committed, **changes)
                peer.ask(f"end, {what}, {about}", request, version)
            note_state(peer, f"full, {about}", one)
            before = (one.producer_id, one.epoch)
            one.end(f"full, {about}", version, committed=committed)
            note_state(peer, f"ended, {about}", one)
            for same in (True, False):
                again = {"producer_id": before[0], "producer_epoch": before[1]}
                request = one.end_request(committed=committed is same, **again)
                peer.ask(f"again, same {same}, {about}", request, version)
                one.rest()
                note_state(peer, f"again, same {same}, {about}", one)
            one.init(f"after {about}")
        note_partition(peer, f"at last {version}", topic)


def written(peer: Peer) -> None:
    """Records in transactions: taken, seen by those who may, refused to others."""
    for version in versions(peer, ProduceRequest, 3):
        topic = peer.topic(f"t{version}")
        one, two = (Transactional(peer, f"{name}-{version}") for name in "ab")
        for each in (one, two):
            each.init(f"{each.name} for {version}")
        one.write("not added", topic, b"0", version=version)
        note_state(peer, f"not added {version}", one)
        if version < FIRST_ADDING_BY_ITSELF:
            one.add((topic, [0]))
            two.add((topic, [0]))
        one.write("one", topic, b"1", b"2", version=version)
        two.write("two", topic, b"3", version=version)
        one.write("one again", topic, b"4", version=version)
        _ask_wrong_writes(peer, topic, one, version)
        note_partition(peer, f"open {version}", topic)
        end = NEWEST_END if version >= FIRST_ADDING_BY_ITSELF else NEWEST_END - 1
        stale = one.batch(topic, b"5")
        one.end(f"one {version}", end, committed=False)
        note_partition(peer, f"one ended {version}", topic)
        late = produce(peer, topic, stale, transactional_id=one.name)
        peer.ask("late", late, version)
        two.end(f"two {version}", end, committed=True)
        note_partition(peer, f"both ended {version}", topic)


def _ask_wrong_writes(peer: Peer, topic: str, one: Transactional, version: int) -> None:
    own = one.batch(topic, b"x")
    plain = batch(b"x", producer=(one.producer_id, one.epoch, 9))
    for what, name, records in (
        ("nameless", "", one.batch(topic, producer=(one.producer_id, one.epoch, 77))),
        ("without id", None, own),
        ("other id", one.name + "x", own),
        ("no transaction", one.name, plain),
        ("no producer", one.name, batch(b"x")),
        ("outside", None, plain),
        ("early epoch", one.name, one.batch(topic, producer=(one.producer_id, one.epoch + 1, 0))),
        ("other producer", one.name, one.batch(topic, producer=(NO_PRODUCER, 0, 0))),
        ("out of order", one.name, one.batch(topic, producer=(one.producer_id, one.epoch, 77))),
    ):
        request = produce(peer, topic, records, transactional_id=name)
        peer.ask(f"write wrongly, {what}", request, version)


def fenced(peer: Peer) -> None:
    """A second instance ends what the first has left open, and the first is told so."""
    for version in versions(peer, InitProducerIdRequest):
        topic = peer.topic(f"t{version}")
        one = Transactional(peer, f"id-{version}")
        one.init(f"first for {version}", version)
        before = Transactional(peer, f"id-{version}")
        before.producer_id, before.epoch = one.producer_id, one.epoch
        one.add((topic, [0]))
        one.write(f"open {version}", topic, b"1", version=11)
        one.init(f"while open for {version}", version)
        one.rest()
        note_state(peer, f"aborted {version}", one)
        one.init(f"then {version}", version)
        note_state(peer, f"then {version}", one)
        note_partition(peer, f"then {version}", topic)
        for add in versions(peer, AddPartitionsToTxnRequest, last=LAST_OF_CLIENTS):
            peer.ask(f"fenced adds {version}", before.add_request((topic, [0])), add)
        for add in versions(peer, AddOffsetsToTxnRequest):
            peer.ask(f"fenced adds offsets {version}", before.add_offsets_request("g"), add)
        for end in versions(peer, EndTxnRequest):
            for committed in (True, False):
                request = before.end_request(committed=committed)
                peer.ask(f"fenced ends {version}, {committed}", request, end)
        for write in versions(peer, ProduceRequest, 3):
            records = before.batch(topic, b"2")
            request = produce(peer, topic, records, transactional_id=before.name)
            peer.ask(f"fenced writes {version}", request, write)
        if version >= FIRST_WITH_PRODUCER:
            before.init(
                f"fenced {version}",
                version,
                producer_id=before.producer_id,
                producer_epoch=before.epoch,
            )


def with_offsets(peer: Peer) -> None:
    """A group's partition added to a transaction by the coordinator's own reckoning."""
    for version in versions(peer, AddOffsetsToTxnRequest):
        make_topic(peer, GROUP)
        one = Transactional(peer, f"id-{version}")
        group = peer.name(f"group-{version}")
        peer.ask("unknown", one.add_offsets_request(group), version)
        one.init(f"for {version}")
        for what, changes in (_wrong_producers(one) | {"nameless group": {"group_id": ""}}).items():
            peer.ask(f"offsets, {what}", one.add_offsets_request(group, **changes), version)
        peer.ask("one", one.add_offsets_request("KafkaConsumerDemo"), version)
        note_state(peer, f"one {version}", one)
        peer.ask("again", one.add_offsets_request("KafkaConsumerDemo"), version)
        note_state(peer, f"again {version}", one)
        one.end(f"for {version}", NEWEST_END, committed=True)


def markers(peer: Peer) -> None:
    """Markers as another broker or an administrator would send them, and sent again."""
    for version in versions(peer, WriteTxnMarkersRequest):
        topic = peer.topic(f"t{version}", 2)
        one, two = (Transactional(peer, f"{name}-{version}") for name in "ab")
        for each in (one, two):
            each.init(f"{each.name} {version}")
            each.add((topic, [0]))
            each.write(f"{each.name} {version}", topic, b"1", version=11)
        peer.ask("none", WriteTxnMarkersRequest(), version)
        for what, marker in {
            "no topic": _marker(one, "nothing", [0]),
            "no partition": _marker(one, topic, [5, -1]),
            "stale epoch": _marker(one, topic, [0], producer_epoch=one.epoch - 1),
            "abort": _marker(one, topic, [0]),
            "replayed": _marker(one, topic, [0]),
            "replayed as commit": _marker(one, topic, [0], transaction_result=True),
            "never there": _marker(one, topic, [1]),
            "stranger": _marker(one, topic, [1], producer_id=NO_PRODUCER),
            "later epoch": _marker(two, topic, [0], producer_epoch=two.epoch + 1),
            "old coordinator": _marker(two, topic, [0], coordinator_epoch=-1),
            "new coordinator": _marker(two, topic, [0], coordinator_epoch=5),
            "then old": _marker(two, topic, [0], coordinator_epoch=2),
        }.items():
            if "stranger" in what:
                peer.names.producers[NO_PRODUCER] = "stranger"
            _ask_markers(peer, what, version, marker)
            note_partition(peer, f"{what} {version}", topic)
        both = (_marker(one, topic, [0, 1]), _marker(two, topic, [1]))
        _ask_markers(peer, "both", version, *both)


def _ask_markers(peer: Peer, label: str, version: int, *markers: WritableTxnMarker) -> None:
    answer = peer.call(WriteTxnMarkersRequest(list(markers)), version)
    answer.markers.sort(key=lambda each: each.producer_id)
    for each in answer.markers:
        each.topics[0].partitions.sort(key=lambda found: found.partition_index)
    peer.note_answer(f"{label} v{version}", answer)


def _marker(
    one: Transactional, topic: str, indexes: list[int], **changes: Any
) -> WritableTxnMarker:
    return WritableTxnMarker(**{
        "producer_id": one.producer_id, "producer_epoch": one.epoch, "transaction_result": False,
        "topics": [WritableTxnMarkerTopic(topic, indexes)], "coordinator_epoch": 0, **changes,
    })  # fmt: skip


def listed(peer: Peer) -> None:
    for version in versions(peer, ListTransactionsRequest):
        topic = peer.topic(f"t{version}")
        empty, ongoing, done, gone = (
            Transactional(peer, f"{version}-{name}") for name in ("empty", "on", "done", "gone")
        )
        for each in (empty, ongoing, done, gone):
            each.init(f"{each.name}")
        for each in (ongoing, done, gone):
            each.add((topic, [0]))
        done.end(f"done {version}", NEWEST_END, committed=True)
        gone.end(f"gone {version}", NEWEST_END, committed=False)
        for states in ((), ("Empty",), ("Ongoing", "CompleteCommit"), ("ongoing",), ("Nonsense",)):
            for producers in ((), (ongoing.producer_id, NO_PRODUCER), (-1,)):
                for more in _filters(version):
                    request = ListTransactionsRequest(list(states), list(producers), **more)
                    label = f"list {states} {len(producers)} {more}"
                    _note_list(peer, label, request, version)


def _filters(version: int) -> Iterator[dict[str, Any]]:
    yield {}
    if version >= 1:
        for duration_ms in (0, 3_600_000, -2):
            yield {"duration_filter": duration_ms}
    if version >= 2:
        for pattern in ("", ".*-on", "on", ".*(empty|done)", "(", "[[:alpha:]]"):
            yield {"transactional_id_pattern": pattern}


def _note_list(peer: Peer, label: str, request: ListTransactionsRequest, version: int) -> None:
    answer = peer.call(request, version)
    own = [
        one
        for one in answer.transaction_states
        if one.transactional_id.startswith(peer.name(f"{version}-"))
    ]
    answer.transaction_states = sorted(own, key=lambda one: one.transactional_id)
    peer.note_answer(f"{label} v{version}", answer)


def described(peer: Peer) -> None:
    for version in versions(peer, DescribeTransactionsRequest):
        one = Transactional(peer, "id")
        one.init("id")
        for names in ([], [""], ["nobody"], [one.name, "nobody"], [one.name, one.name]):
            answer = peer.call(DescribeTransactionsRequest(names), version)
            answer.transaction_states.sort(key=lambda each: each.transactional_id)
            peer.note_answer(f"{[name.rpartition('-')[2] for name in names]} v{version}", answer)


SCENARIOS = (
    initialised, epochs_raised, added, verified, ended, written, fenced, with_offsets, markers,
    listed, described,
)  # fmt: skip
