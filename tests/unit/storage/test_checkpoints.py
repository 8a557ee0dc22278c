"""The small files beside the logs: Kafka's forms, both ways, and clear words for bad ones."""

import json

import pytest

from moldau.base.errors import StorageError
from moldau.base.ids import PartitionKey, TopicId
from moldau.base.properties import format_properties, parse_properties
from moldau.storage.checkpoints import (
    CLEAN_MARK,
    META_PROPERTIES,
    OPEN_MARK,
    PARTITION_METADATA,
    CleanMark,
    MetaProperties,
    OpenMark,
    read_clean_mark,
    read_meta_properties,
    read_offsets,
    read_open_mark,
    read_topic_id,
    remove_clean_mark,
    write_clean_mark,
    write_meta_properties,
    write_offsets,
    write_open_mark,
    write_topic_id,
)
from moldau.storage.disk import Disk

DISK = Disk()


class TestOffsets:
    def test_the_text_is_kafkas(self, tmp_path):
        path = tmp_path / "recovery-point-offset-checkpoint"
        write_offsets(DISK, str(path), {PartitionKey("t", 0): 5, PartitionKey("a.b", 12): 2**40})
        assert path.read_bytes() == b"0\n2\nt 0 5\na.b 12 1099511627776\n"
        assert list(tmp_path.iterdir()) == [path]

    def test_what_was_written_is_read(self, tmp_path):
        path, offsets = str(tmp_path / "c"), {PartitionKey("t", 3): 7, PartitionKey("u", 0): 0}
        write_offsets(DISK, path, offsets)
        assert read_offsets(DISK, path) == offsets

    def test_no_file_and_an_empty_one_have_no_entries(self, tmp_path):
        path = tmp_path / "c"
        assert read_offsets(DISK, str(path)) == {}
        path.write_bytes(b"")
        assert read_offsets(DISK, str(path)) == {}

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"x\n", "line 1: bad version: 'x' is not an integer"),
            (b"7\n0\n", "line 1: version 7 is not known"),
            (b"0\n", "line 2: the entry count is missing"),
            (b"0\n1_0\n", "line 2: bad entry count"),
            (b"0\n2\nt 0 5\n", "line 2: 2 entries announced, 1 found"),
            (b"0\n1\nt 0 5\nu 0 1\n", "line 2: 1 entries announced, 2 found"),
            (b"0\n1\nt 0\n", "line 3: expected topic, partition and offset: 't 0'"),
            (b"0\n2\nt 0 1\nt 1 9223372036854775808\n", "line 4: .* does not fit into 64 bits"),
            (b"0\n1\nt\xff 0 1\n", "line 3: not UTF-8"),
        ],
    )
    def test_a_bad_file_is_named_with_its_line(self, tmp_path, content, message):
        path = tmp_path / "c"
        path.write_bytes(content)
        with pytest.raises(StorageError, match=message) as caught:
            read_offsets(DISK, str(path))
        assert caught.value.path == str(path)
        assert str(caught.value).startswith(str(path))


class TestPartitionMetadata:
    TOPIC_ID = TopicId(bytes(range(16)))

    def test_the_text_is_kafkas_without_a_last_newline(self, tmp_path):
        write_topic_id(DISK, str(tmp_path), self.TOPIC_ID)
        content = (tmp_path / PARTITION_METADATA).read_bytes()
        assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
        assert read_topic_id(DISK, str(tmp_path)) == self.TOPIC_ID

    def test_an_old_folder_has_none(self, tmp_path):
        assert read_topic_id(DISK, str(tmp_path)) is None

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "line 1: two lines expected, 0 found"),
            (b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "line 1: version 1 is not known"),
            (b"topic_id: AAECAwQFBgcICQoLDA0ODw\nversion: 0", "line 1: expected 'version:'"),
            (b"version: 0\ntopic_id: short", "line 2: "),
            (b"version: 0\ntopic_id: \xc4\x8c", "line 2: "),
        ],
    )
    def test_a_bad_file_is_named_with_its_line(self, tmp_path, content, message):
        (tmp_path / PARTITION_METADATA).write_bytes(content)
        with pytest.raises(StorageError, match=message):
            read_topic_id(DISK, str(tmp_path))


