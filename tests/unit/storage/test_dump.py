"""The dump tool prints Kafka's own lines and names whatever is wrong."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kits import dump_samples
from kits.dump_samples import DAMAGED, METADATA, MISLED, OLD, SOUND, STEM
from moldau.base.errors import UserError
from moldau.cli.dump_log import dump_log
from moldau.records.batch import crc_ok
from moldau.records.compression import Codec
from moldau.records.control import ControlType, control_batch
from moldau.records.legacy import message_set
from moldau.records.record import Record
from moldau.storage.disk import Disk
from moldau.storage.dump import DumpOptions, LogDump
from moldau.storage.dump_decoders import metadata_record
from moldau.storage.dump_lines import CurrentForm, OldForm

KAFKAS_LINES = Path(__file__).parent / "dumps"
FILES = [
    f"{SOUND}/{STEM}.log",
    f"{SOUND}/{STEM}.index",
    f"{SOUND}/{STEM}.timeindex",
    f"{SOUND}/{STEM}.txnindex",
    f"{SOUND}/{19:020d}.snapshot",
    f"{OLD}/{STEM}.log",
    f"{DAMAGED}/{STEM}.log",
    f"{DAMAGED}/{3:020d}.snapshot",
    f"{MISLED}/{STEM}.index",
    f"{MISLED}/{STEM}.timeindex",
]
FORMS = {"current": CurrentForm(), "old": OldForm()}
DEPTHS = {
    "batches": {},
    "deep": {"deep_iteration": True},
    "data": {"print_data_log": True},
}


@pytest.fixture(autouse=True)
def samples(tmp_path, monkeypatch):
    dump_samples.write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)


def dumped(*paths, **options):
    """Return what goes to standard output, and what to standard error."""
    dump = LogDump(Disk(), DumpOptions(**options))
    lines = [line for path in paths for line in dump.lines(path)]
    return lines, list(dump.findings())


class TestAgainstKafka:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("depth", DEPTHS)
    def test_every_line_is_the_one_kafka_prints(self, form, depth):
        expected = (KAFKAS_LINES / f"{form}_{depth}.txt").read_text().splitlines()
        lines, _ = dumped(*FILES, form=FORMS[form], **DEPTHS[depth])
        assert lines == expected

    def test_a_metadata_log_is_the_json_kafka_prints(self):
        expected = (KAFKAS_LINES / "current_metadata.txt").read_text().splitlines()
        lines, findings = dumped(f"{METADATA}/{STEM}.log", decoder=metadata_record)
        assert lines == expected
        assert findings == []

    def test_the_samples_still_are_what_kafka_was_given(self):
        for batch in dump_samples.sound_batches():
            assert crc_ok(batch, 0, len(batch))


class TestFindings:
    def test_a_sound_folder_has_only_gaps(self):
        dump = LogDump(Disk(), DumpOptions(deep_iteration=True))
        list(dump.lines(f"{SOUND}/{STEM}.log"))
        assert not dump.corrupt
        assert list(dump.findings()) == [
            f"Non-consecutive offsets in {SOUND}/{STEM}.log",
            "  9 is followed by 14",
            "  15 is followed by 18",
        ]

    def test_the_old_form_tells_gaps_backwards(self):
        _, findings = dumped(f"{SOUND}/{STEM}.log", deep_iteration=True, form=OldForm())
        assert findings[1:] == ["  15 is followed by 18", "  9 is followed by 14"]

    @pytest.mark.parametrize("form", FORMS.values())
    @pytest.mark.parametrize("depth", DEPTHS.values())
    def test_every_bad_batch_is_named_with_file_and_position(self, form, depth):
        _, findings = dumped(f"{DAMAGED}/{STEM}.log", form=form, **depth)
        assert findings == [
            f"{DAMAGED}/{STEM}.log: batch at position 73, offset 1: the CRC does not match",
            f"{DAMAGED}/{STEM}.log: no whole batch at position 211, 24 bytes",
        ]

    def test_entries_that_point_elsewhere_are_named(self):
        offsets, times = f"{MISLED}/{STEM}.index", f"{MISLED}/{STEM}.timeindex"
        assert dumped(offsets)[1] == [
            f"{offsets}: Index offset: 4, log offset: 3, position: 73",
            f"{offsets}: Index offset: 10, log offset: 9, position: 508",
        ]
        first, second = 1700000000004, 1700000000003
        assert dumped(times)[1] == [
            f"{times}: Index timestamp: {first}, log timestamp: 1700000000005",
            f"{times}: Index timestamp: {second}, log timestamp: 1700000009999",
            f"{times}: Index timestamp: {second}, Previously indexed timestamp: {first}",
            f"{times}: Indexed offset: 6, found log offset: 7",
        ]

    def test_an_entry_behind_the_log_is_named(self):
        path = Path(f"{SOUND}/{STEM}.index")
        path.write_bytes(bytes([0, 0, 0, 3, 0, 0, 0xFF, 0]))
        _, findings = dumped(str(path))
        assert findings == [f"{path}: offset 3: no batch at position 65280"]

    def test_garbage_in_the_middle_ends_the_file_and_is_named(self):
        path = Path(f"{SOUND}/{STEM}.log")
        path.write_bytes(dump_samples.sound_batches()[0] + bytes(100))
        lines, findings = dumped(str(path))
        assert len(lines) == 3
        assert [each.partition(": no batch at position 73: ")[0] for each in findings] == [
            str(path)
        ]

    def test_records_that_do_not_fit_their_count_are_named_and_the_next_batch_follows(self):
        first, second = (dump_samples.built(n, (0, None, b"x")) for n in (0, 1))
        path = Path(f"{SOUND}/{STEM}.log")
        path.write_bytes(dump_samples.changed(first, count=2, last_offset_delta=1) + second)
        lines, findings = dumped(str(path), deep_iteration=True)
        assert [line[:13] for line in lines[2:]] == [
            "baseOffset: 0",
            "baseOffset: 1",
            "| offset: 1 C",
        ]
        assert len(findings) == 1
        assert findings[0].startswith(f"{path}: batch at position 0, offset 0: ")


class TestOptions:
    def test_max_bytes_ends_before_the_batch_that_passes_it(self):
        lines, findings = dumped(f"{SOUND}/{STEM}.log", max_bytes=200)
        assert len(lines) == 4
        assert findings == []

    def test_without_metadata_only_keys_and_values_are_left(self):
        lines, _ = dumped(
            f"{SOUND}/{STEM}.log", print_data_log=True, skip_record_metadata=True, max_bytes=200
        )
        assert lines[3:] == [
            "| payload: hello",
            lines[4],
            "| key: k1 payload: v1",
            "| key: k2",
            "| payload: ",
        ]

    def test_verifying_prints_nothing_but_finds_the_same(self):
        paths = [f"{MISLED}/{STEM}.index", f"{MISLED}/{STEM}.timeindex"]
        lines, findings = dumped(*paths, verify_index_only=True)
        assert lines == [f"Dumping {path}" for path in paths]
        assert findings == dumped(*paths)[1]

    def test_a_sane_index_passes_and_half_an_entry_does_not(self):
        path = Path(f"{SOUND}/{STEM}.index")
        lines, findings = dumped(str(path), index_sanity_check=True)
        assert (lines[1:], findings) == ([f"{path} passed sanity check."], [])
        path.write_bytes(path.read_bytes() + b"abc")
        lines, findings = dumped(str(path), index_sanity_check=True)
        assert lines[1:] == []
        assert findings[0].startswith(f"{path}: ")

    def test_the_zeros_a_crash_leaves_are_not_printed(self):
        for suffix, entry in ((".index", 8), (".timeindex", 12)):
            path = Path(f"{SOUND}/{STEM}{suffix}")
            whole = dumped(str(path))
            path.write_bytes(path.read_bytes() + bytes(entry * 10))
            assert dumped(str(path)) == whole

    @pytest.mark.parametrize(("form", "lines"), [("current", 2), ("old", 1)])
    def test_an_empty_index_is_said_to_be_empty(self, form, lines):
        path = Path(f"{SOUND}/{STEM}.index")
        path.write_bytes(b"")
        assert len(dumped(str(path), form=FORMS[form])[0]) == lines


class TestOtherFiles:
    def test_checkpoints_are_printed_in_our_own_form(self):
        Path("recovery-point-offset-checkpoint").write_text("0\n2\nt 0 5\nu 1 6\n")
        lines, findings = dumped(
            f"{SOUND}/leader-epoch-checkpoint",
            f"{SOUND}/partition.metadata",
            "recovery-point-offset-checkpoint",
        )
        assert lines == [
            f"Dumping {SOUND}/leader-epoch-checkpoint",
            "leaderEpoch: 0 startOffset: 0",
            "leaderEpoch: 3 startOffset: 1",
            "leaderEpoch: 4 startOffset: 14",
            f"Dumping {SOUND}/partition.metadata",
            "topicId: AAECAwQFBgcICQoLDA0ODw",
            "Dumping recovery-point-offset-checkpoint",
            "topic: t partition: 0 offset: 5",
            "topic: u partition: 1 offset: 6",
        ]
        assert findings == []

    def test_a_bad_checkpoint_is_a_finding(self):
        Path("recovery-point-offset-checkpoint").write_text("0\n2\nt 0 5\n")
        _, findings = dumped("recovery-point-offset-checkpoint")
        assert findings == [
            "recovery-point-offset-checkpoint: line 2: 2 entries announced, 1 found"
        ]

    def test_metadata_snapshots_are_logs_with_another_title(self):
        content = control_batch(ControlType.SNAPSHOT_FOOTER, b"\0\0\0", 5)
        for name in ("bootstrap.checkpoint", "00000000000000000042-0000000007.checkpoint"):
            Path(name).write_bytes(content)
        lines, findings = dumped(
            "bootstrap.checkpoint",
            "00000000000000000042-0000000007.checkpoint",
            deep_iteration=True,
        )
        assert lines[1] == "KRaft bootstrap snapshot"
        assert lines[5] == "Snapshot end offset: 42, epoch: 7"
        assert lines[3].endswith('headerKeys: [] SnapshotFooter {"version":0}')
        assert findings == []

    @pytest.mark.parametrize("value", [None, b"", b"junk", b"\x01\x63\x00", b"\x01\x02\x09x"])
    def test_a_value_that_is_no_metadata_record_is_said_to_be_skipped(self, value):
        path = Path(f"{METADATA}/{STEM}.log")
        path.write_bytes(dump_samples.built(7, (0, b"k", value)))
        lines, _ = dumped(str(path), decoder=metadata_record)
        assert " payload: Error at 7, skipping. " in lines[3]
        assert " key: " not in lines[3]

    def test_a_control_record_of_the_future_is_shown_by_its_number(self):
        path = Path(f"{METADATA}/{STEM}.log")
        batch = control_batch(77, b"\0\0", 5)
        path.write_bytes(batch)
        lines, findings = dumped(str(path), deep_iteration=True)
        assert lines[3].endswith("headerKeys: [] controlType: UNKNOWN(77)")
        assert findings == []

    @pytest.mark.parametrize("magic", [0, 1])
    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    def test_wrapped_old_messages_are_unwrapped(self, magic, codec):
        records = [Record(n, 5 if magic else -1, b"k", b"v%d" % n) for n in (3, 4)]
        path = Path(f"{OLD}/{STEM}.log")
        path.write_bytes(message_set(records, magic, codec))
        lines, findings = dumped(str(path), print_data_log=True)
        plain = message_set(records, magic)
        crcs = [int.from_bytes(plain[at + 12 : at + 16], "big") for at in (0, len(plain) // 2)]
        time = "CreateTime: 5" if magic else "NoTimestampType: -1"
        assert lines[3:] == [
            f"| offset: {n} {time} keySize: 1 valueSize: 2 isValid: true crc: {crc} "
            f"key: k payload: v{n}"
            for n, crc in zip((3, 4), crcs, strict=True)
        ]
        assert findings == []

    def test_an_old_message_with_a_wrong_checksum_is_shown_and_named(self):
        path = Path(f"{OLD}/{STEM}.log")
        content = bytearray(path.read_bytes())
        content[14] ^= 1
        path.write_bytes(content)
        lines, findings = dumped(str(path), deep_iteration=True)
        assert lines[2].endswith("isvalid: false")
        assert "isValid: false" in lines[3]
        assert "isValid: true" in lines[5]
        assert findings == [f"{path}: batch at position 0, offset 0: the CRC does not match"]

    def test_an_unknown_file_is_passed_over(self):
        lines, findings = dumped("notes.txt")
        assert lines == ["Dumping notes.txt"]
        assert findings == ["Ignoring unknown file notes.txt"]

    @pytest.mark.parametrize(
        "path", [f"{SOUND}/{99:020d}.log", f"{99:020d}.index", "no-0/x.snapshot"]
    )
    def test_a_missing_file_is_one_clear_line(self, path):
        with pytest.raises(UserError, match=f"{path}: no such file"):
            dumped(path)

    @pytest.mark.parametrize("name", ["x.log", "x.index", "1.checkpoint"])
    def test_a_name_without_an_offset_is_one_clear_line(self, name):
        Path(name).write_bytes(b"")
        Path("x.log").touch()
        with pytest.raises(UserError, match=name):
            dumped(name)


class TestCommand:
    def run(self, *arguments):
        return CliRunner().invoke(dump_log, ["--files", *arguments])

    def test_a_sound_log_ends_with_0(self):
        result = self.run(f"{SOUND}/{STEM}.log,{SOUND}/{STEM}.index", "--print-data-log")
        assert result.exit_code == 0
        assert "payload: hello" in result.stdout
        assert "  9 is followed by 14" in result.stderr

    def test_corruption_ends_with_1(self):
        result = self.run(f"{DAMAGED}/{STEM}.log")
        assert result.exit_code == 1
        assert "position 73" in result.stderr

    def test_the_old_form_is_a_flag_away(self):
        result = self.run(f"{SOUND}/{STEM}.log", "--print-data-log", "--old-form")
        assert result.stdout == "".join(
            f"{line}\n"
            for line in dumped(f"{SOUND}/{STEM}.log", print_data_log=True, form=OldForm())[0]
        )

    def test_a_missing_file_is_left_to_the_command_lines_one_line(self):
        result = self.run(f"{99:020d}.log")
        assert isinstance(result.exception, UserError)
