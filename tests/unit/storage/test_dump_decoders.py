"""What the dump tool makes of keys and values: Kafka's own text, whatever the bytes are."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import dump_samples
from kits.dump_samples import METADATA, OFFSETS, SOUND, STEM, TRANSACTIONS
from moldau.base.errors import UserError
from moldau.cli.dump_log import dump_log
from moldau.coordination.record_texts import offsets_record, transaction_record
from moldau.storage.disk import Disk
from moldau.storage.dump import DumpOptions, LogDump
from moldau.storage.dump_decoders import STRING_DECODER, by_classes
from moldau.storage.dump_lines import OldForm
from moldau.storage.inspection import InspectedRecord

KAFKAS_LINES = Path(__file__).parent / "dumps"
INTERNAL = {
    "offsets": (OFFSETS, offsets_record),
    "transactions": (TRANSACTIONS, transaction_record),
}
NUMBERS = "org.apache.kafka.tools.api"


@pytest.fixture
def samples(tmp_path, monkeypatch):
    dump_samples.write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)


def record(key, value, offset=5):
    return InspectedRecord(offset, -1, key, value)


def dumped(path, **options):
    dump = LogDump(Disk(), DumpOptions(**options))
    lines = list(dump.lines(path))
    assert list(dump.findings()) == []
    return lines


def run(*arguments):
    return CliRunner().invoke(dump_log, arguments)


@pytest.mark.usefixtures("samples")
class TestInternalTopics:
    @pytest.mark.parametrize("name", INTERNAL)
    def test_every_line_is_the_one_kafka_prints(self, name):
        folder, decoder = INTERNAL[name]
        expected = (KAFKAS_LINES / f"current_{name}.txt").read_text().splitlines()
        assert dumped(f"{folder}/{STEM}.log", decoder=decoder) == expected

    @pytest.mark.parametrize(
        ("option", "folder", "name"),
        [
            ("--offsets-decoder", OFFSETS, "offsets"),
            ("--transaction-log-decoder", TRANSACTIONS, "transactions"),
            ("--cluster-metadata-decoder", METADATA, "metadata"),
        ],
    )
    def test_a_decoder_is_an_option_away(self, option, folder, name):
        result = run("--files", f"{folder}/{STEM}.log", option)
        assert result.stdout == (KAFKAS_LINES / f"current_{name}.txt").read_text()
        assert result.exit_code == 0

    def test_the_old_form_shows_the_same_text_in_its_own_lines(self):
        lines = dumped(f"{OFFSETS}/{STEM}.log", decoder=offsets_record, form=OldForm())
        assert lines[2].startswith("offset: 0 position: 0 ")
        assert lines[2].endswith('"commitTimestamp":1700000000000}}')


@pytest.mark.parametrize("decoder", [offsets_record, transaction_record])
class TestWhatCannotBeRead:
    @pytest.mark.parametrize("key", [None, b"", b"\0"])
    def test_a_key_without_a_type_is_said_to_be_skipped(self, decoder, key):
        contents = decoder(record(key, b"\0\0"))
        assert contents.key.startswith("Error at offset 5, skipping. ")
        assert contents.payload is None

    def test_a_value_of_the_future_is_said_to_be_skipped(self, decoder):
        key = {
            offsets_record: dump_samples.offset_records()[0][0],
            transaction_record: dump_samples.transaction_records()[0][0],
        }[decoder]
        contents = decoder(record(key, b"\0\x63"))
        assert contents.key.startswith("Error at offset 5, skipping. ")
        assert "no version 99" in contents.key

    @settings(max_examples=150)
    @given(data=st.data())
    def test_damaged_bytes_are_shown_or_said_to_be_skipped(self, decoder, data):
        known = [*dump_samples.offset_records(), *dump_samples.group_records()]
        if decoder is transaction_record:
            known = dump_samples.transaction_records()
        key, value = data.draw(st.sampled_from(known))
        value = value or b""
        position = data.draw(st.integers(0, len(value)))
        spoilt = value[:position] + data.draw(st.binary(max_size=4)) + value[position + 2 :]
        contents = decoder(record(key, spoilt))
        if contents.payload is None:
            assert "skipping." in contents.key
        else:
            assert json.loads(contents.payload)["data"]


class TestClasses:
    def test_numbers_are_read_as_kafkas_decoders_do(self):
        decoder = by_classes(f"{NUMBERS}.IntegerDecoder", "kafka.serializer.LongDecoder")
        contents = decoder(record(b"\xff\xff\xff\xfe", b"\0\0\0\0\0\0\1\0"))
        assert contents == ("-2", "256")
        assert decoder(record(None, None)) == (None, None)

    def test_too_few_bytes_for_a_number_are_said_to_be(self):
        decoder = by_classes(f"{NUMBERS}.LongDecoder", STRING_DECODER)
        assert decoder(record(b"abc", b"text")) == ("(3 bytes, not 8)", "text")

    @pytest.mark.parametrize("name", ["org.example.Own", "StringDecoder", "kafka.serializer.Other"])
    def test_a_class_of_ones_own_is_refused_in_one_line(self, name):
        with pytest.raises(UserError, match=f"{name} cannot be run here"):
            by_classes(name, STRING_DECODER)

    @pytest.mark.usefixtures("samples")
    def test_the_options_mean_contents_and_need_no_name_for_text(self):
        plain = run("--files", f"{SOUND}/{STEM}.log", "--print-data-log").stdout
        for option in ("--key-decoder-class", "--value-decoder-class"):
            assert run("--files", f"{SOUND}/{STEM}.log", option).stdout == plain
            named = run(option, STRING_DECODER, "--files", f"{SOUND}/{STEM}.log")
            assert named.stdout == plain