class TestMetaProperties:
    def test_what_kafka_4_wrote_is_read(self, tmp_path):
        (tmp_path / META_PROPERTIES).write_text(
            "#\n#Sun Nov 15 14:00:00 UTC 2026\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n"
            "directory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\nversion=1\n"
        )
        assert read_meta_properties(DISK, str(tmp_path)) == MetaProperties(
            1, "MkU3OEVBNTcwNTJENDM2Qk", 1, bytes(range(16))
        )

    def test_a_broker_of_the_zookeeper_age_is_read(self, tmp_path):
        (tmp_path / META_PROPERTIES).write_text("version=0\nbroker.id=3\ncluster.id=abc\n")
        assert read_meta_properties(DISK, str(tmp_path)) == MetaProperties(0, "abc", 3)

    def test_the_oldest_file_has_neither_version_nor_cluster(self, tmp_path):
        (tmp_path / META_PROPERTIES).write_text("broker.id=3\n")
        assert read_meta_properties(DISK, str(tmp_path)) == MetaProperties(0, None, 3)

    def test_what_was_written_is_read_with_the_keys_we_do_not_know(self, tmp_path):
        identity = MetaProperties(1, "c=1 #", 2, bytes(16), {"vendor.key": " x:\ty\\"})
        write_meta_properties(DISK, str(tmp_path), identity)
        assert read_meta_properties(DISK, str(tmp_path)) == identity

    def test_version_0_is_written_with_broker_id(self, tmp_path):
        write_meta_properties(DISK, str(tmp_path), MetaProperties(0, "abc", 3))
        content = (tmp_path / META_PROPERTIES).read_text()
        assert content == "version=0\ncluster.id=abc\nbroker.id=3\n"

    def test_a_new_folder_has_no_identity(self, tmp_path):
        assert read_meta_properties(DISK, str(tmp_path)) is None

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("version=2\n", "version 2 is not known"),
            ("version=one\n", "'one' is not an integer"),
            ("version=1\nnode.id=1\n", "cluster.id is missing"),
            ("version=1\ncluster.id=c\n", "node.id is missing"),
            ("version=1\ncluster.id=c\nnode.id=x\n", "'x' is not an integer"),
            ("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=x\n", "'x'"),
            ("version=1\n\ncluster.id=\\u12\n", "line 3: "),
            ("version=1\n\ncluster.id=\\ud83c\n", "line 3: "),
        ],
    )
    def test_a_bad_file_is_named_with_what_is_wrong(self, tmp_path, content, message):
        (tmp_path / META_PROPERTIES).write_text(content)
        with pytest.raises(StorageError, match=message) as caught:
            read_meta_properties(DISK, str(tmp_path))
        assert caught.value.path == f"{tmp_path}/{META_PROPERTIES}"


class TestMarks:
    def test_the_clean_mark_is_kafkas(self, tmp_path):
        write_clean_mark(DISK, str(tmp_path), CleanMark(broker_epoch=17))
        assert json.loads((tmp_path / CLEAN_MARK).read_text()) == {"version": 0, "brokerEpoch": 17}
        assert read_clean_mark(DISK, str(tmp_path)) == CleanMark(17)

    def test_the_clean_mark_can_be_taken_away_twice(self, tmp_path):
        write_clean_mark(DISK, str(tmp_path), CleanMark())
        remove_clean_mark(DISK, str(tmp_path))
        remove_clean_mark(DISK, str(tmp_path))
        assert read_clean_mark(DISK, str(tmp_path)) is None

    @pytest.mark.parametrize(
        "content", [b"", b"[]", b"{", b'{"brokerEpoch": "x"}', b'{"brokerEpoch": true}', b"\xff"]
    )
    def test_a_clean_mark_counts_by_being_there(self, tmp_path, content):
        (tmp_path / CLEAN_MARK).write_bytes(content)
        assert read_clean_mark(DISK, str(tmp_path)) == CleanMark(-1)

    def test_the_open_mark_keeps_the_boot_id_and_the_broker_epoch(self, tmp_path):
        assert read_open_mark(DISK, str(tmp_path)) is None
        write_open_mark(DISK, str(tmp_path), OpenMark("5d5a3c9e", 17))
        assert read_open_mark(DISK, str(tmp_path)) == OpenMark("5d5a3c9e", 17)

    def test_the_open_mark_keeps_the_incarnation_that_was_not_answered(self, tmp_path):
        asking = OpenMark("5d5a3c9e", 17, bytes(range(16)))
        write_open_mark(DISK, str(tmp_path), asking)
        assert read_open_mark(DISK, str(tmp_path)) == asking
        spoilt = (tmp_path / OPEN_MARK).read_text().replace("AAEC", "A*EC")
        (tmp_path / OPEN_MARK).write_text(spoilt)
        assert read_open_mark(DISK, str(tmp_path)) == OpenMark("5d5a3c9e", 17)

    @pytest.mark.parametrize("rest", [b"", b',"brokerEpoch":"x"', b',"brokerEpoch":true'])
    def test_an_open_mark_without_an_epoch_has_its_boot_id(self, tmp_path, rest):
        (tmp_path / OPEN_MARK).write_bytes(b'{"version":0,"bootId":"5d5a3c9e"' + rest + b"}")
        assert read_open_mark(DISK, str(tmp_path)) == OpenMark("5d5a3c9e", -1)

    @pytest.mark.parametrize("content", [b"", b"5", b'{"bootId": 5}', b"\xff\xfe"])
    def test_an_unreadable_open_mark_is_an_unknown_boot(self, tmp_path, content):
        (tmp_path / OPEN_MARK).write_bytes(content)
        assert read_open_mark(DISK, str(tmp_path)) is None


class TestProperties:
    @pytest.mark.parametrize(
        ("text", "properties"),
        [
            ("a=1\nb = 2\nc: 3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
            ("# no\n! no\n\n   \n  a=1", {"a": "1"}),
            ("a=1,\\\n    2,\\\n    3\nb=4", {"a": "1,2,3", "b": "4"}),
            ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
            ("a=x\\ty\\u00e9\\q", {"a": "x\ty\u00e9q"}),
            ("a\\=b\\ c=d=e", {"a=b c": "d=e"}),
            ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
            ("a\nb=\n", {"a": "", "b": ""}),
            ("a=1\na=2", {"a": "2"}),
            ("a=1\\", {"a": "1"}),
            ("a==b", {"a": "=b"}),
        ],
    )
    def test_text_is_read_as_java_reads_it(self, text, properties):
        assert parse_properties(text) == properties

    def test_what_was_written_is_read(self):
        properties = {"a b": " x", "c=:": "#!\n\t\\", "é": "\U0001f30d", "": ""}
        text = format_properties(properties)
        assert text.isascii()
        assert parse_properties(text) == properties
