"""Keys of offsets known by their prefixes: what is replayed is what decoding every key gives."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.errors import ProtocolError
from moldau.coordination.groups import offset_keys
from moldau.coordination.groups.offset_keys import KeyPrefixes
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    CommittedOffset,
    OffsetKey,
    decode_key,
    offset_record,
    offset_tombstone,
)
from moldau.coordination.groups.shard import GroupShard, ShardSettings
from moldau.coordination.outcome import ProducerIdentity, StateRecord, UnknownRecord


class NoPrefixes(KeyPrefixes):
    """Remembers nothing, so that every key is decoded."""

    def learn(self, data, key):
        pass


def key_bytes(group="g", topic="orders", partition=0):
    return offset_tombstone(OffsetKey(group, topic, partition)).key


def value(offset=5):
    return offset_record(CURRENT_FORM, OffsetKey("g", "t", 0), CommittedOffset(offset)).value


def learned(*keys):
    prefixes = KeyPrefixes()
    for data in keys:
        prefixes.learn(data, decode_key(data))
    return prefixes


def test_a_prefix_is_everything_but_the_partition():
    prefixes = learned(key_bytes(partition=1), key_bytes(partition=-2), key_bytes("größe", "x"))
    assert prefixes == {
        key_bytes()[:-4]: ("g", "orders"),
        key_bytes("größe", "x")[:-4]: ("größe", "x"),
    }


def test_a_key_with_bytes_behind_its_partition_is_not_remembered():
    data = key_bytes() + b"\0\0\0\1"
    assert decode_key(data).partition == 0
    assert not learned(data)


def test_only_so_many_are_remembered(monkeypatch):
    monkeypatch.setattr(offset_keys, "PREFIXES_MAX", 2)
    prefixes = learned(*(key_bytes(topic=name) for name in "abc"))
    assert list(prefixes.values()) == [("g", "c")]


def test_a_version_of_the_future_is_refused_for_a_known_prefix_too():
    shard = GroupShard(ShardSettings(), random.Random(1))
    shard.replay(StateRecord(key_bytes(), value()), None)
    with pytest.raises(UnknownRecord):
        shard.replay(StateRecord(key_bytes(partition=1), b"\0\x63"), None)
    assert shard.offsets.count() == 1


names = st.sampled_from(("a", "b", "größe"))
keys = st.builds(
    lambda *place, tail: key_bytes(*place) + tail,
    names, names, st.sampled_from((-1, 0, 1, 2**31 - 1)),
    tail=st.sampled_from((b"", b"", b"", b"\0", b"\0\0\0\1")),
)  # fmt: skip
records = st.tuples(
    st.one_of(keys, st.builds(lambda key: key[:-1], keys), st.binary(max_size=12)),
    st.one_of(st.none(), st.builds(value, st.integers(0, 3)), st.binary(max_size=4)),
    st.sampled_from((None, None, 1, 2)),
)
markers = st.tuples(st.sampled_from((1, 2)), st.booleans())


@settings(max_examples=150)
@given(st.lists(st.one_of(records, markers), max_size=40))
def test_what_is_replayed_is_what_decoding_every_key_gives(steps):
    shards = [GroupShard(ShardSettings(), random.Random(1)) for _ in range(2)]
    shards[1]._prefixes = NoPrefixes()
    for step in steps:
        first, second = (_outcome(shard, step) for shard in shards)
        assert first == second
        contents = [_content(shard) for shard in shards]
        assert contents[0] == contents[1]


def _outcome(shard, step):
    try:
        if len(step) == 2:
            shard.transaction_ended(ProducerIdentity(step[0], 0), committed=step[1])
        else:
            data, content, producer_id = step
            producer = None if producer_id is None else ProducerIdentity(producer_id, 0)
            shard.replay(StateRecord(data, content), producer)
    except (ProtocolError, UnknownRecord) as error:
        return str(error)
    return None


def _content(shard):
    store = shard._offsets
    return [store._committed, store.pending(), store._groups_of, list(shard._groups)]
