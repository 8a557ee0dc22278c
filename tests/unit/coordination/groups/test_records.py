"""The records of __consumer_offsets against bytes that Apache Kafka 4.3.1 wrote."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    FORM_BEFORE_2_1,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    RecordForm,
    check_offset,
    decode_group,
    decode_key,
    decode_offset,
    group_record,
    offset_record,
    offset_tombstone,
)
from moldau.coordination.groups.snapshot import GroupSnapshot, MemberSnapshot
from moldau.coordination.outcome import UnknownRecord

TOPIC_ID = bytes.fromhex("4d7a4fa346b54d6d90ebc706d552ab28")

# Read from the partition's segment after a subscribed static member of librdkafka, a commit by an
# administrator and one with a retention of its own (version 2 of OffsetCommit, one day).
COMMITTED = (
    "00010007672d67726f757000066f726465727300000000",
    "0004000000000000000100000000066e6f746500000001a1e04edc9c0100104d7a4fa346b54d6d90ebc706d552ab28",
)
ACCENTED = (
    "0001000673696d706c6500066f726465727300000000",
    "0004000000000000002b0000000703c3a9000001a1e04edcb60100104d7a4fa346b54d6d90ebc706d552ab28",
)
EXPIRING = (
    "0001000673696d706c6500066f726465727300000001",
    "0001000000000000002a0000000001a1e04edcaf000001a1e57538af",
)
WITHOUT_TOPIC_ID = "0004000000000000004dffffffff01000001a1e04ee17000"
PLAIN = "0004000000000000004dffffffff01000001a1e04ee1700100104d7a4fa346b54d6d90ebc706d552ab28"
EMPTY_GROUP = (
    "00020007672d67726f7570",
    "0003000000000000ffffffff000001a1e04edb8200000000",
)
GROUP_OF_ONE = (
    "00020007672d67726f7570",
    (
        "00030008636f6e73756d657200000001000572616e6765002b696e73742d312d36623532626564652d616162342d"
        "346331362d613230352d316236646633356565366162000001a1e04edb8d00000001002b696e73742d312d366235"
        "32626564652d616162342d346331362d613230352d3162366466333565653661620006696e73742d31000d6d656d"
        "6265722d636c69656e74000a2f3132372e302e302e31000493e0000017700000001c00030000000100066f726465"
        "72730000000000000000ffffffff00000000001e00000000000100066f7264657273000000020000000000000001"
        "00000000"
    ),
)
MEMBER = MemberSnapshot(
    member_id="inst-1-6b52bede-aab4-4c16-a205-1b6df35ee6ab",
    instance_id="inst-1",
    client_id="member-client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=6_000,
    subscription=bytes.fromhex("00030000000100066f72646572730000000000000000ffffffff0000"),
    assignment=bytes.fromhex("00000000000100066f726465727300000002000000000000000100000000"),
)


def parts(record):
    return record.key.hex(), None if record.value is None else record.value.hex()


class TestBytesOfKafka:
    def test_a_committed_offset(self):
        key = OffsetKey("g-group", "orders", 0)
        offset = CommittedOffset(1, 0, "note\0", 1_794_764_627_100, -1, TOPIC_ID)
        assert parts(offset_record(CURRENT_FORM, key, offset)) == COMMITTED
        assert decode_key(bytes.fromhex(COMMITTED[0])) == key
        assert decode_offset(bytes.fromhex(COMMITTED[1])) == offset

    def test_metadata_is_utf_8(self):
        key = OffsetKey("simple", "orders", 0)
        offset = CommittedOffset(43, 7, "é", 1_794_764_627_126, -1, TOPIC_ID)
        assert parts(offset_record(CURRENT_FORM, key, offset)) == ACCENTED

    def test_an_offset_that_expires_by_itself_is_written_in_version_1(self):
        key = OffsetKey("simple", "orders", 1)
        offset = CommittedOffset(42, -1, "", 1_794_764_627_119, 1_794_851_027_119, TOPIC_ID)
        assert parts(offset_record(CURRENT_FORM, key, offset)) == EXPIRING
        read = decode_offset(bytes.fromhex(EXPIRING[1]))
        assert (read.expire_timestamp, read.topic_id) == (1_794_851_027_119, ZERO_TOPIC_ID)

    def test_an_offset_without_a_topic_id_has_no_tag(self):
        offset = CommittedOffset(77, -1, "", 1_794_764_628_336)
        record = offset_record(CURRENT_FORM, OffsetKey("tx-group", "orders", 0), offset)
        assert record.value == bytes.fromhex(WITHOUT_TOPIC_ID)

    def test_a_group_without_members(self):
        snapshot = GroupSnapshot("", 0, None, None, 1_794_764_626_818)
        assert parts(group_record(CURRENT_FORM, "g-group", snapshot)) == EMPTY_GROUP
        assert decode_key(bytes.fromhex(EMPTY_GROUP[0])) == GroupKey("g-group")
        assert decode_group(bytes.fromhex(EMPTY_GROUP[1])) == snapshot

    def test_a_group_with_a_static_member(self):
        snapshot = GroupSnapshot(
            "consumer", 1, "range", MEMBER.member_id, 1_794_764_626_829, (MEMBER,)
        )
        assert parts(group_record(CURRENT_FORM, "g-group", snapshot)) == GROUP_OF_ONE
        assert decode_group(bytes.fromhex(GROUP_OF_ONE[1])) == snapshot

    def test_tombstones(self):
        offset = offset_tombstone(OffsetKey("simple", "orders", 1))
        assert parts(offset) == ("0001000673696d706c6500066f726465727300000001", None)
        group = group_record(CURRENT_FORM, "simple", None)
        assert parts(group) == ("0002000673696d706c65", None)


class TestVersions:
    @pytest.mark.parametrize("version", range(5))
    def test_an_offset_in_every_version(self, version):
        offset = CommittedOffset(9, 3, "note", 1_000, -1, TOPIC_ID)
        record = offset_record(RecordForm(version, 3), OffsetKey("g", "t", 0), offset)
        read = decode_offset(record.value)
        assert record.value[:2] == version.to_bytes(2)
        assert (read.offset, read.metadata, read.commit_timestamp) == (9, "note", 1_000)
        assert read.leader_epoch == (3 if version >= 3 else -1)
        assert read.topic_id == (TOPIC_ID if version >= 4 else ZERO_TOPIC_ID)

    @pytest.mark.parametrize("version", range(5))
    def test_a_group_in_every_version(self, version):
        snapshot = GroupSnapshot("consumer", 4, "range", MEMBER.member_id, 2_000, (MEMBER,))
        record = group_record(RecordForm(4, version), "g", snapshot)
        read = decode_group(record.value)
        (member,) = read.members
        assert record.value[:2] == version.to_bytes(2)
        assert (read.generation, read.leader) == (4, MEMBER.member_id)
        assert read.state_timestamp == (2_000 if version >= 2 else -1)
        assert member.instance_id == ("inst-1" if version >= 3 else None)
        assert member.rebalance_timeout_ms == (300_000 if version >= 1 else -1)
        assert (member.subscription, member.assignment) == (MEMBER.subscription, MEMBER.assignment)

    def test_an_offset_of_the_time_before_0_9_is_read(self):
        key = bytes.fromhex("0000") + bytes.fromhex(COMMITTED[0])[2:]
        assert decode_key(key) == OffsetKey("g-group", "orders", 0)

    @pytest.mark.parametrize(
        ("release", "form"),
        [
            (None, CURRENT_FORM),
            ("0.10.1-IV2", FORM_BEFORE_2_1),
            ("1.1", FORM_BEFORE_2_1),
            ("2.0-IV1", FORM_BEFORE_2_1),
            ("2.1", CURRENT_FORM),
            ("2.1-IV0", CURRENT_FORM),
            ("3.9", CURRENT_FORM),
        ],
    )
    def test_the_form_follows_the_inter_broker_protocol(self, release, form):
        assert RecordForm.of(release) == form

    def test_what_is_no_version_has_no_form(self):
        with pytest.raises(ValueError, match="newest"):
            RecordForm.of("newest")

    def test_the_early_form_is_one_that_1_1_reads(self):
        offset = CommittedOffset(9, 3, "note", 1_000, -1, TOPIC_ID)
        value = offset_record(FORM_BEFORE_2_1, OffsetKey("g", "t", 0), offset).value
        assert value.hex() == "0001000000000000000900046e6f746500000000000003e8" + 16 * "f"


class TestWhatIsNotOurs:
    @pytest.mark.parametrize("record_type", [3, 8, 16, 23, 32767, -1])
    def test_records_of_newer_groups_are_unknown(self, record_type):
        with pytest.raises(UnknownRecord, match=str(record_type)):
            decode_key(record_type.to_bytes(2, signed=True) + b"\0\1g")

    @pytest.mark.parametrize("version", [5, 32767, -1])
    def test_values_of_newer_versions_are_unknown(self, version):
        value = version.to_bytes(2, signed=True) + bytes(40)
        for read in (check_offset, decode_offset, decode_group):
            with pytest.raises(UnknownRecord, match=str(version)):
                read(value)

    @pytest.mark.parametrize("size", range(23))
    def test_a_key_that_is_cut_off_is_damaged(self, size):
        with pytest.raises(ProtocolError):
            decode_key(bytes.fromhex(COMMITTED[0])[:size])

    @pytest.mark.parametrize(
        ("read", "value"),
        [
            (decode_offset, COMMITTED[1]),
            (check_offset, COMMITTED[1]),
            (check_offset, WITHOUT_TOPIC_ID),
            (decode_group, GROUP_OF_ONE[1]),
        ],
    )
    def test_a_value_that_is_cut_off_is_damaged(self, read, value):
        whole = bytes.fromhex(value)
        for size in range(len(whole)):
            with pytest.raises(ProtocolError):
                read(whole[:size])

    @given(st.binary(max_size=60), st.data())
    def test_an_offset_is_whole_if_and_only_if_it_can_be_decoded(self, noise, data):
        value = bytearray(bytes.fromhex(data.draw(st.sampled_from([COMMITTED[1], PLAIN]))))
        start = data.draw(st.integers(0, len(value)))
        value[start : start + len(noise)] = noise
        decoded = None
        with suppress(ProtocolError, UnknownRecord):
            decoded = decode_offset(bytes(value))
        checked = None
        with suppress(ProtocolError, UnknownRecord):
            checked = check_offset(bytes(value)) or decode_offset(bytes(value))
        assert checked == decoded

    def test_a_group_with_one_member_twice_is_damaged(self):
        twice = GroupSnapshot("consumer", 1, "range", MEMBER.member_id, 0, (MEMBER, MEMBER))
        with pytest.raises(ProtocolError, match="two members"):
            decode_group(group_record(CURRENT_FORM, "g", twice).value)
        other = MEMBER._replace(member_id="another")
        twice = GroupSnapshot("consumer", 1, "range", "another", 0, (MEMBER, other))
        with pytest.raises(ProtocolError, match="two members"):
            decode_group(group_record(CURRENT_FORM, "g", twice).value)

    def test_a_group_with_one_empty_instance_id_twice_is_damaged(self):
        """Also an empty id is one: the roster refuses two members with it."""
        nameless = MEMBER._replace(instance_id="")
        other = nameless._replace(member_id="another")
        twice = GroupSnapshot("consumer", 1, "range", "another", 0, (nameless, other))
        with pytest.raises(ProtocolError, match="two members"):
            decode_group(group_record(CURRENT_FORM, "g", twice).value)

    def test_bytes_behind_the_last_field_do_no_harm(self):
        key, value = (bytes.fromhex(part) for part in COMMITTED)
        assert decode_key(key + b"more") == decode_key(key)
        assert decode_offset(value + b"more") == decode_offset(value)
